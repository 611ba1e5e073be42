"""Log-probs of one text under two tokenizations, compared over common spans."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def span_log_ratio(
    student: Tensor,
    student_ends: Sequence[int],
    teacher: Tensor,
    teacher_ends: Sequence[int],
    length: int,
) -> Tensor:
    """Return teacher minus student, summed over the smallest spans where both tokenizations meet.

    ``d_S = sum_{u in S} log pi_T(u) - sum_{t in S} log pi(t)`` is at the student's last token of
    the span ``S``; the other tokens of the span have 0. With equal tokenizations each token is a
    span.

    Args:
        student: log-probs of one response, shape ``[N]``, nats.
        student_ends: end of each student token in the text, in bytes; not decreasing.
        teacher: log-probs of the same text, shape ``[M]``, nats.
        teacher_ends: end of each teacher token in the text, in bytes.
        length: length of the text in bytes; later ends are never common.

    Returns:
        Shape ``[N]``, nats. Tokens after the last common end are left out on both sides.

    Examples:
        >>> student, teacher = torch.tensor([-1.0, -2.0, -3.0]), torch.tensor([-1.0, -1.0])
        >>> span_log_ratio(student, [1, 2, 3], teacher, [2, 3], 3)
        tensor([0., 2., 2.])
    """
    ratios = torch.zeros_like(student)
    common = sorted(end for end in {*student_ends} & {*teacher_ends} if end <= length)
    start_s = start_t = 0
    for end in common:
        # Tokens that end at the same place (because they have no bytes of their own) belong
        # together.
        stop_s = sum(place <= end for place in student_ends)
        stop_t = sum(place <= end for place in teacher_ends)
        if stop_s > start_s:
            apart = teacher[start_t:stop_t].sum() - student[start_s:stop_s].sum()
            ratios[stop_s - 1] = apart
        start_s, start_t = stop_s, stop_t
    return ratios
