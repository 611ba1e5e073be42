import pytest
import torch

from rlcomp.engine.finite import first_non_finite
from rlcomp.testing import make_batch

NAN, INF = float("nan"), float("inf")


def batch(**entries):
    """Two rows; the first has response tokens 1 and 2, the second token 1."""
    mask = torch.tensor([[False, True, True], [False, True, False]])
    return make_batch(response_mask=mask, **entries)


def per_token(*rows):
    return torch.tensor([list(row) for row in rows])


def test_a_finite_batch_gives_none():
    assert first_non_finite(batch(advantage=torch.zeros(2, 3), reward=torch.ones(2))) is None


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_the_description_has_key_value_position_and_count(value):
    bad = per_token((0.0, 0.0, value), (0.0, value, 0.0))

    # Three response tokens, two of them not finite.
    assert (
        first_non_finite(batch(advantage=bad))
        == f"'advantage' is {value} at [0, 2] (2 of 3 values)"
    )


def test_masked_tokens_and_rows_without_valid_reward_are_ignored():
    outside = per_token((NAN, 0.0, 0.0), (0.0, 0.0, INF))
    invalid = per_token((0.0, 0.0, 0.0), (0.0, NAN, 0.0))
    valid = torch.tensor([True, False])

    assert first_non_finite(batch(advantage=outside)) is None
    assert first_non_finite(batch(advantage=invalid, reward_valid=valid)) is None
    assert first_non_finite(batch(reward=torch.tensor([0.0, NAN]), reward_valid=valid)) is None
    assert first_non_finite(batch(advantage=invalid)) is not None


def test_entries_are_searched_in_the_order_of_the_schema():
    bad = per_token((0.0, NAN, 0.0), (0.0, 0.0, 0.0))

    # The schema has old_log_probs before reward and advantage.
    actual = first_non_finite(
        batch(advantage=bad, reward=torch.tensor([NAN, 0.0]), old_log_probs=bad)
    )

    assert actual == "'old_log_probs' is nan at [0, 1] (1 of 3 values)"


def test_nan_and_infinity_with_a_meaning_are_accepted():
    gap = per_token((0.0, NAN, 0.0), (0.0, 0.0, 0.0))
    rewards = make_batch(a=[NAN, 1.0])
    suppressed = torch.full((2, 3, 4), -INF)

    assert first_non_finite(batch(rollout_log_probs=gap, rewards=rewards)) is None
    assert first_non_finite(batch(log_distribution=suppressed)) is None
    assert "rollout_log_probs" in first_non_finite(batch(rollout_log_probs=gap.nan_to_num(INF)))
    assert "log_distribution" in first_non_finite(batch(log_distribution=-suppressed))


def test_unknown_and_nested_keys_are_searched():
    theirs = make_batch(next={"observation": torch.tensor([[0.0], [INF]])})

    assert first_non_finite(theirs) == "'next.observation' is inf at [1, 0] (1 of 2 values)"
