import pytest
import torch

from rlcomp.functional.distillation import span_log_ratio

STUDENT = torch.tensor([-1.0, -2.0, -4.0, -0.5])
TEACHER = torch.tensor([-0.5, -3.0, -1.0])


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
def test_spans_by_hand(student_ends, teacher_ends, length, wanted):
    found = span_log_ratio(STUDENT, student_ends, TEACHER, teacher_ends, length)

    assert found.tolist() == wanted


def test_with_one_tokenization_each_token_is_a_span():
    found = span_log_ratio(STUDENT[:3], [1, 2, 3], TEACHER, [1, 2, 3], 3)

    assert found.tolist() == (TEACHER - STUDENT[:3]).tolist()
