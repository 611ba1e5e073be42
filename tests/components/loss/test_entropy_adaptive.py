import pytest
import torch
from tensordict import TensorDict

from components.loss.entropy import AdaptiveEntropyLoss
from components.loss.reduction import TokenMean
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def loss(entropy_coef: float = 0.1) -> AdaptiveEntropyLoss:
    return AdaptiveEntropyLoss(
        entropy_coef=entropy_coef, target=0.5, step=0.05, maximum=0.12, reduction=TokenMean()
    )


def batch(*entropies: float) -> TensorDict:
    """One response of so many tokens, then padding."""
    entropy = torch.tensor([[*entropies, float("nan")]])
    mask = torch.tensor([[True] * len(entropies) + [False]])
    return make_batch(response_mask=mask, entropy=entropy)


def test_there_is_no_bonus_before_the_first_entropy():
    assert loss()(batch(0.1, 0.1))["loss"].item() == 0.0


def test_below_the_target_the_bonus_is_paid_and_grows():
    bonus = loss()

    bonus(batch(0.4, 0.2))
    bonus.after_step()
    value = bonus(batch(0.4, 0.2))["loss"].item()

    # 0.1 + 0.05 is cut at 0.12; the mean entropy is 0.3.
    assert value == pytest.approx(-0.12 * 0.3)


def test_above_the_target_nothing_is_paid_and_the_price_falls():
    bonus = loss()

    bonus(batch(0.8, 0.6))
    bonus.after_step()

    assert bonus(batch(0.8, 0.6))["loss"].item() == 0.0
    assert float(bonus.entropy_coef) == pytest.approx(0.05)


def test_the_entropy_of_a_step_is_the_mean_of_the_tokens_of_all_micro_batches():
    # (0.2 + 0.2 + 0.2 + 1.2) / 4 = 0.45 is below the target; the mean of the means, 0.7, is not.
    bonus = loss()

    bonus(batch(0.2, 0.2, 0.2))
    bonus(batch(1.2))
    bonus.after_step()

    assert float(bonus.last) == pytest.approx(0.45)
    assert float(bonus.entropy_coef) == pytest.approx(0.12)


def test_each_step_is_measured_by_itself():
    bonus = loss()

    for entropy in (0.2, 0.9):
        bonus(batch(entropy))
        bonus.after_step()

    assert float(bonus.last) == pytest.approx(0.9)


def test_a_step_without_tokens_moves_nothing():
    bonus = loss()

    bonus(batch())
    bonus.after_step()

    assert float(bonus.entropy_coef) == pytest.approx(0.1)
    assert bonus(batch(0.2))["loss"].item() == 0.0


def test_a_step_without_tokens_leaves_the_last_entropy_standing():
    bonus = loss()
    for rows in (batch(0.2), batch()):
        bonus(rows)
        bonus.after_step()

    # 0.12 after the first step; the second neither moves it nor stops it.
    assert bonus(batch(0.2))["loss"].item() == pytest.approx(-0.12 * 0.2)


def test_the_gradient_is_minus_the_price_times_the_weight():
    bonus, rows = loss(), batch(0.2, 0.4)
    bonus(rows)
    bonus.after_step()
    rows["entropy"].requires_grad_()

    bonus(rows)["loss"].backward()

    torch.testing.assert_close(rows["entropy"].grad, torch.tensor([[-0.06, -0.06, 0.0]]))


def test_its_state_travels_in_a_checkpoint():
    bonus, other = loss(), loss()
    bonus(batch(0.2))
    bonus.after_step()

    other.load_state_dict(bonus.state_dict())

    assert other(batch(0.2))["loss"].item() == bonus(batch(0.2))["loss"].item() < 0


def test_the_price_in_force_is_recorded():
    bonus = loss()
    bonus(batch(0.2))

    with recording() as ledger:
        bonus.after_step()

    assert ledger.means()["entropy_bonus/coef"] == pytest.approx(0.1)
