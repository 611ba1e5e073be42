import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import get_scheduler

from rlcomp.errors import ConfigError
from rlcomp.model.optimizer import Schedule


def test_linear_schedule_rises_then_falls_to_its_final_value():
    schedule = Schedule(name="linear", warmup=0.2, final=0.1)

    # Half of the warm-up; its end; half of the fall: (1 + 0.1) / 2; the end.
    values = [schedule(progress) for progress in (0.0, 0.1, 0.2, 0.6, 1.0)]
    assert values == pytest.approx([0.0, 0.5, 1.0, 0.55, 0.1])


def test_cosine_schedule_follows_half_a_wave():
    schedule = Schedule(name="cosine", final=0.2)

    # 0.2 + 0.8 (1 + cos(pi / 4)) / 2 a quarter of the way.
    quarter = 0.2 + 0.4 * (1 + math.cos(math.pi / 4))
    values = [schedule(progress) for progress in (0.0, 0.25, 0.5, 1.0)]
    assert values == pytest.approx([1.0, quarter, 0.6, 0.2])


def test_constant_schedule_stays_after_its_warmup():
    schedule = Schedule(name="constant", warmup=0.5)

    assert [schedule(progress) for progress in (0.25, 0.5, 1.0)] == pytest.approx([0.5, 1.0, 1.0])


@given(
    st.sampled_from(["constant", "linear", "cosine"]),
    st.floats(0, 0.99),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_multiplier_stays_between_zero_and_one(name, warmup, final, progress):
    value = Schedule(name=name, warmup=warmup, final=final)(progress)

    assert -1e-9 <= value <= 1 + 1e-9


def test_unknown_names_are_refused():
    with pytest.raises(ConfigError, match="name is 'cosin'"):
        Schedule(name="cosin")


@pytest.mark.parametrize(("name", "end"), [("constant", 1.0), ("linear", 0.1), ("cosine", 0.1)])
def test_a_warmup_that_takes_nearly_everything_leaves_the_end_its_value(name, end):
    schedule = Schedule(name=name, warmup=0.99999, final=0.1)

    # The ramp ends a ten-thousandth before the end.
    values = [schedule(progress) for progress in (0.0, 0.5, 0.9999, 1.0)]
    assert values == pytest.approx([0.0, 0.5, 1.0, end], abs=1e-4)


@pytest.mark.parametrize(
    ("name", "theirs", "more"),
    [
        ("constant", "constant_with_warmup", {}),
        ("linear", "polynomial", {"lr_end": 0.1, "power": 1.0}),
        ("cosine", "cosine_with_min_lr", {"min_lr_rate": 0.1}),
    ],
)
@pytest.mark.parametrize("warmup", [0.0, 0.0667])
def test_the_formulas_are_those_of_transformers_to_the_bit(name, theirs, more, warmup):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    ramp = round(warmup * 10_000)
    theirs = get_scheduler(theirs, optimizer, ramp, 10_000, scheduler_specific_kwargs=more)
    schedule = Schedule(name=name, warmup=warmup, final=0.1)

    steps = range(0, 10_001, 29)
    assert [schedule(step / 10_000) for step in steps] == list(map(theirs.lr_lambdas[0], steps))
