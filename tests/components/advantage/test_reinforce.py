import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.advantage.monte_carlo import REINFORCE
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch


def batch(*rewards, valid=None):
    rows = len(rewards)
    return make_batch(
        reward=rewards,
        reward_valid=valid or [True] * rows,
        response_mask=[[False, True, True]] * rows,
    )


def credit(component, *rewards, valid=None):
    return component(batch(*rewards, valid=valid))["advantage"][:, 1].tolist()


def test_without_a_baseline_every_token_of_the_response_has_the_reward():
    advantage = REINFORCE(baseline="none")(batch(1.0, -2.0))["advantage"]

    assert advantage.tolist() == [[0, 1, 1], [0, -2, -2]]


def test_the_mean_of_the_batch_is_that_of_its_valid_rows():
    # (1 + 0) / 2; the third row counts nowhere.
    rows = credit(REINFORCE(), 1.0, 0.0, float("nan"), valid=[True, True, False])

    assert rows == [0.5, -0.5, 0]


def test_the_moving_baseline_is_made_of_the_batches_before():
    component = REINFORCE(baseline="moving", decay=0.75)

    # Nothing before: 0. Then the first mean 4; then 0.75 x 4 + 0.25 x 0 = 3.
    assert credit(component, 3.0, 5.0) == [3, 5]
    assert credit(component, 0.0, 0.0) == [-4, -4]
    assert credit(component, 3.0) == [0]


def test_the_default_decay_of_the_moving_baseline_is_nine_tenths():
    component = REINFORCE(baseline="moving")

    # 0, then 4, then 0.9 x 4 + 0.1 x 0.
    assert [credit(component, reward)[0] for reward in (4.0, 0.0, 0.0)] == pytest.approx(
        [4.0, -4.0, -3.6]
    )


def test_the_recorded_size_is_that_of_valid_rewards():
    with recording() as ledger:
        credit(REINFORCE(baseline="none"), 2.0, float("nan"), valid=[True, False])

    assert ledger.means()["advantage/abs"] == 1


def test_a_batch_without_a_valid_reward_leaves_the_moving_baseline_alone():
    component = REINFORCE(baseline="moving")
    credit(component, 2.0)

    assert credit(component, float("nan"), valid=[False]) == [0]
    assert credit(component, 2.0) == [0]


def test_the_moving_baseline_is_saved_and_restored():
    component, restored = REINFORCE(baseline="moving"), REINFORCE(baseline="moving")
    credit(component, 2.0)

    restored.load_state_dict(component.state_dict())

    assert credit(restored, 2.0, 3.0) == [0, 1]


@given(st.lists(st.integers(-8, 8), min_size=1, max_size=9), st.integers(-8, 8))
def test_a_constant_on_every_reward_changes_nothing_above_the_mean(rewards, shift):
    exact = [reward / 4 for reward in rewards]

    moved = credit(REINFORCE(), *(reward + shift for reward in exact))

    assert moved == pytest.approx(credit(REINFORCE(), *exact), abs=1e-5)


@pytest.mark.parametrize("baseline", ["none", "batch_mean", "moving"])
def test_every_baseline_keeps_the_contract(baseline):
    check_component(REINFORCE(baseline=baseline))


def test_another_baseline_is_refused_by_name():
    with pytest.raises(ConfigError, match="baseline is 'mean': must be one of 'none'"):
        REINFORCE(baseline="mean")
