"""Losses of distillation, and the alignment of two tokenizers' spans.

Log-probs are in nats. :func:`divergence` and :func:`distillation_advantage` detach the teacher's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from rlcomp.errors import ShapeError
from rlcomp.functional.reduction import masked

Divergence = Literal["reverse", "forward", "jsd"]


def divergence(
    student: Tensor, teacher: Tensor, mask: Tensor, kind: Divergence, beta: float = 0.5
) -> Tensor:
    """Compute the divergence of two next-token distributions at every token.

    ``reverse``: ``KL(s || t)``; ``forward``: ``KL(t || s)``; ``jsd``:
    ``JSD_beta = beta KL(t || m) + (1 - beta) KL(s || m)`` with ``m = beta t + (1 - beta) s``.
    ``JSD_beta / beta`` tends to the forward KL as ``beta`` tends to 0; ``JSD_beta / (1 - beta)``
    tends to the reverse KL as ``beta`` tends to 1.

    Student and teacher are log-probs ``[B, T, V]``; the result is ``[B, T]``, in nats, 0 outside
    the mask. A token that is impossible on one side (``-inf`` or the dtype's least number) gets the
    probability ``exp(-40)`` there, so that the value stays finite. ShapeError if the shapes do not
    match.

    Source: Agarwal et al. 2023 (GKD), arXiv:2306.13649, eqs. 1, 2 and the generalised JSD.

    Examples:
        >>> one = torch.ones(1, 1, dtype=torch.bool)
        >>> even, skewed = torch.tensor([[[0.5, 0.5]]]).log(), torch.tensor([[[0.25, 0.75]]]).log()
        >>> divergence(even, skewed, one, "reverse"), divergence(even, skewed, one, "forward")
        (tensor([[0.1438]]), tensor([[0.1308]]))
    """
    _check(student, teacher, mask)
    s, t = _filled(student, mask), _filled(teacher.detach(), mask)
    if kind == "reverse":
        return _kl(s, t)
    if kind == "forward":
        return _kl(t, s)
    weights = torch.tensor([1 - beta, beta], dtype=s.dtype, device=s.device).log()
    mixture = torch.logaddexp(s + weights[0], t + weights[1])
    return beta * _kl(t, mixture) + (1 - beta) * _kl(s, mixture)


def _check(student: Tensor, teacher: Tensor, mask: Tensor) -> None:
    if student.shape != teacher.shape or student.shape[:2] != mask.shape:
        raise ShapeError(
            f"'log_distribution' has shape {list(student.shape)}, 'ref_log_distribution' "
            f"{list(teacher.shape)}, 'mask' {list(mask.shape)}: student and teacher need one "
            "vocabulary"
        )


# Log-prob of an impossible token: with -inf, 0 * inf would be NaN in value and gradient. A bound on
# the ratio would remove the gradient of the forward KL where the student needs it most.
_IMPOSSIBLE = -40.0


def _filled(log_probs: Tensor, mask: Tensor) -> Tensor:
    """Return finite log-probs, with the same constant on both sides outside the mask."""
    possible = mask.bool()[..., None] & (log_probs > torch.finfo(log_probs.dtype).min)
    return torch.where(possible, log_probs, torch.full_like(log_probs, _IMPOSSIBLE))


def _kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    return (log_p.exp() * (log_p - log_q)).sum(-1)


def coarsen(student: Tensor, teacher: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """Reduce both distributions to the teacher's ``top_k`` tokens and one bucket for all others.

    From ``[B, T, V]`` to ``[B, T, min(top_k, V - 1) + 1]``, the bucket last. A divergence of the
    results is at least 0, at most the divergence over all tokens (data processing inequality), and
    equal to it at ``top_k >= V - 1``. Without the bucket it could be negative.

    Examples:
        >>> thirds = torch.tensor([[[0.5, 0.25, 0.25]]]).log()
        >>> coarsen(thirds, thirds, 1)[0].exp()
        tensor([[[0.5000, 0.5000]]])
    """
    order = teacher.argsort(dim=-1, descending=True, stable=True)
    kept = min(top_k, teacher.shape[-1] - 1)
    least = torch.finfo(student.dtype).min

    def join_others(log_probs: Tensor) -> Tensor:
        ordered = log_probs.gather(-1, order)
        bucket = ordered[..., kept:].clamp(min=least).logsumexp(-1, keepdim=True)
        return torch.cat([ordered[..., :kept], bucket], -1)

    return join_others(student), join_others(teacher)


def distillation_advantage(
    log_probs: Tensor, ref_log_probs: Tensor, mask: Tensor, to_go: bool, clip: float | None
) -> Tensor:
    """Compute the advantage of a token under the reverse KL to a teacher, detached, ``[B, T]``.

    ``A_t = log t(a_t) - log s(a_t)``, in nats, clipped to ``[-clip, clip]`` unless ``clip`` is
    None; with ``to_go`` the sum of these clipped differences from this token on. ``log_probs`` are
    the student's, ``ref_log_probs`` the teacher's, ``[B, T]``; 0 outside the mask.

    On samples of the student, ``E[sum_t A_t grad log s(a_t)]`` is, with ``to_go``, minus the
    gradient of the KL of whole responses, ``KL(s(y) || t(y))``. Without it, it is minus the
    gradient of the sum over tokens of the next-token KL at prefixes of fixed distribution.

    Source: Gu et al. 2023 (MiniLLM), arXiv:2306.08543, eq. 2 (to go); Lu & Thinking Machines Lab
    2025, "On-Policy Distillation" (one token).

    Examples:
        >>> two = torch.ones(1, 2, dtype=torch.bool)
        >>> student, teacher = torch.tensor([[-1.0, -2.0]]), torch.tensor([[-0.5, -3.0]])
        >>> distillation_advantage(student, teacher, two, True, None)
        tensor([[-0.5000, -1.0000]])
    """
    difference = masked((ref_log_probs - log_probs).detach(), mask)
    if clip is not None:
        difference = difference.clamp(-clip, clip)
    if not to_go:
        return difference
    return masked(difference.flip(1).cumsum(1).flip(1), mask)


def span_log_ratio(
    student: Tensor,
    student_ends: Sequence[int],
    teacher: Tensor,
    teacher_ends: Sequence[int],
    length: int,
) -> Tensor:
    """Return the log-ratio of teacher to student over the smallest spans of both tokenizations.

    A span ends where a token of the student and a token of the teacher end at the same byte.
    ``d_S = sum_{u in S} log pi_T(u) - sum_{t in S} log pi(t)`` is at the student's last token of
    the span ``S``; the other tokens have 0. The result is ``[N]``, in nats. With equal
    tokenizations each token is a span. Tokens after the last common end are left out on both sides.

    Args:
        student: log-probs of one response, shape ``[N]``.
        student_ends: end of each student token in the text, in bytes; not decreasing.
        teacher: log-probs of the same text, shape ``[M]``.
        teacher_ends: end of each teacher token in the text, in bytes; not decreasing.
        length: length of the text in bytes; later ends are never common.

    Examples:
        >>> student, teacher = torch.tensor([-1.0, -2.0, -3.0]), torch.tensor([-1.0, -1.0])
        >>> span_log_ratio(student, [1, 2, 3], teacher, [2, 3], 3)
        tensor([0., 2., 2.])
    """
    ratios = torch.zeros_like(student)
    common = sorted(end for end in {*student_ends} & {*teacher_ends} if end <= length)
    start_s = start_t = 0
    for end in common:
        # A token without bytes has the end of the token before it, and belongs to the same span.
        stop_s = sum(byte <= end for byte in student_ends)
        stop_t = sum(byte <= end for byte in teacher_ends)
        if stop_s > start_s:
            log_ratio = teacher[start_t:stop_t].sum() - student[start_s:stop_s].sum()
            ratios[stop_s - 1] = log_ratio
        start_s, start_t = stop_s, stop_t
    return ratios
