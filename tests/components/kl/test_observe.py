import math

import pytest
import torch
from tensordict import TensorDict

from components.kl import KLObserver
from components.kl_controller import AdaptiveKL
from rlcomp.interfaces.kl_controller import KLController
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def batch(distance: float) -> TensorDict:
    """Two responses of two tokens, each so far from the reference, and an empty one."""
    mask = torch.tensor([[True, True], [True, True], [False, False]])
    old = torch.full((3, 2), -1.0)
    return make_batch(response_mask=mask, old_log_probs=old, ref_log_probs=old - distance)


def observer() -> KLObserver:
    controller = AdaptiveKL(kl_coef=0.1, target=1.0, unit="sequence", horizon=10)
    return KLObserver(controller=controller, estimator="k1")


def test_what_is_measured_moves_the_price_from_the_next_batch_on():
    watching = observer()

    prices = []
    for distance in (0.55, 0.5, 0.5):  # 1.1, 1 and 1 nats a response
        watching(batch(distance))
        prices.append(watching.controller.coef())

    # The first batch is 10 % over the target, on 2 of 10 responses: 0.1 * 1.02, one batch later.
    assert prices == pytest.approx([0.1, 0.102, 0.102])


def test_the_price_in_force_is_recorded():
    watching = observer()
    watching(batch(0.55))

    with recording() as ledger:
        watching(batch(0.5))

    assert ledger.means()["kl/coef"] == pytest.approx(0.102)


def test_what_waits_to_be_told_travels_in_a_checkpoint():
    watching, other = observer(), observer()
    watching(batch(0.55))

    other.load_state_dict(watching.state_dict())
    other(batch(0.5))

    assert other.controller.coef() == pytest.approx(0.102)


def test_a_batch_without_responses_moves_nothing():
    watching = observer()

    watching(batch(0.55)[2:])
    watching(batch(0.55))

    assert watching.controller.coef() == pytest.approx(0.1)


def test_a_controller_is_told_the_measured_kl_and_the_responses_of_the_batch_before():
    class Told(KLController):
        def observe(self, kl, num_sequences):
            heard.append((kl, num_sequences))

    heard, watching = [], KLObserver(controller=Told(kl_coef=0.1), estimator="k1")
    for rows in (batch(0.55), batch(0.5)[1:], batch(0.25)):
        watching(rows)

    # Nothing is measured before the first batch. Of two responses and of one, in nats per token.
    assert math.isnan(heard[0][0])
    assert [count for _, count in heard] == [0, 2, 1]
    assert [kl for kl, _ in heard[1:]] == pytest.approx([0.55, 0.5])


def test_the_batch_is_handed_on_as_it_is():
    rows = batch(0.5)
    before = rows.clone()

    result = observer()(rows)

    assert set(result.keys()) == set(before.keys())
    assert all(torch.equal(result[key], before[key]) for key in before.keys())
