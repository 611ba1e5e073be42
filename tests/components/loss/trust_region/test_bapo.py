import math

import pytest
import torch

from components.loss.trust_region.bapo import BAPO
from components.loss.trust_region.clip import Clip
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

NAN = float("nan")
# Positive mass 1.35 counts once the ceiling is above it, negative 0.7 until the floor is.
PATHS = {
    "floor_start": 0.6,
    "floor_end": 0.8,
    "floor_step": 0.1,
    "ceiling_start": 1.2,
    "ceiling_end": 1.5,
    "ceiling_step": 0.1,
}


def batch():
    return make_batch(
        response_mask=[[True, False], [True, False], [False, False]],
        log_probs=torch.tensor([[-1.3, NAN], [-0.1, NAN], [NAN, NAN]], dtype=torch.float64),
        ratio=torch.tensor([[1.35, NAN], [0.7, NAN], [NAN, NAN]], dtype=torch.float64),
        advantage=torch.tensor([[1.0, NAN], [-1.0, NAN], [NAN, NAN]], dtype=torch.float64),
        rollout_log_probs=torch.tensor([[-1.0, NAN], [-1.0, NAN], [NAN, NAN]], dtype=torch.float64),
    )


@pytest.mark.parametrize(
    ("share", "floor", "ceiling"),
    [(0.0, 0.6, 1.2), (0.6, 0.6, 1.4), (0.7, 0.8, 1.5)],
)
def test_the_bounds_are_searched_once_for_all_rows(share, floor, ceiling):
    prepared = BAPO(share=share, **PATHS).prepare(batch())

    assert prepared["ratio_floor"].tolist() == pytest.approx([floor] * 3)
    assert prepared["ratio_ceiling"].tolist() == pytest.approx([ceiling] * 3)


def test_the_defaults_are_the_papers():
    part = BAPO()

    assert (part.share, part.measure) == (0.4, "gradient")
    assert (part.floor_start, part.floor_end, part.floor_step) == (0.6, 0.9, 0.02)
    assert (part.ceiling_start, part.ceiling_end, part.ceiling_step) == (1.2, 3.0, 0.05)


def test_with_its_bounds_it_equals_ppo():
    part, rows = BAPO(share=0.6, **PATHS), batch()
    bounds = part.prepare(rows)
    low = 1 - bounds["ratio_floor"][0].item()
    high = bounds["ratio_ceiling"][0].item() - 1

    torch.testing.assert_close(
        part(rows.copy())["surrogate"],
        Clip(clip_low=low, clip_high=high)(rows.copy())["surrogate"],
    )


def test_a_part_of_the_step_keeps_the_bounds_of_the_step():
    part, rows = BAPO(share=0.7, **PATHS), batch()
    whole = part(rows.copy())["surrogate"]

    split = rows.copy().update(part.prepare(rows))
    got = torch.cat([part(split[:1])["surrogate"], part(split[1:])["surrogate"]])

    torch.testing.assert_close(got, whole)
    # Alone the positive row has nothing to be balanced against: no bound moves, and it is cut.
    assert whole[0, 0].item() == pytest.approx(1.35)
    assert part(rows[:1].copy())["surrogate"][0, 0].item() == pytest.approx(1.2)


def test_the_search_starts_anew_at_every_step():
    part = BAPO(share=0.7, **PATHS)
    part.prepare(batch())

    assert part.prepare(batch()[:1])["ratio_floor"].tolist() == [0.6]


def test_likely_tokens_count_by_their_probability():
    rows = batch()
    rows["rollout_log_probs"][1, 0] = math.log(1e-6)

    # The negative token hardly counts: bounds that let the positive one in are enough.
    assert BAPO(share=0.9, **PATHS).prepare(rows)["ratio_floor"].tolist() == [0.6] * 3


def test_a_token_without_a_record_counts_by_its_probability_now():
    rows = batch()
    rows["rollout_log_probs"][0, 0] = NAN
    part = BAPO(share=0.6, **PATHS)

    bounds = part.prepare(rows)

    # Positive mass 1.35 e^-1.3 = 0.3679, negative 0.7 e^-1 = 0.2575: 0.5883 until the floor passes
    # 0.7 and leaves the positive token alone.
    assert bounds["ratio_floor"].tolist() == pytest.approx([0.8] * 3)
    assert part.bounds.share == pytest.approx(1.0)


def test_the_bounds_are_recorded():
    part = BAPO(share=0.6, **PATHS)

    with recording() as ledger:
        part(batch())

    found = {key.removeprefix("trust_region/"): value for key, value in ledger.means().items()}
    assert found == pytest.approx(
        {
            "clip_fraction_low": 0,
            "clip_fraction_high": 0,
            "ratio_floor": 0.6,
            "ratio_ceiling": 1.4,
            "positive_share": 1.35 / 2.05,
            "search_steps": 2,
        }
    )


def test_bounds_that_were_given_took_no_search():
    rows = batch()
    rows.update({"ratio_floor": torch.full((3,), 0.8), "ratio_ceiling": torch.full((3,), 1.3)})

    with recording() as ledger:
        surrogate = BAPO(**PATHS)(rows)["surrogate"]

    # min(1.35, 1.3) and min(-0.7, -0.8)
    assert surrogate[:2, 0].tolist() == pytest.approx([1.3, -0.8])
    assert ledger.means()["trust_region/search_steps"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"floor_start": 0.95}, r"floor_end is 0.9, below floor_start = 0.95"),
        ({"ceiling_end": 1.1}, r"ceiling_end is 1.1, below ceiling_start = 1.2"),
        ({"ceiling_start": 0.9}, r"ceiling_start is 0.9: must be at least 1"),
        ({"share": 1.5}, r"share is 1.5: must be at most 1"),
    ],
)
def test_paths_that_lead_nowhere_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        BAPO(**arguments)
