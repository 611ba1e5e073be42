import math

import pytest
import torch

from components.kl_controller import FixedKL
from components.learner.gradient import Learner
from components.loss.kl import DistilLoss, KLFullLoss
from components.loss.reduction import TokenMean
from rlcomp.metrics import recording
from rlcomp.testing import check_loss, make_batch, tiny_policy
from rlcomp.text.answers import encode_answers


def loss(**other):
    settings = {"divergence": "reverse", "beta": 0.5, "top_k": None, "coef": 1.0}
    return DistilLoss(**settings | other, reduction=TokenMean())


def batch(student, teacher, mask=((True, True, False),)):
    return make_batch(
        response_mask=mask,
        log_distribution=student.log_softmax(-1),
        ref_log_distribution=teacher.log_softmax(-1),
    )


@pytest.mark.parametrize("divergence", ["reverse", "forward", "jsd"])
@pytest.mark.parametrize("top_k", [None, 2])
def test_it_keeps_the_contract_of_losses(divergence, top_k):
    check_loss(loss(divergence=divergence, top_k=top_k))


def test_three_tokens_of_two_rows_by_hand():
    # s = 1/2, 1/2 everywhere. t = (1/4, 3/4): (log 2 + log 2/3) / 2 = .1438410. t = (3/5, 2/5):
    # (log 5/6 + log 5/4) / 2 = .0204110. The third is s itself. Of equal ones the first is
    # likeliest: it is not, is, is.
    even = torch.zeros(2, 3, 2)
    teacher = torch.tensor(
        [[[1.0, 3.0], [3.0, 2.0], [9.0, 1.0]], [[1.0, 1.0], [9.0, 1.0], [9.0, 1.0]]]
    )
    rows = batch(even, teacher.log(), ((True, True, False), (True, False, False)))

    with recording() as ledger:
        value = loss(coef=0.1)(rows)["loss"]

    mean = (0.1438410 + 0.0204110) / 3
    assert value.item() == pytest.approx(0.1 * mean, abs=1e-6)
    assert ledger.means() == {
        "distil/divergence": pytest.approx(mean, abs=1e-6),
        "distil/agreement": pytest.approx(2 / 3),
    }


def test_top_k_is_the_divergence_of_the_coarsened_distributions():
    # t = (.6, .3, .1), s = (.2, .3, .5): with one token kept (.6, .4) and (.2, .8).
    s, t = torch.tensor([[[0.2, 0.3, 0.5]]]), torch.tensor([[[0.6, 0.3, 0.1]]])

    value = loss(divergence="forward", top_k=1)(batch(s.log(), t.log(), ((True,),)))["loss"]

    assert value.item() == pytest.approx(0.6 * math.log(3) + 0.4 * math.log(0.5), abs=1e-6)


def drawn(seed, grad=False):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, 3, 5, generator=generator, dtype=torch.float64).requires_grad_(grad)


def test_reverse_is_the_full_kl_of_kl_in_loss_full():
    student, other = drawn(0, True), drawn(0, True)
    penalty = KLFullLoss(controller=FixedKL(kl_coef=1.0), reduction=TokenMean())

    found, wanted = (
        loss()(batch(student, drawn(1)))["loss"],
        penalty(batch(other, drawn(1)))["loss"],
    )
    found.backward()
    wanted.backward()

    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(student.grad, other.grad)


@pytest.mark.parametrize("divergence", ["reverse", "forward", "jsd"])
def test_rows_may_come_in_any_order_and_with_padding(divergence):
    student, teacher = torch.cat([drawn(0), drawn(1)]), torch.cat([drawn(2), drawn(3)])
    mask = ((True, True, False), (True, False, False))
    rows = batch(student, teacher, mask)
    wider = batch(
        torch.nn.functional.pad(student, (0, 0, 0, 2)),
        torch.nn.functional.pad(teacher, (0, 0, 0, 2), value=1.0),
        [(*row, False, False) for row in mask],
    )

    own = loss(divergence=divergence, top_k=2)
    value = own(rows)["loss"]

    torch.testing.assert_close(own(rows[[1, 0]])["loss"], value)
    torch.testing.assert_close(own(wider)["loss"], value)


@pytest.mark.parametrize("micro", [None, 5])
def test_through_the_learner_the_gradient_is_that_of_the_enumerated_vocabulary(micro):
    # Both models bar the pad token; the sum over all others is written out.
    student, teacher = tiny_policy("ab", seed=0, scale=2.0), tiny_policy("ab", seed=1, scale=2.0)
    rows = encode_answers(student, ["a", "bb"], ["ab", "b"])
    rows["ref_log_distribution"] = teacher.log_distribution(rows).detach()
    learner = Learner(
        model=student,
        losses={"distil": loss()},
        optimizer=lambda named: torch.optim.SGD([p for _, p in named], lr=1.0),
        micro_batch_tokens=micro,
    )

    learner.accumulate(rows)

    found = [p.grad.clone() for p in student.model.parameters()]
    student.model.zero_grad()
    mask, total = rows["response_mask"], torch.zeros(())
    own, theirs = student.log_distribution(rows), rows["ref_log_distribution"]
    drawable = [v for v in range(own.shape[-1]) if v not in student.suppressed_tokens]
    for v in drawable:
        total = total + (own[..., v].exp() * (own[..., v] - theirs[..., v]))[mask].sum()
    (total / mask.sum()).backward()
    for gradient, parameter in zip(found, student.model.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad, atol=1e-6, rtol=1e-5)
