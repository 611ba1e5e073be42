import pytest
import torch

from components.loss.trust_region.divergence import KLPenalty
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

NAN = float("nan")


def batch(ratio=2.0):
    return make_batch(
        response_mask=[[True, True, False], [True, False, False]],
        ratio=torch.tensor([[ratio, 1.0, NAN], [1.0, NAN, NAN]], requires_grad=True),
        advantage=[[1.0, -1.0, NAN], [0.0, NAN, NAN]],
    )


def test_the_kl_is_taken_off_and_pulls_back():
    rows = batch()

    surrogate = KLPenalty(kl_coef=3.0)(rows)["surrogate"]
    surrogate.sum().backward()

    # 2 - 3 (2 - 1 - log 2); slope 1 - 3 (1 - 1 / 2)
    assert surrogate[0].tolist() == pytest.approx([2 - 3 * 0.3068528, -1, 0])
    assert rows["ratio"].grad.tolist() == [[-0.5, -1, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("target", "coefficient"),
    # The mean KL per token is 0.3068528 / 3 = 0.1023: unchanged for targets of 0.0682 to 0.1534.
    [(0.05, 2.0), (0.067, 2.0), (0.07, 1.0), (0.15, 1.0), (0.16, 0.5)],
)
def test_after_a_step_the_coefficient_answers_the_mean_kl_of_all_its_micro_batches(
    target, coefficient
):
    part, rows = KLPenalty(target=target), batch()

    part(rows[:1])
    part(rows[1:])
    assert part.coefficient.item() == 1  # not before the step is taken
    part.after_step()

    assert part.coefficient.item() == coefficient


def test_each_step_is_measured_by_itself():
    part = KLPenalty(target=0.067)
    part(batch())
    part.after_step()
    part.after_step()
    part(batch(ratio=1.0))
    part.after_step()

    # Doubled once: nothing was seen in the second step, and the third began at the old policy.
    assert part.coefficient.item() == 2
    part(batch())
    part.after_step()
    assert part.coefficient.item() == 4  # again 0.1023 nats, just above 1.5 * 0.067


def test_a_fixed_coefficient_stays():
    part = KLPenalty(target=0.05, adaptive=False)
    part(batch())
    part.after_step()

    assert part.coefficient.item() == 1


def test_the_coefficient_survives_a_checkpoint():
    part, other = KLPenalty(target=0.05), KLPenalty(target=0.05)
    part(batch())
    part.after_step()

    other.load_state_dict(part.state_dict())

    assert other.coefficient.item() == 2


def test_the_kl_and_once_a_step_the_coefficient_are_recorded():
    part = KLPenalty(kl_coef=3.0)

    with recording() as ledger:
        part(batch())
        part(batch())
        part.after_step()

    assert ledger.means() == pytest.approx(
        {"trust_region/kl": 0.3068528 / 3, "trust_region/kl_coef": 3.0}
    )
    assert ledger.counts["trust_region/kl_coef"] == 1


@pytest.mark.parametrize(("target", "bound"), [(10.0, 1e-8), (1e-3, 1e8)])
def test_a_coefficient_that_went_one_way_for_ever_can_come_back(target, bound):
    part = KLPenalty(target=target)

    for _ in range(200):
        part(batch())
        part.after_step()

    assert part.coefficient.item() == pytest.approx(bound)


def test_a_coefficient_of_0_cannot_adapt():
    with pytest.raises(ConfigError, match=r"kl_coef is 0 and adaptive is true"):
        KLPenalty(kl_coef=0.0)

    assert KLPenalty(kl_coef=0.0, adaptive=False).coefficient.item() == 0
