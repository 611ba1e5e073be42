from dataclasses import replace

import pytest
import torch
from tensordict import TensorDict

from components.evaluator.coverage import Coverage
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.metrics import recording
from rlcomp.testing import tiny_policy

# Rows of three prompts with four samples each: + right, - wrong, ? not judged.
VERDICTS = "+-?? ++-+ ---+"
# Of the five right ones: P2 has one right thought, one wrong, and one that cannot be judged.
THOUGHTS = "+ +-? -"


class Three:
    """Prompts of 4, 5 and 6 characters, with a column."""

    held_out = 0.999999

    def __len__(self):
        return 3

    def example(self, index):
        prompt = ("1+1=", "12+1=", "12+12=")[index]
        return Example(prompt, "2", "2", columns={"kind": ("easy", "easy", "hard/1")[index]})


class Scripted(Component):
    """Reward with a verdict for each row; it compares numbers for other counts of rows."""

    reads = ("response", "answer")
    writes = ("correct", "reward_valid")

    def __init__(self, *, verdicts: str) -> None:
        super().__init__()
        self.verdicts = verdicts.replace(" ", "")

    def forward(self, batch: TensorDict) -> TensorDict:
        texts = zip(decode_texts(batch["response"]), decode_texts(batch["answer"]), strict=True)
        scripted = len(batch) == len(self.verdicts)
        told = self.verdicts if scripted else ["-+"[int(a) == int(b)] for a, b in texts]
        batch["correct"] = torch.tensor([one == "+" for one in told])
        batch["reward_valid"] = torch.tensor([one != "?" for one in told])
        return batch


def voting(votes):
    scripted = iter(votes.split())
    return lambda response: (vote := next(scripted)) and (None if vote == "." else vote)


def coverage(verdicts=VERDICTS, **changed):
    torch.manual_seed(3)
    arguments = {
        "policy": tiny_policy(),
        "task": Three(),
        "reward": Scripted(verdicts=verdicts),
        "reasoning": Scripted(verdicts=THOUGHTS),
        "vote": voting(". a . . . . x . b b . ."),
        "threshold": 1.0,
        "samples_per_prompt": 4,
        "max_new_tokens": 3,
    }
    return Coverage(**(arguments | changed))


def measured(part):
    with recording() as ledger:
        part(TensorDict({}, batch_size=[]))
    return ledger


def test_three_prompts_by_hand():
    means = measured(coverage()).means()

    # Judged n = 2, 3, 4 (a right one whose thought has no verdict does not count);
    # right c = 1, 2, 1; for right reasons d = 1, 1, 0.
    assert means["coverage/invalid_fraction"] == 3 / 12
    assert means["coverage/pass@1"] == pytest.approx((1 / 2 + 2 / 3 + 1 / 4) / 3)
    # Two of {+, -}, of {+, +, -}: always one; of {-, -, -, +}: 1 - C(3, 2) / C(4, 2) = 1/2.
    assert means["coverage/pass@2"] == pytest.approx((1 + 1 + 1 / 2) / 3)
    assert means["coverage/pass@4"] == 1.0  # the third alone has four
    assert means["coverage/cot_pass@1"] == pytest.approx((1 / 2 + 1 / 3 + 0) / 3)
    assert means["coverage/cot_pass@2"] == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert means["coverage/cot_pass@4"] == 0.0
    # All k are right: of three, C(2, 2) / C(3, 2).
    assert means["coverage/g_pass@2"] == pytest.approx((0 + 1 / 3 + 0) / 3)
    assert means["coverage/g_pass@4"] == 0.0
    assert means["coverage/reasoning_given_right"] == pytest.approx((1 / 1 + 1 / 2 + 0 / 1) / 3)
    assert means["coverage/maj@1"] == pytest.approx(means["coverage/pass@1"])
    # {+, a}: a draw. {+, +, x}: 1/3 + 2/3 * 1/2. {b, b, none, +}: twice a draw, once without a
    # rival, of six.
    assert means["coverage/maj@2"] == pytest.approx((1 / 2 + 2 / 3 + 2 / 6) / 3)
    assert means["coverage/maj@4"] == 0.0  # b has two votes


def test_every_curve_has_its_interval():
    means = measured(coverage()).means()

    curves = [f"{curve}@{k}" for curve in ("pass", "g_pass", "maj", "cot_pass") for k in (1, 2, 4)]
    names = {f"coverage/{name}" for name in [*curves, "reasoning_given_right"]}
    ends = {f"{name}{end}" for name in names for end in ("", "_low", "_high")}
    assert set(means) == ends | {"coverage/invalid_fraction"}
    # The mean of three draws of 1/2, 2/3 and 1/4 lies in between.
    assert 1 / 4 <= means["coverage/pass@1_low"] < 17 / 36 < means["coverage/pass@1_high"] <= 2 / 3


class ScriptedInTurn(Scripted):
    """Reward with other verdicts at each call."""

    def forward(self, batch):
        now, _, later = self.verdicts.partition("|")
        self.verdicts = later
        return Scripted(verdicts=now)(batch)


def test_a_thought_can_be_judged_several_times():
    # Of the five right ones, (+), (++ +) and (+), three judgements each. Of the second prompt's one
    # has a yes, a no and an abstention, which is no majority, one nothing but abstentions, and one
    # two noes and a yes.
    reasoning = ScriptedInTurn(verdicts="+ +?- +|+ -?- +|- ??+ +")

    means = measured(coverage(reasoning=reasoning, judgements=3)).means()

    # n = 2, 3, 4; c = 1, 2, 1.
    assert means["coverage/invalid_fraction"] == 3 / 12
    assert means["coverage/pass@1"] == pytest.approx((1 / 2 + 2 / 3 + 1 / 4) / 3)
    assert means["coverage/cot_pass@1"] == pytest.approx((1 / 2 + 0 + 1 / 4) / 3)
    assert means["coverage/cot_pass_any@1"] == pytest.approx((1 / 2 + 2 / 3 + 1 / 4) / 3)
    assert means["coverage/cot_pass_all@1"] == pytest.approx((0 + 0 + 1 / 4) / 3)
    assert means["coverage/reasoning_given_right"] == pytest.approx(2 / 3)


def test_two_judgements_have_their_three_rules():
    # The five right ones: yes and yes, no and yes, yes and no, no and no, yes and abstention.
    reasoning = ScriptedInTurn(verdicts="+ -+- +|+ +-- ?")

    means = measured(
        coverage(verdicts="+--- +++- +---", reasoning=reasoning, judgements=2, vote=None)
    ).means()

    # n = 4 each. The second prompt's three: no majority of yes, and one yes at least in two.
    assert means["coverage/cot_pass@1"] == pytest.approx((1 / 4 + 0 + 1 / 4) / 3)
    assert means["coverage/cot_pass_any@1"] == pytest.approx((1 / 4 + 2 / 4 + 1 / 4) / 3)
    assert means["coverage/cot_pass_all@1"] == pytest.approx((1 / 4 + 0 + 1 / 4) / 3)


def test_each_level_of_difficulty_has_its_curves():
    part = coverage(by="prompt_length")

    means = measured(part).means()

    rates = dict(zip(part.levels, (1 / 2, 2 / 3, 1 / 4), strict=True))
    assert sorted(rates) == ["4", "5", "6"]
    for level, rate in rates.items():
        assert means[f"coverage/{level}/pass@1"] == pytest.approx(rate)
    assert means["coverage/pass@1"] == pytest.approx(17 / 36)


def test_the_default_threshold_is_one_half():
    torch.manual_seed(3)
    reward = Scripted(verdicts="++-- +--- ----")
    part = Coverage(
        policy=tiny_policy(), task=Three(), reward=reward, samples_per_prompt=4, max_new_tokens=3
    )

    means = measured(part).means()

    # At least two of four: the first alone. Of two drawn one is enough, as for pass@2.
    assert means["coverage/g_pass@4"] == pytest.approx(1 / 3)
    assert means["coverage/g_pass@2"] == pytest.approx(means["coverage/pass@2"])
    assert means["coverage/pass@2"] == pytest.approx((1 - 1 / 6 + 1 / 2 + 0) / 3)


def test_two_levels_have_curves_of_their_own():
    part = coverage(by="kind")

    means = measured(part).means()

    rates = dict(zip(part.levels, (1 / 2, 2 / 3, 1 / 4), strict=True))  # the last of each level
    easy = 17 / 12 - rates["hard_1"]
    assert means["coverage/hard_1/pass@1"] == pytest.approx(rates["hard_1"])
    assert means["coverage/easy/pass@1"] == pytest.approx(easy / 2)


def test_a_single_level_is_the_whole():
    part = coverage(by="kind", num_prompts=1, verdicts="+-+-", reasoning=None, vote=None)

    assert not [name for name in measured(part).means() if name.count("/") > 1]


def test_the_counts_of_each_problem_are_saved():
    part = coverage(by="kind")

    samples = measured(part).samples

    counts = [(row["n"], row["c"], row["d"]) for row in samples]
    assert counts == [(2, 1, 1), (3, 2, 1), (4, 1, 0)]
    assert [row["text"] for row in samples] == [one.prompt for one in part.examples]
    kinds = {"easy": "easy", "hard/1": "hard_1"}
    assert [row["level"] for row in samples] == [
        kinds[one.columns["kind"]] for one in part.examples
    ]
    assert len({row["problem"] for row in samples}) == 3
    assert {row["evaluator"] for row in samples} == {"coverage"}
    assert measured(coverage(num_prompts=3)).samples[0]["problem"] == samples[0]["problem"]


def test_the_first_80_characters_of_a_prompt_are_kept():
    class Long(Three):
        def example(self, index):
            return replace(super().example(index), prompt="1" * 79 + "+2" + "3=" * index)

    part = coverage(task=Long(), policy=tiny_policy(context_length=100))

    assert {row["text"] for row in measured(part).samples} == {"1" * 79 + "+"}


def test_curves_without_their_arguments_are_not_recorded():
    part = coverage(verdicts="+-+- -+-+ ++++", reasoning=None, vote=None)

    ledger = measured(part)

    metrics = {name.split("/")[1].split("@")[0] for name in ledger.means()}
    assert metrics == {"pass", "g_pass", "invalid_fraction"}
    assert {row["d"] for row in ledger.samples} == {None}


def test_the_last_k_is_the_number_of_samples():
    means = measured(coverage(verdicts="--+ -+- +++", samples_per_prompt=3, reasoning=None)).means()

    assert means["coverage/pass@3"] == 1.0
    assert "coverage/pass@4" not in means


@pytest.mark.parametrize(("equal_by", "wins"), [("text", 1.0), ("verifier", 1 / 2)])
def test_wrong_votes_are_one_class_if_the_verifier_finds_them_equal(equal_by, wins):
    # Nothing right; then two right ones against 7, 07 and 8: against two sevens it is a draw.
    part = coverage(
        verdicts="----- ++---",
        vote=voting("1 01 . . . . . 7 07 8"),
        equal_by=equal_by,
        num_prompts=2,
        samples_per_prompt=5,
        reasoning=None,
    )

    assert measured(part).means()["coverage/maj@5"] == (0 + wins) / 2


def test_without_a_right_answer_no_thought_is_judged():
    means = measured(coverage(verdicts="---- ---- ----", reasoning=Scripted(verdicts=""))).means()

    assert means["coverage/cot_pass@4"] == 0.0
    assert "coverage/reasoning_given_right" not in means


def test_split_training_takes_training_prompts():
    class Half(Three):
        held_out = 0.5

    asked = {
        split: {one.prompt for one in coverage(task=Half(), split=split).examples}
        for split in ("held_out", "training")
    }

    everything = {Three().example(index).prompt for index in range(3)}
    assert asked["held_out"] == {p for p in everything if Example(p, "", "").is_held_out(0.5)}
    assert asked["training"] == everything - asked["held_out"]
    assert all(asked.values())


def test_a_missing_column_is_refused_at_once():
    with pytest.raises(ConfigError, match=r"by is 'knd', a column .* lacks.*kind"):
        coverage(by="knd")
