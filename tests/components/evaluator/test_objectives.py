import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from components.conditioning import TextPrefix
from components.evaluator.objectives import ObjectivesEvaluator
from components.objectives import MultiObjectiveReward
from components.reward.function import FunctionReward
from components.reward.surface import Brevity
from components.worlds.addition.task import Addition
from rlcomp.errors import ConfigError, MissingExtra
from rlcomp.metrics import recording
from rlcomp.pareto.aggregator import Aggregator
from rlcomp.run.stages import Nothing
from rlcomp.testing import tiny_policy
from rlcomp.text.rows import rows_from_ids
from rlcomp.text.tokenizer import byte_tokenizer, character_tokenizer, encode_all

SEED, PROMPTS, LEVELS = 3, 3, 9
TASK = Addition(digits=2, held_out=0.2)
TOKENIZER = character_tokenizer(characters="0123456789+=>")


class Untouched(Aggregator):
    """Aggregator that an evaluation must not call."""

    def weigh(self, objectives):
        raise AssertionError


class Says:
    """Policy with answers by a function of the prompt and of the number of the answer."""

    def __init__(self, answer) -> None:
        self.answer = answer
        self.asked = []

    tokenizer = byte_tokenizer()
    context_length = None

    def generate(self, prompts, *, group_size, **_):
        texts = [self.tokenizer.decode(prompt) for prompt in prompts]
        self.asked.append(texts)
        rows = [(n, text, k) for n, text in enumerate(texts) for k in range(group_size)]
        answers = encode_all(self.tokenizer, [self.answer(text, k) for _, text, k in rows])
        made = rows_from_ids(self.tokenizer, [prompts[n] for n, *_ in rows], answers)
        made["rollout_log_probs"] = torch.zeros(made["tokens"].shape)
        made["policy_version"] = torch.zeros_like(made["tokens"])
        made["group_id"] = torch.tensor([n for n, *_ in rows])
        made["truncated"] = torch.zeros(len(rows), dtype=torch.bool)
        return made


def length(response):
    return len(response) / LEVELS


def several(**parts):
    return MultiObjectiveReward(
        parts=parts or {"brevity": Brevity(longest=LEVELS)}, aggregator=Untouched()
    )


def evaluator(policy, **changed):
    torch.manual_seed(SEED)
    arguments = {
        "policy": policy,
        "task": TASK,
        "reward": FunctionReward(function=length, correct_by="function"),
        "objectives": several(),
        "num_prompts": PROMPTS,
        "samples_per_prompt": 2,
        "max_new_tokens": 3,
        "num_shown": 0,
    }
    return ObjectivesEvaluator(**(arguments | changed))


def told(names=("correctness", "brevity"), **changed):
    arguments = {"task": TASK, "tokenizer": TOKENIZER, "context_length": 32, "max_new_tokens": 3}
    parts = {name: Brevity(longest=LEVELS) for name in names[1:]}
    stage = MultiObjectiveReward(parts=parts, aggregator=Untouched(), first=names[0])
    return TextPrefix(objectives=stage, levels=LEVELS, end=">", **(arguments | changed))


def measured(evaluation):
    with recording() as ledger:
        evaluation(TensorDict({}, batch_size=[]))
    return ledger.means()


def test_returns_are_means_over_answers_and_their_hypervolume_is_above_the_reference():
    # Greedy and first answers have 3 characters, second ones 6: a length of (3 + 6) / 2 / 9 = 0.5,
    # and a brevity of 0.5; the box from (0.25, 0) holds 0.25 * 0.5.
    policy = Says(lambda prompt, number: "1" * (3 + 3 * number))

    means = measured(evaluator(policy, reference_point={"correctness": 0.25}))

    assert means["evaluation/return/correctness"] == pytest.approx(0.5)
    assert means["evaluation/return/brevity"] == pytest.approx(0.5)
    assert means["evaluation/hypervolume"] == pytest.approx(0.125)


def test_accuracies_are_recorded_as_ever():
    means = measured(evaluator(Says(lambda prompt, number: "1" * LEVELS * number)))

    # The full length is right: the second answer of each prompt alone, the greedy one never.
    assert means["evaluation/greedy"] == 0.0
    assert means["evaluation/sampled"] == 0.5
    assert means["evaluation/pass@2"] == 1.0
    assert not [name for name in means if "@" in name and "pass" not in name]


def test_returns_have_an_interval_over_prompts():
    policy = Says(lambda prompt, number: "1" * (int(prompt[0]) % 5))

    means = measured(evaluator(policy, num_prompts=12))

    for name in ("correctness", "brevity"):
        low, mean, high = (means[f"evaluation/return/{name}{end}"] for end in ("_low", "", "_high"))
        assert low < mean < high


@given(
    table=st.lists(
        st.lists(st.none() | st.integers(-4, 4), min_size=2, max_size=2),
        min_size=PROMPTS,
        max_size=PROMPTS,
    )
)
def test_rows_without_a_label_are_left_out_of_their_objective_alone(table):
    labels = FunctionReward(function=lambda response: table[int(response[0])][int(response[1])])
    policy = Says(lambda prompt, number: f"{order.index(prompt)}{number}")
    evaluation = evaluator(policy, objectives=several(given=labels))
    order = [example.prompt for example in evaluation.examples]

    means = measured(evaluation)

    judged = [[value for value in row if value is not None] for row in table]
    per_prompt = [sum(row) / len(row) for row in judged if row]
    assert means["evaluation/return/correctness"] == pytest.approx(2 / LEVELS)
    if per_prompt:
        expected = sum(per_prompt) / len(per_prompt)
        assert means["evaluation/return/given"] == pytest.approx(expected)
        assert means["evaluation/hypervolume"] == pytest.approx(max(expected, 0) * 2 / LEVELS)
    else:
        assert "evaluation/return/given" not in means
        assert "evaluation/hypervolume" not in means


def as_long_as_asked(prompt, number):
    """The prefix "63>" asks for 6 of 9 characters; such an answer gives exactly the weights."""
    return "1" * int(prompt[0])


def test_a_conditioned_policy_is_evaluated_on_a_grid_of_preferences():
    means = measured(evaluator(Says(as_long_as_asked), conditioning=told()))

    for label, weights in {"0:1": (0, 1), "0.333:0.667": (1 / 3, 2 / 3), "1:0": (1, 0)}.items():
        for name, weight in zip(("correctness", "brevity"), weights, strict=True):
            assert means[f"evaluation/return/{name}@{label}"] == pytest.approx(weight)
    # Under (1/3, 2/3) and (2/3, 1/3), the ends adding nothing: 1/3 * 2/3 + 1/3 * 1/3.
    assert means["evaluation/hypervolume"] == pytest.approx(1 / 3)
    assert means["evaluation/response/correctness"] == pytest.approx(1.0)
    assert means["evaluation/response/brevity"] == pytest.approx(1.0)


def test_a_conditioned_policy_is_also_evaluated_with_equal_weights():
    policy = Says(as_long_as_asked)

    means = measured(evaluator(policy, conditioning=told()))

    # Half of 9 steps: 5 and 4.
    assert means["evaluation/return/correctness"] == pytest.approx(5 / 9)
    assert {prompt[:3] for prompt in policy.asked[0] + policy.asked[1]} == {"54>"}
    assert [asked[0][:3] for asked in policy.asked[2:]] == ["90>", "63>", "36>", "09>"]


def test_a_policy_that_does_not_listen_does_not_respond():
    means = measured(evaluator(Says(lambda prompt, number: "11"), conditioning=told()))

    assert means["evaluation/response/correctness"] == 0.0
    assert means["evaluation/response/brevity"] == 0.0


def test_three_objectives_make_ten_preferences():
    names = ["correctness", "brevity", "digits"]
    parts = {
        "brevity": Brevity(longest=LEVELS),
        "digits": FunctionReward(function=lambda response: 0.0),
    }
    changed = {"conditioning": told(names), "objectives": several(**parts)}

    means = measured(evaluator(Says(as_long_as_asked), **changed))

    labels = {name.partition("@")[2] for name in means if name.startswith("evaluation/return/dig")}
    assert len(labels - {""}) == 10
    assert "0.333:0.333:0.333" in labels


def test_the_rewards_see_the_prompt_and_not_the_preference():
    seen = set()

    def judge(prompt, response):
        seen.add(prompt)
        return 1.0

    evaluation = evaluator(
        Says(as_long_as_asked),
        conditioning=told(("correctness", "other")),
        reward=FunctionReward(function=judge),
        objectives=several(other=FunctionReward(function=judge)),
    )
    measured(evaluation)

    assert seen == {example.prompt for example in evaluation.examples}


def test_an_evaluation_draws_from_no_generator_of_the_training_and_repeats_itself():
    conditioning = told()
    evaluation = evaluator(tiny_policy(tokenizer=TOKENIZER), conditioning=conditioning)
    before = torch.get_rng_state(), conditioning.generator.get_state()

    first = measured(evaluation)

    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.equal(conditioning.generator.get_state(), before[1])
    assert measured(evaluation) == first


def test_one_objective_is_refused():
    with pytest.raises(ConfigError, match=r"objectives is a Nothing.*\+objective=brevity"):
        evaluator(Says(as_long_as_asked), objectives=Nothing())


def test_a_reference_of_another_objective_is_refused():
    with pytest.raises(ConfigError, match="reference_point names 'brevty'; did you mean 'brevity'"):
        evaluator(Says(as_long_as_asked), reference_point={"brevty": 0.0})


def test_preferences_over_other_objectives_are_refused():
    with pytest.raises(ConfigError, match=r"conditioning.objectives are \['brevity', 'correct"):
        evaluator(Says(as_long_as_asked), conditioning=told(("brevity", "correctness")))


def test_missing_moocore_is_reported_before_the_run(monkeypatch):
    monkeypatch.setitem(sys.modules, "moocore", None)

    with pytest.raises(MissingExtra, match=r"rlcomp\[pareto\]"):
        evaluator(Says(as_long_as_asked))
