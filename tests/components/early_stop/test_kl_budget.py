import pytest

from components.early_stop import KLBudget
from rlcomp.testing import check_component

NAME = "evaluation/sampled"


def test_it_keeps_the_contract():
    check_component(KLBudget(metric=NAME, budget=1.0))


# Each token is .5 nats off: .5 a token, and (1 + 3) * .5 / 2 = 1 a response of 1 or 3 tokens.
@pytest.mark.parametrize(("unit", "expected"), [("token", 0.5), ("sequence", 1.0)])
def test_the_kl_is_the_mean_over_tokens_or_responses(play_steps, ragged, unit, expected):
    part = KLBudget(metric=NAME, budget=9.0, unit=unit)

    (step,) = play_steps(part, {NAME: [0.5]}, [ragged(0.5)])

    assert step["early_stop/kl"] == expected
    assert step["best"]["value"] == 0.5


def test_it_ends_when_the_mean_of_the_window_is_above_the_budget(play_steps, ragged):
    part = KLBudget(metric=NAME, budget=0.5, unit="token", window=2)
    nats = [0.75, 0.25, 0.5, 0.75]

    steps = play_steps(part, {NAME: [None] * 4}, [ragged(value) for value in nats])

    # The first has no whole window; .5 is the budget, not above it.
    assert [step["early_stop/kl"] for step in steps] == [0.75, 0.5, 0.375, 0.625]
    assert [step["ended"] is None for step in steps] == [True, True, True, False]
    assert steps[-1]["ended"] == (
        "KL budget: 0.625 nats per token to the reference, over 2 steps; the budget is 0.5"
    )


def test_it_goes_on_where_it_was_saved(play_steps, ragged):
    part, other = (KLBudget(metric=NAME, budget=0.1, unit="token", window=2) for _ in range(2))
    play_steps(part, {NAME: [None]}, [ragged(0.5)])

    other.load_run_state(part.run_state())
    (step,) = play_steps(other, {NAME: [None]}, [ragged(0.25)])

    assert step["early_stop/kl"] == 0.375
    assert step["ended"]
