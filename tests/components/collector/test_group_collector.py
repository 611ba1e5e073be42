import pytest
import torch
from tensordict import TensorDict

from components.collector.group import GreedyBaselineCollector, GroupCollector
from components.filter import VariedGroupFilter
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.key_declarations import declare_keys
from rlcomp.metrics import recording
from rlcomp.run.stages import Refill
from rlcomp.testing import check_component, make_batch, tiny_policy
from rlcomp.text.prompt import TextPrompt


def prompts() -> TensorDict:
    return make_batch(prompt=["1+2=", "7="], answer=["3", "7"])


def collector() -> GroupCollector:
    torch.manual_seed(1)
    return GroupCollector(policy=tiny_policy(), group_size=3, max_new_tokens=4)


def test_every_prompt_is_answered_group_size_times():
    batch = collector()(prompts())

    assert batch["group_id"].tolist() == [0, 0, 0, 1, 1, 1]
    assert decode_texts(batch["prompt"]) == ["1+2="] * 3 + ["7="] * 3
    assert decode_texts(batch["answer"]) == ["3"] * 3 + ["7"] * 3


def test_it_writes_what_it_declares():
    assert set(collector()(prompts()).keys()) == {*GroupCollector.writes, "answer"}


def test_the_number_of_the_example_goes_with_its_answers():
    batch = collector()(prompts().set("example_id", torch.tensor([12, 5])))

    assert batch["example_id"].tolist() == [12] * 3 + [5] * 3


def test_whatever_belongs_to_the_prompt_goes_with_its_answers_and_nothing_else_does():
    declare_keys("own.Task", {"group_level": ("B", "int64", "how hard", {"per_prompt": True})})
    given = prompts().update({"group_level": torch.tensor([4, 2]), "reward": torch.zeros(2)})
    columns = {"tests": encode_texts(["[1]", "[2, 3]"])}
    given["columns"] = TensorDict(columns, batch_size=[2])
    given["policy_prompt"] = encode_texts(["2+1=", "=7"])

    batch = collector()(given)

    assert batch["group_level"].tolist() == [4] * 3 + [2] * 3
    assert decode_texts(batch["columns", "tests"]) == ["[1]"] * 3 + ["[2, 3]"] * 3
    assert decode_texts(batch["policy_prompt"]) == ["2+1="] * 3 + ["=7"] * 3
    assert decode_texts(batch["prompt"]) == ["1+2="] * 3 + ["7="] * 3
    assert "reward" not in batch.keys()


def test_it_keeps_the_contract_of_components_with_every_prompt_key():
    check_component(collector())


def test_what_belongs_to_the_prompt_passes_a_refill_and_its_filter():
    class Judge(Component):
        reads = ("example_id", "group_id")
        writes = ("reward", "reward_valid")

        def forward(self, batch):
            first = batch["group_id"] != batch["group_id"].roll(1)
            batch["reward"] = (first & (batch["example_id"] == 12)).float()
            return batch.set("reward_valid", torch.ones(len(batch), dtype=torch.bool))

    class Start(Component):
        writes = ("prompt", "answer", "example_id", "columns")
        fresh = True

        def forward(self, batch):
            made = prompts().set("example_id", torch.tensor([12, 5]))
            columns = {"tests": encode_texts(["a long one", "b"])}
            return made.set("columns", TensorDict(columns, batch_size=[2]))

    refill = Refill(rows=6, stages=[Start(), collector(), Judge(), VariedGroupFilter()])

    batch = refill()

    # Of each round the group of example 12 is kept: two rounds make six rows.
    assert batch["example_id"].tolist() == [12] * 6
    assert decode_texts(batch["columns", "tests"]) == ["a long one"] * 6
    assert batch["group_id"].tolist() == [0, 0, 0, 1, 1, 1]


def test_a_policy_that_does_not_stop_where_a_response_ends_is_refused():
    class Format(TextPrompt):
        def check_policy(self, policy):
            raise ConfigError("it goes on")

    policy = tiny_policy()
    for kind in (GroupCollector, GreedyBaselineCollector):
        with pytest.raises(ConfigError, match="it goes on"):
            kind(
                policy=policy,
                group_size=3,
                max_new_tokens=4,
                prompt=Format(tokenizer=policy.tokenizer),
            )


def test_answers_keep_to_their_length():
    batch = collector()(prompts())

    assert int(batch["response_mask"].sum(1).max()) <= 4


def test_the_next_batch_is_another_draw_and_the_same_again_from_the_same_state():
    made = collector()
    state = made.generator.get_state()
    first, second = made(prompts()), made(prompts())
    made.generator.set_state(state)

    assert decode_texts(first["response"]) != decode_texts(second["response"])
    assert decode_texts(made(prompts())["response"]) == decode_texts(first["response"])


def test_tokens_and_lengths_are_recorded(scripted):
    made = collector()
    scripted(made.policy, {"1+2=": ["3", "33", "3333"], "7=": ["7"]})

    with recording() as ledger:
        made(prompts())

    # With EOS 2, 3, of 5 the first 4, and three times 2.
    assert ledger.means() == pytest.approx(
        {"rollout/tokens": 15.0, "rollout/length": 15 / 6, "rollout/truncated": 1 / 6}
    )
