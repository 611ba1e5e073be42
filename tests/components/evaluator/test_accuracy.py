from dataclasses import replace
from functools import partial

import pytest
import torch
from tensordict import TensorDict

from components.evaluator.accuracy import Accuracy
from components.evaluator.budget import BudgetForcing
from components.evaluator.coverage import Coverage
from components.evaluator.forgetting import Forgetting
from components.reward.answer import ExactMatch
from components.reward.composite import ShuffledReward, WeightedSum
from components.reward.function import FunctionReward
from components.reward.majority_vote import MajorityVote
from components.reward.surface import Brevity, Length
from components.worlds.addition.task import Addition
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError, DataError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch, tiny_policy
from rlcomp.text.answers import answer_prompts

SEED, PROMPTS, SAMPLES = 3, 12, 4


def has_an_even_digit(response):
    return float(any(digit in response for digit in "02468"))


def evaluator(policy, **changed) -> Accuracy:
    torch.manual_seed(SEED)
    arguments = {
        "policy": policy,
        "task": Addition(digits=2, held_out=0.2),
        "reward": FunctionReward(function=has_an_even_digit, correct_by="function"),
        "num_prompts": PROMPTS,
        "samples_per_prompt": SAMPLES,
        "max_new_tokens": 3,
        "num_shown": 2,
    }
    return Accuracy(**(arguments | changed))


def empty() -> TensorDict:
    return TensorDict({}, batch_size=[])


def right_by_hand(policy, examples, group_size, decoding):
    """Return the right answers, [prompts, group_size], generated and judged here."""
    answered = answer_prompts(
        policy,
        [example.prompt for example in examples],
        group_size=group_size,
        max_new_tokens=3,
        decoding=decoding,
        generator=torch.Generator().manual_seed(SEED),
    )
    judged = [has_an_even_digit(text) for text in decode_texts(answered["response"])]
    return torch.tensor(judged).view(-1, group_size)


def test_accuracies_are_the_shares_of_right_answers():
    policy = tiny_policy()
    accuracy = evaluator(policy)

    with recording() as ledger:
        accuracy(empty())

    means = ledger.means()
    greedy = right_by_hand(policy, accuracy.examples, 1, Decoding(temperature=0.0))
    sampled = right_by_hand(policy, accuracy.examples, SAMPLES, None)
    assert 0 < sampled.mean().item() < 1
    assert means["evaluation/greedy"] == pytest.approx(greedy.mean().item())
    assert means["evaluation/sampled"] == pytest.approx(sampled.mean().item())
    assert means["evaluation/pass@1"] == pytest.approx(sampled.mean().item())
    assert means["evaluation/pass@4"] == pytest.approx(sampled.amax(1).mean().item())


def test_pass_at_k_is_reported_for_powers_of_two_with_intervals_around_it():
    with recording() as ledger:
        evaluator(tiny_policy())(empty())

    means = ledger.means()
    names = ["greedy", "sampled", "pass@1", "pass@2", "pass@4"]
    ends = ["", "_low", "_high"]
    intervals = {f"evaluation/{name}{end}" for name in names for end in ends}
    assert set(means) == intervals | {"evaluation/invalid_fraction"}
    assert means["evaluation/invalid_fraction"] == 0.0
    for name in names:
        low, mean, high = (means[f"evaluation/{name}{end}"] for end in ("_low", "", "_high"))
        assert low <= mean <= high


def test_a_second_evaluation_of_the_same_policy_gives_the_same_numbers():
    accuracy = evaluator(tiny_policy())

    with recording() as first:
        accuracy(empty())
    with recording() as second:
        accuracy(empty())

    assert first.means() == second.means()


class Verdicts(Component):
    """Reward with the same verdicts every time, by the number of rows."""

    reads = ("answer",)
    writes = ("correct", "reward_valid")

    def __init__(self, *, greedy: str, sampled: str) -> None:
        super().__init__()
        self.verdicts = {"greedy": greedy, "sampled": sampled}
        self.devices = set()

    def forward(self, batch: TensorDict) -> TensorDict:
        self.devices |= {batch["answer"].device.type}
        verdicts = self.verdicts["greedy" if len(batch) == 3 else "sampled"]
        batch["correct"] = torch.tensor([verdict == "+" for verdict in verdicts])
        batch["reward_valid"] = torch.tensor([verdict != "?" for verdict in verdicts])
        return batch


def measured(greedy: str, sampled: str) -> dict[str, float]:
    """Return the metrics of 3 prompts with 4 answers: + right, - wrong, ? not judged."""
    reward = Verdicts(greedy=greedy, sampled=sampled.replace(" ", ""))
    with recording() as ledger:
        evaluator(tiny_policy(), reward=reward, num_prompts=3)(empty())
    return ledger.means()


def test_answers_without_a_verdict_are_left_out():
    means = measured(greedy="+?-", sampled="+-?? +++? ????")

    assert means["evaluation/greedy"] == 1 / 2
    # The third prompt has no judged answer: the mean of 1/2 and 3/3.
    assert means["evaluation/sampled"] == 3 / 4
    assert means["evaluation/pass@1"] == 3 / 4
    # 2 of {+, -} hold the right one, 2 of {+, +, +} as well; no prompt has 4 judged answers.
    assert means["evaluation/pass@2"] == 1.0
    assert "evaluation/pass@4" not in means
    # 1 of 3 greedy and 7 of 12 sampled answers.
    assert means["evaluation/invalid_fraction"] == pytest.approx(8 / 15)


def test_without_any_verdict_only_the_invalid_fraction_is_recorded():
    means = measured(greedy="???", sampled="???? ???? ????")

    assert means == {"evaluation/invalid_fraction": 1.0}


def test_no_right_greedy_answer_of_three_may_be_chance():
    means = measured(greedy="---", sampled="---- ---- ----")

    # Wilson at rate 0: [0, z^2 / (n + z^2)] with z = 1.959963984540054 and n = 3.
    assert means["evaluation/greedy_low"] == pytest.approx(0.0, abs=1e-12)
    assert means["evaluation/greedy_high"] == pytest.approx(3.8414588206941 / 6.8414588206941)


def test_the_gold_answers_are_put_beside_the_tokens(monkeypatch):
    def elsewhere(*args, **kwargs):
        answered = answer_prompts(*args, **kwargs)
        return answered.set("tokens", answered["tokens"].to("meta"))

    monkeypatch.setattr("rlcomp.data.held_out_answers.answer_prompts", elsewhere)

    reward = Verdicts(greedy="+++", sampled="+" * 12)

    evaluator(tiny_policy(), reward=reward, num_prompts=3)(empty())

    assert reward.devices == {"meta"}


def test_the_first_greedy_answers_are_shown():
    with recording() as ledger:
        accuracy = evaluator(tiny_policy())
        accuracy(empty())

    assert [sample["prompt"] for sample in ledger.samples] == [
        example.prompt for example in accuracy.examples[:2]
    ]
    for sample in ledger.samples:
        assert sample["correct"] == bool(has_an_even_digit(sample["response"]))


def test_num_shown_0_saves_no_sample():
    with recording() as ledger:
        evaluator(tiny_policy(), num_shown=0)(empty())

    assert ledger.samples == []


def test_the_batch_is_returned_unchanged():
    batch = make_batch(reward=torch.ones(2))

    result = evaluator(tiny_policy())(batch)

    assert list(result.keys()) == ["reward"]
    assert result["reward"].tolist() == [1.0, 1.0]


def test_answers_beyond_the_context_are_refused_before_generation():
    policy = tiny_policy()
    room = policy.context_length - len("12+34=")
    assert evaluator(policy, max_new_tokens=room).max_new_tokens == room

    with pytest.raises(DataError, match=r"has 6 tokens; with .* more .* lower max_new_tokens, sh"):
        evaluator(policy, max_new_tokens=room + 1)


def test_the_accuracies_of_a_level_are_those_of_its_prompts():
    policy = tiny_policy()
    accuracy = evaluator(policy)
    accuracy.levels = ["sums"] * 4 + ["code"] * 8

    with recording() as ledger:
        accuracy(empty())

    greedy = right_by_hand(policy, accuracy.examples, 1, Decoding(temperature=0.0))[:, 0]
    sampled = right_by_hand(policy, accuracy.examples, SAMPLES, None)
    metrics = ledger.means()
    for level, rows in {"": slice(None), "sums/": slice(4), "code/": slice(4, None)}.items():
        assert metrics[f"evaluation/{level}greedy"] == pytest.approx(float(greedy[rows].mean()))
        assert metrics[f"evaluation/{level}sampled"] == pytest.approx(float(sampled[rows].mean()))
        any_right = (sampled[rows].sum(1) > 0).float().mean()
        assert metrics[f"evaluation/{level}pass@4"] == pytest.approx(float(any_right))
        assert f"evaluation/{level}pass@1_low" in metrics


def test_the_levels_are_those_of_the_examples():
    accuracy = evaluator(tiny_policy(), by="prompt_length")

    assert accuracy.levels == [str(len(prompt)) for prompt in accuracy.policy_prompts]
    assert evaluator(tiny_policy()).levels == [""] * PROMPTS


def test_a_single_level_is_recorded_once():
    one_length = Addition(digits=1, held_out=0.2)  # "3+4="
    accuracy = evaluator(tiny_policy(), task=one_length, by="prompt_length")

    with recording() as ledger:
        accuracy(empty())

    assert all(name.count("/") == 1 for name in ledger.means())


def test_a_reward_that_judges_by_the_group_is_no_verifier():
    vote = MajorityVote(reward=ExactMatch(), vote=str)

    with pytest.raises(ConfigError, match=r"evaluation.reward is a MajorityVote and judges an ans"):
        evaluator(tiny_policy(), reward=vote)


def length(response):
    return float(len(response))


@pytest.mark.parametrize(
    ("reward", "name"),
    [
        (FunctionReward(function=length, name="length"), "length"),
        (FunctionReward(function=has_an_even_digit), "function"),
        (Length(target=4.0), "length"),
        (
            WeightedSum(parts={"length": FunctionReward(function=length)}, weights={"length": 2.0}),
            "weighted_sum",
        ),
        (ShuffledReward(reward=Brevity(longest=9)), "shuffled"),
    ],
)
def test_a_reward_without_a_verdict_has_a_mean_only(reward, name):
    with recording() as ledger:
        evaluator(tiny_policy(), reward=reward)(empty())

    metrics = ledger.means()
    for kind in ("greedy", "sampled"):
        mean = metrics[f"evaluation/{kind}"]
        assert metrics[f"evaluation/reward/{name}/{kind}"] == mean
        assert metrics[f"evaluation/{kind}_low"] <= mean <= metrics[f"evaluation/{kind}_high"]
    assert not [metric for metric in metrics if "pass@" in metric]
    assert [sample["correct"] for sample in ledger.samples] == [None, None]


def test_means_of_a_reward_are_those_of_the_prompts_that_were_judged():
    scores = iter([3.0, None, 8.0, 4.0, None, None, None, 9.0])
    policy = tiny_policy()
    measured = evaluator(
        policy,
        reward=FunctionReward(function=lambda response: next(scores)),
        num_prompts=2,
        samples_per_prompt=3,
    )

    with recording() as ledger:
        measured(empty())

    # Greedily 3 and none; sampled (8 + 4) / 2 of the first prompt, 9 of the second.
    assert ledger.means()["evaluation/greedy"] == 3.0
    assert ledger.means()["evaluation/sampled"] == 7.5
    assert ledger.means()["evaluation/reward/function/greedy"] == 3.0


def test_means_of_a_reward_are_recorded_for_each_level():
    measured = evaluator(
        tiny_policy(),
        reward=FunctionReward(function=lambda prompt: len(prompt)),
        by="prompt_length",
    )

    with recording() as ledger:
        measured(empty())

    # The reward is the length of a prompt.
    for level in {*measured.levels}:
        assert ledger.means()[f"evaluation/{level}/greedy"] == int(level)


@pytest.mark.parametrize(
    "part",
    [partial(Coverage), partial(BudgetForcing, budgets=[2], think_end="="), partial(Forgetting)],
)
def test_evaluators_of_right_answers_refuse_a_reward_without_a_verdict(part):
    settings = {
        "policy": tiny_policy(),
        "task": Addition(digits=2, held_out=0.2),
        "max_new_tokens": 3,
        "name": "mine",
    }

    with pytest.raises(
        ConfigError, match=r"mine.reward is a FunctionReward.*mine.reward.correct_by=own"
    ):
        part(**settings, reward=FunctionReward(function=length, name="own"))


def test_a_function_with_correct_by_has_a_verdict():
    with recording() as ledger:
        evaluator(tiny_policy())(empty())

    assert not [name for name in ledger.means() if name.startswith("evaluation/reward/")]
    assert None not in [sample["correct"] for sample in ledger.samples]


class LabelledAddition(Addition):
    """Sums; every other answer is labelled as bad."""

    def example(self, index):
        return replace(super().example(index), columns={"desirable": index % 2 > 0})


def test_prompts_of_bad_answers_are_left_out():
    accuracy = evaluator(tiny_policy(), task=LabelledAddition(digits=1, held_out=0.5))

    assert len(accuracy.examples) == PROMPTS
    assert all(example.columns["desirable"] for example in accuracy.examples)
