"""Reward of reward models: members with scores from a table."""

import pytest
import torch

from components.reward.reward_model import ScorerReward
from rlcomp.engine.decoding import Decoding
from rlcomp.metrics import recording
from rlcomp.model.backbone import BackboneCopy
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.scorer import Scorer
from rlcomp.testing import check_component, make_batch, tiny_model
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abcdef")


def scorer():
    policy = LanguageModel(model=tiny_model(TOKENIZER), tokenizer=TOKENIZER, decoding=Decoding())
    return Scorer(policy=policy)


class Says(Scorer):
    """A member with given scores."""

    def __init__(self, *scores):
        super(BackboneCopy, self).__init__()  # without a model
        self.said = torch.tensor(scores)

    def scores(self, batch):
        return self.said[: len(batch)]


def batch(rows):
    there = torch.ones(rows, 2, dtype=torch.bool)
    return make_batch(tokens=there.long(), attention_mask=there)


def rewarded(*members, rows=2, **settings):
    return ScorerReward(scorers=[Says(*scores) for scores in members], **settings)(batch(rows))


@pytest.mark.parametrize(
    ("combination", "expected"),
    [
        ("mean", [2.0, 0.0]),
        ("median", [1.0, 0.0]),
        ("min", [0.0, -3.0]),
        # Squares of the deviations 1, 4, 1... of 1, 0, 5: mean 14 / 3; of -3, 0, 3: 6.
        ("mean_minus_std", [2 - 0.5 * (14 / 3) ** 0.5, -0.5 * 6**0.5]),
        ("mean_minus_variance", [2 - 0.5 * 14 / 3, -3.0]),
    ],
)
def test_members_are_combined(combination, expected):
    result = rewarded([1.0, -3.0], [0.0, 0.0], [5.0, 3.0], combination=combination)

    torch.testing.assert_close(result["reward"], torch.tensor(expected))
    assert result["correct"].tolist() == [value > 0 for value in expected]
    assert torch.equal(result["rewards", "scored"], result["reward"])


def test_one_member_has_no_uncertainty():
    result = rewarded([1.0, -3.0], combination="mean_minus_std", penalty=9.0)

    assert result["reward"].tolist() == [1.0, -3.0]


def test_a_score_that_is_not_finite_is_not_valid():
    result = rewarded([float("nan"), 1.0], [0.0, 1.0])

    assert result["reward"].tolist() == [0.0, 1.0]
    assert result["reward_valid"].tolist() == [False, True]


def test_normalised_members_weigh_alike():
    # 1, 3 and 100, 500 are both -1, 1 in their standard deviations.
    result = rewarded([1.0, 3.0], [100.0, 500.0], normalised=True, combination="min")

    torch.testing.assert_close(result["reward"], torch.tensor([-1.0, 1.0]))


def test_statistics_are_those_of_all_batches_so_far():
    whole, split = (ScorerReward(scorers=[Says()], normalised=True) for _ in range(2))
    values = torch.tensor([1.0, 3.0, 8.0])

    whole._normalise(values[None], torch.ones(3).bool())
    for part in (values[:2], values[2:]):
        split._normalise(part[None], torch.ones(len(part)).bool())

    # Mean 4, squares 9 + 1 + 16.
    assert (split.count.item(), split.mean.item(), split.squares.item()) == (3, 4, 26)
    assert (whole.count.item(), whole.mean.item(), whole.squares.item()) == (3, 4, 26)
    assert {"count", "mean", "squares"} <= {*split.state_dict()}


def test_statistics_stay_the_tensors_that_were_registered():
    reward = ScorerReward(scorers=[Says(1.0, 3.0)], normalised=True)
    held = dict(reward.named_buffers())

    reward(batch(2))

    assert held["count"].item() == 2
    assert (held["mean"].tolist(), held["squares"].tolist()) == ([2.0], [2.0])
    assert all(buffer is held[name] for name, buffer in reward.named_buffers())


def test_the_spread_of_the_members_is_recorded():
    with recording() as ledger:
        rewarded([1.0, -3.0], [3.0, 3.0])

    # Standard deviations 1 and 3.
    assert ledger.means()["reward/disagreement"] == pytest.approx(2.0)


def test_the_score_before_normalisation_is_recorded():
    # Of the rows 50.5, 251.5 and one that is not valid; the members' own means are others.
    members = [1.0, 3.0, float("nan")], [100.0, 500.0, 7.0]
    with recording() as ledger:
        rewarded(*members, rows=3, normalised=True)
    with recording() as plain:
        rewarded(*members, rows=3)

    assert ledger.means()["reward/raw_score"] == pytest.approx(151.0)
    assert "reward/raw_score" not in plain.means()


def test_a_scorer_is_read_without_gradient_and_not_its_own():
    member = scorer()

    result = ScorerReward(scorers=[member])(batch(2))

    assert not result["reward"].requires_grad
    assert list(ScorerReward(scorers=[member]).parameters()) == []


def test_it_keeps_the_contract():
    check_component(ScorerReward(scorers=[scorer(), scorer()], combination="min"))


def test_a_spread_that_is_rounding_is_not_blown_up():
    # Mean and standard deviation 1e-7, raised to 1e-6.
    result = rewarded([0.0, 2e-7], normalised=True)["reward"]

    assert result.tolist() == pytest.approx([-0.1, 0.1])
