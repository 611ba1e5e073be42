import pytest

from components.shaping.length import KimiLength
from rlcomp.metrics import recording
from rlcomp.testing import graded_answers


def test_short_right_answers_gain_and_wrong_ones_never_do():
    # Lengths 2, 4, 6: lambda 0.5, 0, -0.5; the wrong one of length 2 gets min(0, 0.5).
    given = graded_answers([2, 4, 6, 2], [True, True, True, False], [0, 0, 0, 0])

    result = KimiLength(weight=1.0, warm_up=0.0)(given)

    assert result["reward"].tolist() == [1.5, 1.0, 0.5, 0.0]
    assert result["rewards", "kimi_length"].tolist() == [0.5, 0.0, -0.5, 0.0]


@pytest.mark.parametrize(("at", "share"), [(0.1, 0.25), (0.4, 1.0), (0.9, 1.0)])
def test_the_weight_grows_over_the_first_part_of_the_phase(at, share):
    with recording(progress=at):
        result = KimiLength(weight=0.8, warm_up=0.4)(graded_answers([2, 6], [True, True], [5, 5]))

    assert result["reward"].tolist() == pytest.approx([1 + 0.4 * share, 1 - 0.4 * share])


def test_groups_do_not_see_one_another():
    given = graded_answers([2, 4, 40, 80], [True] * 4, [1, 1, 0, 0])

    result = KimiLength(weight=1.0, warm_up=0.0)(given)

    assert result["reward"].tolist() == [1.5, 0.5, 1.5, 0.5]


def test_groups_of_equal_lengths_and_invalid_rows_are_left_alone():
    given = graded_answers([3, 3, 9], [True, True, True], [0, 0, 0], valid=[True, True, False])

    result = KimiLength(weight=1.0, warm_up=0.0)(given)

    assert result["reward"].tolist() == [1.0, 1.0, 0.0]
