import pytest
import torch

from components.collector.delay import DelayedCollector
from components.collector.group import GreedyBaselineCollector, GroupCollector
from components.conditioning import TextPrefix
from components.objectives import MultiObjectiveReward
from components.pareto.scalarisation import LinearScalarisation
from components.reward.surface import Brevity
from components.sampler.prompts import Uniform
from components.worlds.sorting.task import Sorting
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.engine.minibatch import micro_batches, minibatches
from rlcomp.errors import ConfigError, DataError, ShapeError
from rlcomp.metrics import recording
from rlcomp.run.stages import Nothing, Refill
from rlcomp.testing import make_batch, tiny_policy
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="0123456789>:,ab")
TASK = Sorting(length=3)


def several(first, *others):
    return MultiObjectiveReward(
        parts={name: Brevity(longest=4) for name in others},
        aggregator=LinearScalarisation(weights=None),
        first=first,
    )


def make(objectives=("a", "b"), *, context_length=16, seed=0, **arguments):
    torch.manual_seed(seed)
    return TextPrefix(
        objectives=several(*objectives),
        task=TASK,
        tokenizer=TOKENIZER,
        context_length=context_length,
        max_new_tokens=4,
        **arguments,
    )


def prompts(count=3):
    texts = [f"{n}12>" for n in range(count)]
    return make_batch(prompt=encode_texts(texts), answer=["1"] * count)


def sampler(count=3):
    return Uniform(
        task=TASK, tokenizer=TOKENIZER, batch_size=count, context_length=16, max_new_tokens=4
    )


def weights_read(text):
    """The weights that stand in front of a prompt, in ninths."""
    return [int(digit) / 9 for digit in text.split(":")[0]]


def test_a_preference_is_written_in_steps_before_the_prompt():
    assert make().condition(["12>", "3>"], torch.tensor([0.64, 0.36])) == ["63:12>", "63:3>"]


def test_every_prompt_may_be_asked_with_weights_of_its_own():
    weights = torch.tensor([[1.0, 0.0], [0.0, 1.0]])

    assert make().condition(["12>", "3>"], weights) == ["90:12>", "09:3>"]


def test_names_and_separators_are_the_templates():
    made = make(levels=20, template="{name}{steps},", end="", context_length=20)

    assert made.condition(["12>"], torch.tensor([0.5, 0.5])) == ["a10,b10,12>"]


def test_the_preference_is_what_is_written():
    batch = make(("a", "b", "c"))(prompts(200))

    asked = decode_texts(batch["policy_prompt"])
    torch.testing.assert_close(
        batch["preference"], torch.tensor([weights_read(text) for text in asked])
    )
    assert [text.split(":")[1] for text in asked] == decode_texts(batch["prompt"])
    assert len({*map(tuple, batch["preference"].tolist())}) > 20


def test_the_prompt_stays_as_it_is():
    assert decode_texts(make()(prompts())["prompt"]) == decode_texts(prompts()["prompt"])


def test_a_small_alpha_asks_for_one_objective_at_a_time():
    drawn = make(alpha=0.001)(prompts(100))["preference"]

    assert float((drawn.max(1).values == 1).float().mean()) > 0.95


def test_the_generator_decides_what_is_drawn():
    made = make()
    state = made.generator.get_state()
    first, second = made(prompts()), made(prompts())
    made.generator.set_state(state)

    assert torch.equal(made(prompts())["preference"], first["preference"])
    assert not torch.equal(first["preference"], second["preference"])
    assert not torch.equal(make(seed=1)(prompts())["preference"], first["preference"])


def test_mean_weights_are_recorded():
    with recording() as ledger:
        batch = make()(prompts())

    wanted = batch["preference"].tolist()
    assert wanted[0] != wanted[1]
    assert ledger.means() == pytest.approx(
        {f"preference/{name}": sum(row[k] for row in wanted) / 3 for k, name in enumerate("ab")}
    )


@pytest.mark.parametrize("kind", ["group", "greedy", "delayed"])
def test_every_collector_hands_on_one_preference_for_all_answers_to_a_prompt(kind):
    policy = tiny_policy(tokenizer=TOKENIZER)
    cls = GreedyBaselineCollector if kind == "greedy" else GroupCollector
    collector = cls(policy=policy, group_size=4, max_new_tokens=4)
    if kind == "delayed":
        collector = DelayedCollector(collector=collector, staleness=1)
    asked = make()(prompts())

    batch = collector(asked)

    answers = batch.shape[0] // 3
    assert answers == (5 if kind == "greedy" else 4)
    for key in ("preference", "policy_prompt", "prompt"):
        assert torch.equal(batch[key], asked[key].repeat_interleave(answers, 0)), key
    heads = [
        TOKENIZER.decode(row[: len(text)])
        for row, text in zip(
            batch["tokens"].tolist(), decode_texts(batch["policy_prompt"]), strict=True
        )
    ]
    assert heads == decode_texts(batch["policy_prompt"])
    assert int(batch["response_mask"].int().argmax(1).min()) == len("72:012>")


def test_waiting_rollouts_keep_their_preferences_in_a_checkpoint():
    policy = tiny_policy(tokenizer=TOKENIZER)
    inner = GroupCollector(policy=policy, group_size=2, max_new_tokens=4)
    first, second = (DelayedCollector(collector=inner, staleness=1) for _ in range(2))
    first(make()(prompts()))
    waiting = first.queue[0].rows["preference"]
    second.load_run_state(first.run_state())

    assert torch.equal(second(make()(prompts()))["preference"], waiting)


class DropSome(torch.nn.Module):
    """Keeps the first group of every round."""

    def forward(self, batch):
        return batch[batch["group_id"] == 0]


def test_groups_keep_their_preference_through_refilling_and_minibatches():
    collector = GroupCollector(
        policy=tiny_policy(tokenizer=TOKENIZER), group_size=4, max_new_tokens=4
    )
    refill = Refill(rows=12, stages=[sampler(), make(), collector, DropSome()], max_tries=5)

    batch = refill()
    parts = [
        micro
        for part in minibatches(batch, 3, 1, torch.Generator().manual_seed(0))
        for micro in micro_batches(part, 40, 1, packed=True)
    ]

    assert batch["group_id"].unique().tolist() == [0, 1, 2]
    for each in (batch, *parts):
        read = [weights_read(text) for text in decode_texts(each["policy_prompt"])]
        torch.testing.assert_close(each["preference"], torch.tensor(read))
        for group in each["group_id"].unique():
            assert len(each["preference"][each["group_id"] == group].unique(dim=0)) == 1


def test_a_character_without_a_token_is_refused_at_construction():
    with pytest.raises(DataError, match=r"'\|'"):
        make(end="|")


def test_a_prompt_without_room_behind_the_prefix_is_refused():
    # Prefix 3, prompt 4, answer 4.
    make(context_length=11)
    with pytest.raises(DataError, match=r"'..:...>' has 7 tokens.*context_length 10"):
        make(context_length=10)


def test_room_is_left_for_the_longest_prefix():
    # "12," is longer than "0,": two of them, ":", 4 of the prompt, 4 of the answer.
    twelve = {"levels": 12, "template": "{steps},"}
    make(context_length=15, **twelve)
    with pytest.raises(DataError, match="context_length 14"):
        make(context_length=14, **twelve)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"levels": 10}, "1 and 12 have the text of 11 and 2"),
        ({"template": "{name}"}, "must hold {steps}"),
    ],
)
def test_preferences_that_would_read_the_same_are_refused(arguments, words):
    with pytest.raises(ConfigError, match=words):
        make(**arguments)


def test_one_objective_alone_is_refused():
    with pytest.raises(ConfigError, match=r"objectives is a Nothing.*\+objective=brevity"):
        TextPrefix(
            objectives=Nothing(),
            task=TASK,
            tokenizer=TOKENIZER,
            context_length=16,
            max_new_tokens=4,
        )


def test_as_many_weights_as_objectives_are_asked_for():
    with pytest.raises(ShapeError, match="2 objectives: a, b"):
        make().condition(["12>"], torch.tensor([1.0]))
