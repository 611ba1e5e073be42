from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from rlcomp.functional.clip_bounds import Path as Steps
from rlcomp.functional.clip_bounds import contributions, positive_share, search_bounds

GOLDEN = Path(__file__).parents[1] / "golden" / "policy"
PAPER = Steps(0.6, 0.9, 0.02), Steps(1.2, 3.0, 0.05)


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
def test_three_tokens_by_hand(floor, value, gradient):
    assert share_of(floor, 1.2, "value") == pytest.approx(value)
    assert share_of(floor, 1.2, "gradient") == pytest.approx(gradient)


def test_the_ceiling_is_raised_to_its_end_before_the_floor_moves():
    # The positive token counts from a ceiling of 1.4 on: 1.35 / (1.35 + 0.7) = 0.66. The negative
    # one drops out when the floor passes 0.7.
    ratio, advantage, ones = row(1.35, 0.7), row(1, -1), row(1, 1)
    paths = Steps(0.6, 0.8, 0.1), Steps(1.2, 1.5, 0.1)

    first = search_bounds(ratio, advantage, ones, 0.6, paths, "gradient")
    second = search_bounds(ratio, advantage, ones, 0.7, paths, "gradient")

    assert first == pytest.approx((0.6, 1.4, 1.35 / 2.05, 2))
    assert second == pytest.approx((0.8, 1.5, 1.0, 5))


def test_the_paper_s_measure_runs_the_floor_to_its_end_once_it_moves():
    # 3 * 0.7 of negative mass against 1: no ceiling helps, and each floor makes it worse.
    found = search_bounds(*TOY, row(1, 1, 1), 0.5, PAPER, "value")

    assert found == pytest.approx((0.9, 3.0, 1 / 2.8, 51), abs=1e-6)


@pytest.mark.parametrize(
    ("advantage", "share", "steps"),
    [((0, 0, 0), 1.0, 0), ((1, 1, 1), 1.0, 0), ((-1, -1, -1), 0.0, 51)],
)
def test_one_sided_batches_end_at_either_end(advantage, share, steps):
    found = search_bounds(row(1, 1, 1), row(*advantage), row(1, 1, 1), 0.4, PAPER, "gradient")

    assert (found.share, found.steps) == (share, steps)


def test_likely_tokens_count_more():
    # 0.1 * 1 against 0.9 * 1.
    weight = row(0.1, 0.9)
    path = Steps(0.6, 0.6, 0.1), Steps(1.2, 1.2, 0.1)

    found = search_bounds(row(1, 1), row(1, -1), weight, 0.4, path, "gradient")

    assert found.share == pytest.approx(0.1)


tokens = st.lists(
    st.tuples(st.floats(0.1, 4), st.floats(-2, 2), st.floats(0, 1)), min_size=1, max_size=12
)
floors, ceilings = st.floats(0.5, 1), st.floats(1, 3)


@given(tokens, floors, floors, ceilings, ceilings)
def test_the_share_of_the_gradient_grows_with_both_bounds(seen, f1, f2, c1, c2):
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
def test_the_search_ends_within_its_paths(seen, share, measure):
    ratio, advantage, weight = (row(*column) for column in zip(*seen, strict=True))

    found = search_bounds(ratio, advantage, weight, share, PAPER, measure)

    assert 0.6 <= found.floor <= 0.9
    assert 1.2 <= found.ceiling <= 3.0
    assert found.steps <= (0.9 - 0.6) / 0.02 + (3.0 - 1.2) / 0.05 + 2
    assert found.share >= share - 1e-9 or (found.floor, found.ceiling) == (0.9, 3.0)


@pytest.mark.parametrize("number", range(24))
def test_the_floor_is_not_raised_first_as_in_the_authors_code(number):
    # Their floor is at its end wherever their ceiling has moved; ours never moves before that.
    tensors = load_file(GOLDEN / "bapo_repo__policy_loss.safetensors")
    theirs = [tensors[f"{number}/out/{name}"].item() for name in ("clip_low", "clip_high")]
    old, new, advantage, mask = (
        tensors[f"{number}/in/{name}"]
        for name in ("old_log_prob", "log_prob", "advantages", "response_mask")
    )
    inside = mask.bool()
    ratio = torch.where(inside, (new - old).clamp(-20, 20), 0.0).exp()
    paths = Steps(0.6, 0.8, 0.05), Steps(1.2, 2.0, 0.05)

    # Their target, positive / negative = 1, is a share of a half.
    found = search_bounds(ratio, torch.where(inside, advantage, 0.0), mask, 0.5, paths, "gradient")

    assert found.floor == 0.6 or found.ceiling == 2.0
    assert theirs[1] == 1.2 or theirs[0] == pytest.approx(0.8)
