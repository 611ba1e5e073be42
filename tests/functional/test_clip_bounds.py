from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from rlcomp.functional.clip_bounds import (
    BoundGrid,
    contributions,
    covariance,
    draw_eligible,
    highest,
    positive_share,
    search_bounds,
    share_count,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "policy"
PAPER = BoundGrid(0.6, 0.9, 0.02), BoundGrid(1.2, 3.0, 0.05)


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


TOY = row(1, 0.5, 0.7), row(1, -1, -1)


def share_of(floor, ceiling, measure, ratio=TOY[0], advantage=TOY[1]):
    return positive_share(contributions(ratio, advantage, floor, ceiling, measure), advantage)


@pytest.mark.parametrize(
    ("floor", "value", "gradient"),
    [
        # value: 1 / (1 + max(0.5, floor) + max(0.7, floor)); a higher floor only adds.
        # gradient: 1 / (1 + 0.7) until the floor passes 0.7, then 1 / 1.
        (0.6, 1 / 2.3, 1 / 1.7),
        (0.7, 1 / 2.4, 1 / 1.7),
        (0.8, 1 / 2.6, 1.0),
        (0.9, 1 / 2.8, 1.0),
    ],
)
def test_positive_share_by_hand(floor, value, gradient):
    assert share_of(floor, 1.2, "value") == pytest.approx(value)
    assert share_of(floor, 1.2, "gradient") == pytest.approx(gradient)


def test_search_raises_the_ceiling_to_its_end_before_the_floor():
    # The positive token counts from a ceiling of 1.4 on: 1.35 / (1.35 + 0.7) = 0.66. The negative
    # one drops out when the floor passes 0.7.
    ratio, advantage, ones = row(1.35, 0.7), row(1, -1), row(1, 1)
    paths = BoundGrid(0.6, 0.8, 0.1), BoundGrid(1.2, 1.5, 0.1)

    first = search_bounds(ratio, advantage, ones, 0.6, paths, "gradient")
    second = search_bounds(ratio, advantage, ones, 0.7, paths, "gradient")

    assert first == pytest.approx((0.6, 1.4, 1.35 / 2.05, 2))
    assert second == pytest.approx((0.8, 1.5, 1.0, 5))


def test_search_by_value_raises_the_floor_to_its_end():
    # 3 * 0.7 of negative mass against 1: no ceiling helps, and each floor makes it worse.
    result = search_bounds(*TOY, row(1, 1, 1), 0.5, PAPER, "value")

    assert result == pytest.approx((0.9, 3.0, 1 / 2.8, 51), abs=1e-6)


@pytest.mark.parametrize(
    ("advantage", "share", "steps"),
    [((0, 0, 0), 1.0, 0), ((1, 1, 1), 1.0, 0), ((-1, -1, -1), 0.0, 51)],
)
def test_search_on_advantages_of_one_sign_ends_at_an_end(advantage, share, steps):
    result = search_bounds(row(1, 1, 1), row(*advantage), row(1, 1, 1), 0.4, PAPER, "gradient")

    assert (result.share, result.steps) == (share, steps)


def test_search_weights_tokens():
    # 0.1 * 1 against 0.9 * 1.
    weight = row(0.1, 0.9)
    path = BoundGrid(0.6, 0.6, 0.1), BoundGrid(1.2, 1.2, 0.1)

    result = search_bounds(row(1, 1), row(1, -1), weight, 0.4, path, "gradient")

    assert result.share == pytest.approx(0.1)


tokens = st.lists(
    st.tuples(st.floats(0.1, 4), st.floats(-2, 2), st.floats(0, 1)), min_size=1, max_size=12
)


floors, ceilings = st.floats(0.5, 1), st.floats(1, 3)


@given(tokens, floors, floors, ceilings, ceilings)
def test_gradient_share_grows_with_both_bounds(seen, f1, f2, c1, c2):
    ratio, advantage, weight = (row(*column) for column in zip(*seen, strict=True))
    weight = weight + 1e-3
    (f1, f2), (c1, c2) = sorted((f1, f2)), sorted((c1, c2))

    def share(floor, ceiling):
        mass = weight * contributions(ratio, advantage, floor, ceiling, "gradient")
        # Where nothing is left, the share is 1 by definition and no longer compares.
        return positive_share(mass, advantage), float(mass.sum())

    (narrow, some), (wide, _) = share(f1, c1), share(f2, c2)
    assert wide >= narrow - 1e-12 or some == 0


@given(tokens, st.floats(0, 1), st.sampled_from(["gradient", "value"]))
def test_search_stays_within_its_paths(seen, share, measure):
    ratio, advantage, weight = (row(*column) for column in zip(*seen, strict=True))

    result = search_bounds(ratio, advantage, weight, share, PAPER, measure)

    assert 0.6 <= result.floor <= 0.9
    assert 1.2 <= result.ceiling <= 3.0
    assert result.steps <= (0.9 - 0.6) / 0.02 + (3.0 - 1.2) / 0.05 + 2
    assert result.share >= share - 1e-9 or (result.floor, result.ceiling) == (0.9, 3.0)


@pytest.mark.parametrize("number", range(24))
def test_search_does_not_raise_the_floor_first(number):
    # Their floor is at its end wherever their ceiling has moved; ours never moves before that.
    tensors = load_file(GOLDEN / "bapo_repo__policy_loss.safetensors")
    theirs = [tensors[f"{number}/out/{name}"].item() for name in ("clip_low", "clip_high")]
    old, new, advantage, mask = (
        tensors[f"{number}/in/{name}"]
        for name in ("old_log_prob", "log_prob", "advantages", "response_mask")
    )
    inside = mask.bool()
    ratio = torch.where(inside, (new - old).clamp(-20, 20), 0.0).exp()
    paths = BoundGrid(0.6, 0.8, 0.05), BoundGrid(1.2, 2.0, 0.05)

    # Their target, positive / negative = 1, is a share of a half.
    result = search_bounds(ratio, torch.where(inside, advantage, 0.0), mask, 0.5, paths, "gradient")

    assert result.floor == 0.6 or result.ceiling == 2.0
    assert theirs[1] == 1.2 or theirs[0] == pytest.approx(0.8)


NAN = float("nan")
ALL = torch.ones(1, 4, dtype=torch.bool)


def test_covariance_by_hand():
    mask = torch.tensor([[True, True, False], [True, False, False]])
    log_probs = torch.tensor([[-1.0, -2.0, NAN], [-3.0, NAN, NAN]])  # mean -2
    advantage = torch.tensor([[2.0, -1.0, NAN], [-1.0, NAN, NAN]])  # mean 0

    # 2 * 1, -1 * 0, -1 * -1
    result = covariance(log_probs, advantage, mask)

    torch.testing.assert_close(result, torch.tensor([[2.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))


@given(st.floats(-5, 5), st.floats(-5, 5))
def test_covariance_ignores_constants(a, b):
    log_probs = torch.tensor([[-1.0, -2.5, -0.3, -4.0]], dtype=torch.float64)
    advantage = torch.tensor([[1.0, -0.5, 0.2, 2.0]], dtype=torch.float64)

    torch.testing.assert_close(
        covariance(log_probs + a, advantage + b, ALL), covariance(log_probs, advantage, ALL)
    )


def test_covariance_of_half_precision_is_float32():
    values = torch.tensor([[-1.0, -2.0, -3.0, -4.0]], dtype=torch.bfloat16)

    assert covariance(values, values, ALL).dtype == torch.float32


def test_covariance_of_an_empty_mask_is_0():
    assert covariance(torch.ones(1, 4), torch.ones(1, 4), ~ALL).tolist() == [[0, 0, 0, 0]]
    assert not highest(torch.ones(1, 4), ~ALL, 2).any()
    assert not draw_eligible(~ALL, torch.ones(1, 4), 2, torch.Generator()).any()


def test_share_count_rounds_down_to_at_least_1():
    assert [share_count(ALL, share) for share in (0.0, 0.2, 0.74, 0.75)] == [1, 1, 2, 3]


def test_highest_includes_all_ties():
    values = torch.tensor([[5.0, 3.0, 3.0, 1.0]])

    assert highest(values, ALL, 1).tolist() == [[True, False, False, False]]
    assert highest(values, ALL, 2).tolist() == [[True, True, True, False]]
    assert highest(values, ALL, 9).tolist() == [[True] * 4]


def test_highest_ties_within_rounding():
    # Two answers with the same first token, read in other batches.
    values = torch.tensor([[5.0, 3.0000005, 3.0, 1.0]])

    assert highest(values, ALL, 2).tolist() == [[True, True, True, False]]


def test_highest_selects_eligible_tokens_only():
    values = torch.tensor([[NAN, 3.0, 9.0, 1.0]])
    eligible = torch.tensor([[False, True, False, True]])

    assert highest(values, eligible, 1).tolist() == [[False, True, False, False]]


@given(st.integers(0, 99), st.integers(1, 12), st.permutations(range(8)))
def test_draw_tokens_ignores_row_order_and_padding(seed, count, order):
    eligible = torch.rand(8, 5, generator=torch.Generator().manual_seed(seed)) < 0.6
    by = torch.randn(8, 5, generator=torch.Generator().manual_seed(seed + 100))

    here = draw_eligible(eligible, by, count, torch.Generator().manual_seed(1))
    wide = (
        torch.nn.functional.pad(eligible[order], (0, 2)),
        torch.nn.functional.pad(by[order], (0, 2), value=NAN),
    )
    there = draw_eligible(*wide, count, torch.Generator().manual_seed(1))

    assert there[:, :5].tolist() == here[order].tolist()
    assert int(here.sum()) == min(count, int(eligible.sum()))
    assert not (here & ~eligible).any()


def test_draw_tokens_breaks_ties_by_position():
    # All of one answer's tokens have its advantage.
    by = torch.tensor([[1.0, 1.0, 1.0, 1.0]])

    draws = [draw_eligible(ALL, by, 2, torch.Generator().manual_seed(3)).tolist() for _ in range(2)]

    assert draws[0] == draws[1]
    assert sum(draws[0][0]) == 2


def test_draw_tokens_can_draw_every_token():
    generator = torch.Generator().manual_seed(0)
    by = torch.arange(4.0)[None]

    times = sum(draw_eligible(ALL, by, 1, generator).int() for _ in range(400))

    # 100 each on average, with a deviation of 9.
    assert int(times.min()) > 60
    assert int(times.sum()) == 400
