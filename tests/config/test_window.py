import pytest
from omegaconf import OmegaConf

from rlcomp.config.reader import Reader
from rlcomp.config.window import Window, window


def found(first=None, last=None, steps=10):
    reader = Reader(OmegaConf.create({}))
    return window(reader, "x", {"from_step": first, "until_step": last}, steps), reader.errors


def test_both_ends_are_in_a_window():
    assert [step for step in range(1, 7) if Window(3, 5).holds(step)] == [3, 4, 5]
    assert [step for step in range(1, 5) if Window(3).holds(step)] == [3, 4]
    assert Window(3, 5).ends() == [3, 6]
    assert Window(3).ends() == [3]


@pytest.mark.parametrize(
    ("first", "last", "steps", "meant"),
    [
        (None, None, 10, Window(1, None)),
        (4, 7, 10, Window(4, 7)),
        (7, 7, 10, Window(7, 7)),
        (0.5, None, 100, Window(51, None)),
        (None, 0.5, 100, Window(1, 50)),
        (0.29, 0.58, 100, Window(30, 58)),  # .29 * 100 is 28.999999999999996
        (0.2, 0.7, 9, Window(2, 6)),  # 1.8 and 6.3 steps
        (0.99999999, None, 150, Window(150, None)),
        (0.0000001, None, 10, Window(1, None)),
    ],
)
def test_shares_are_cut_to_whole_steps(first, last, steps, meant):
    assert found(first, last, steps) == (meant, [])


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (0.5, 0.5),
        (0.6, 0.5),
        (7, 6),
        (11, None),
        (None, 0),
        (0.0, 3),
        (1.0, None),
        (1.5, None),
        (True, 3),
    ],
)
def test_what_would_never_run_is_told_with_its_path(first, last):
    made, errors = found(first, last)

    assert made is None
    assert len(errors) == 1
    assert errors[0].startswith("x")


def test_only_what_is_set_is_told():
    assert found(11, None) == (
        None,
        [
            "x has from_step 11, but the phase has 10 steps: it would never run; a share of the "
            "phase (from_step: 0.5) goes with its length"
        ],
    )
