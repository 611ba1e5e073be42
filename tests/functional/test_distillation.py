import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import ShapeError
from rlcomp.functional.distillation import (
    coarsen,
    distillation_advantage,
    divergence,
    span_log_ratio,
)

ONE = torch.ones(1, 1, dtype=torch.bool)
KINDS = ["reverse", "forward", "jsd"]


def spread(*probabilities):
    return torch.tensor([[probabilities]], dtype=torch.float64).log()


def drawn(seed, size=5):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, 1, size, generator=generator, dtype=torch.float64).mul(2).log_softmax(-1)


# s = (1/2, 1/2), t = (1/4, 3/4). KL(s || t) = (log 2 + log 2/3) / 2; KL(t || s) = (log 1/2) / 4 +
# 3 (log 3/2) / 4. At beta = 1/4: m = (7, 9) / 16, KL(t || m) = (log 4/7) / 4 + 3 (log 4/3) / 4 and
# KL(s || m) = (log 8/7 + log 8/9) / 2.
BY_HAND = {
    "reverse": (math.log(2) + math.log(2 / 3)) / 2,
    "forward": math.log(1 / 2) / 4 + 3 * math.log(3 / 2) / 4,
    "jsd": 0.25 * (math.log(4 / 7) / 4 + 3 * math.log(4 / 3) / 4)
    + 0.75 * (math.log(8 / 7) + math.log(8 / 9)) / 2,
}


@pytest.mark.parametrize("kind", KINDS)
def test_divergences_by_hand(kind):
    result = divergence(spread(0.5, 0.5), spread(0.25, 0.75), ONE, kind, 0.25)

    assert result.item() == pytest.approx(BY_HAND[kind], abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_divergence_gradient_in_the_logits_by_hand(kind):
    # d/dz_v: reverse s (log s/t - KL), forward s - t, JSD (1 - b) s (log s/m - KL(s || m)).
    logits, t = drawn(0).clone().requires_grad_(), drawn(1)

    divergence(logits.log_softmax(-1), t, ONE, kind, 0.3).sum().backward()

    s = logits.detach().log_softmax(-1)
    m = (0.3 * t.exp() + 0.7 * s.exp()).log()
    other = {"reverse": t, "jsd": m}.get(kind)
    expected = s.exp() - t.exp()
    if other is not None:
        kl = (s.exp() * (s - other)).sum()
        expected = {"reverse": 1.0, "jsd": 0.7}[kind] * s.exp() * (s - other - kl)
    torch.testing.assert_close(logits.grad, expected)


def test_jsd_has_the_two_kls_as_limits_and_is_symmetric_at_one_half():
    # The next terms are of first order in beta: 1e-6 of numbers of order 1.
    s, t = drawn(2), drawn(3)

    def jsd(first, second, beta):
        return divergence(first, second, ONE, "jsd", beta)

    forward, reverse = divergence(s, t, ONE, "forward"), divergence(s, t, ONE, "reverse")
    torch.testing.assert_close(jsd(s, t, 1e-7) / 1e-7, forward, rtol=0, atol=1e-5)
    torch.testing.assert_close(jsd(s, t, 1 - 1e-7) / 1e-7, reverse, rtol=0, atol=1e-5)
    torch.testing.assert_close(jsd(s, t, 0.5), jsd(t, s, 0.5))


@pytest.mark.parametrize("kind", KINDS)
def test_divergence_from_itself_is_0_with_gradient_0(kind):
    logits = drawn(4).clone().requires_grad_()

    value = divergence(logits.log_softmax(-1), logits.detach().log_softmax(-1), ONE, kind)
    value.sum().backward()

    assert abs(value.item()) < 1e-12
    assert logits.grad.abs().max() < 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("barred", ["both", "teacher", "student"])
@pytest.mark.parametrize("never", [-math.inf, torch.finfo(torch.float64).min])
def test_divergence_of_impossible_tokens_is_finite(kind, barred, never):
    bar = torch.tensor([[[True, False, False]]])
    logits = drawn(5, 3).clone().requires_grad_()
    s = logits.log_softmax(-1)
    s = torch.where(bar, never, s) if barred != "teacher" else s
    t = torch.where(bar, never, drawn(6, 3)) if barred != "student" else drawn(6, 3)

    value = divergence(s, t, ONE, kind)
    value.sum().backward()

    assert value.isfinite().all()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_divergence_ignores_values_outside_the_mask(kind):
    s, t = drawn(7).repeat(1, 2, 1), drawn(8).repeat(1, 2, 1)
    s[:, 1], t[:, 1] = math.nan, math.inf
    s.requires_grad_()

    value = divergence(s, t, torch.tensor([[True, False]]), kind)
    value.sum().backward()

    assert value[0, 1] == 0
    assert not s.grad[0, 1].any()
    torch.testing.assert_close(value[:, :1], divergence(drawn(7), drawn(8), ONE, kind))


@given(seed=st.integers(0, 10**6), top_k=st.integers(1, 3), kind=st.sampled_from(KINDS))
def test_a_coarsened_divergence_is_between_zero_and_the_whole(seed, top_k, kind):
    s, t = drawn(seed), drawn(seed + 1)

    some = divergence(*coarsen(s, t, top_k), ONE, kind).item()

    assert -1e-12 <= some <= divergence(s, t, ONE, kind).item() + 1e-12


@pytest.mark.parametrize("top_k", [4, 5, 9])
@pytest.mark.parametrize("kind", KINDS)
def test_divergence_coarsened_to_all_but_one_token_is_exact(top_k, kind):
    s, t = drawn(9), drawn(10)

    some = divergence(*coarsen(s, t, top_k), ONE, kind)

    torch.testing.assert_close(some, divergence(s, t, ONE, kind))


def test_coarsen_by_hand():
    s, t = spread(0.1, 0.2, 0.3, 0.4), spread(0.2, 0.5, 0.0, 0.3)

    student, teacher = coarsen(s, t, 2)

    torch.testing.assert_close(teacher.exp(), spread(0.5, 0.3, 0.2).exp())
    torch.testing.assert_close(student.exp(), spread(0.2, 0.4, 0.4).exp())


def test_divergence_of_different_vocabularies_raises():
    with pytest.raises(ShapeError, match=r"\[1, 1, 5\].*\[1, 1, 4\].*one vocabulary"):
        divergence(drawn(0), drawn(0, 4), ONE, "reverse")


# One row: log t - log s = 1, -3, NaN (outside), 2.
STUDENT = torch.tensor([[-2.0, -1.0, math.nan, -3.0]])
TEACHER = torch.tensor([[-1.0, -4.0, math.nan, -1.0]])
MASK = torch.tensor([[True, True, False, True]])


@pytest.mark.parametrize(
    ("to_go", "clip", "wanted"),
    [
        (False, None, [1, -3, 0, 2]),
        (True, None, [0, -1, 0, 2]),
        (False, 1.5, [1, -1.5, 0, 1.5]),
        (True, 1.5, [1, 0, 0, 1.5]),
    ],
)
def test_distillation_advantage_by_hand(to_go, clip, wanted):
    assert distillation_advantage(STUDENT, TEACHER, MASK, to_go, clip).tolist() == [wanted]


def grid(seed):
    """Logits of a two-token tree over three symbols: the first token's, and the second's by it."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(4, 3, generator=generator, dtype=torch.float64).requires_grad_()


def whole(logits):
    """Log-probs of the nine answers, and of their two tokens ``[9, 2]``."""
    first, second = logits[0].log_softmax(-1), logits[1:].log_softmax(-1)
    pairs = torch.stack([first[:, None].expand(3, 3), second], -1).reshape(9, 2)
    return pairs.sum(1), pairs


@pytest.mark.parametrize("to_go", [False, True])
def test_distillation_advantage_is_unbiased_on_a_tree(to_go):
    student, teacher = grid(0), grid(1).detach()
    answers, taken = whole(student)
    theirs, given = whole(teacher)
    everywhere = torch.ones(9, 2, dtype=torch.bool)

    # E over the nine answers of sum_t A_t grad log s(a_t).
    advantage = distillation_advantage(taken, given, everywhere, to_go, None)
    (answers.detach().exp()[:, None] * advantage * taken).sum().backward()
    estimated, student.grad = student.grad, None

    if to_go:  # the KL of whole answers
        again, _ = whole(student)
        objective = (again.exp() * (again - theirs)).sum()
    else:  # the KL of the next token, at prefixes whose distribution is held fixed
        s, t = student.log_softmax(-1), teacher.log_softmax(-1)
        reached = torch.cat([torch.ones(1), s[0].detach().exp()])
        objective = (reached[:, None] * s.exp() * (s - t)).sum()
    objective.backward()
    torch.testing.assert_close(estimated, -student.grad)


def test_distillation_advantage_to_go_differs_on_the_first_token():
    student, teacher = grid(0), grid(1).detach()
    answers, taken = whole(student)
    _, given = whole(teacher)
    everywhere = torch.ones(9, 2, dtype=torch.bool)
    result = []
    for to_go in (False, True):
        advantage = distillation_advantage(taken, given, everywhere, to_go, None)
        mean = (answers.detach().exp()[:, None] * advantage * taken).sum()
        result.append(torch.autograd.grad(mean, student, retain_graph=True)[0])

    assert (result[0][0] - result[1][0]).abs().max() > 0.01
    torch.testing.assert_close(result[0][1:], result[1][1:])


def test_an_impossible_token_has_probability_exp_minus_40():
    never = torch.tensor([[[0.0, -math.inf]]], dtype=torch.float64)
    half = torch.tensor([[[0.5, 0.5]]], dtype=torch.float64).log()
    mask = torch.ones(1, 1, dtype=torch.bool)

    result = divergence(half, never, mask, "reverse")

    # (log(1/2) - 0) / 2 + (log(1/2) + 40) / 2
    assert result.item() == pytest.approx(math.log(0.5) + 20)


STUDENT_SPANS = torch.tensor([-1.0, -2.0, -4.0, -0.5])
TEACHER_SPANS = torch.tensor([-0.5, -3.0, -1.0])


@pytest.mark.parametrize(
    ("student_ends", "teacher_ends", "length", "wanted"),
    [
        # Spans to 2, to 4 and to 5: -.5 + 3, -3 + 4, -1 + .5.
        ([1, 2, 4, 5], [2, 4, 5], 5, [0, 2.5, 1.0, -0.5]),
        # The teacher cuts finer: to 4 -3.5 + 7, to 5 -1 + .5.
        ([1, 2, 4, 5], [3, 4, 5], 5, [0, 0, 3.5, -0.5]),
        # Nothing in common but the end: -4.5 + 7.5.
        ([1, 2, 4, 5], [3, 3, 5], 5, [0, 0, 0, 3.0]),
        # What ends beyond the text, as the teacher's last does, is compared with nothing.
        ([1, 2, 4, 6], [2, 4, 6], 5, [0, 2.5, 1.0, 0]),
    ],
)
def test_span_log_ratio_by_hand(student_ends, teacher_ends, length, wanted):
    result = span_log_ratio(STUDENT_SPANS, student_ends, TEACHER_SPANS, teacher_ends, length)

    assert result.tolist() == wanted


def test_span_log_ratio_of_one_tokenization_is_by_token():
    result = span_log_ratio(STUDENT_SPANS[:3], [1, 2, 3], TEACHER_SPANS, [1, 2, 3], 3)

    assert result.tolist() == (TEACHER_SPANS - STUDENT_SPANS[:3]).tolist()
