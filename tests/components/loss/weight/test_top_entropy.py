import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import TokenMean
from components.loss.trust_region.clip import Clip
from components.loss.weight.rows import TopEntropy
from rlcomp.metrics import recording
from rlcomp.testing import make_batch
from rlcomp.testing.batch import example_batch

KEYS = ("log_probs", "old_log_probs", "advantage", "entropy", "response_mask")


def loss():
    return PolicyLoss(
        ratio=TokenRatio(),
        trust_region=Clip(clip_low=0.2, clip_high=0.28),
        reduction=TokenMean(),
        weight={"top_entropy": TopEntropy(fraction=0.2)},
    )


def batch():
    return make_batch(
        response_mask=[[True, True, True], [True, True, False]],
        entropy=[[0.1, 0.5, 0.3], [0.9, 0.2, float("nan")]],
    )


def test_the_most_uncertain_tokens_of_all_rows_are_kept():
    # Rank 0.6 * 4 = 2.4 of 0.1 0.2 0.3 0.5 0.9: 0.38.
    weight = TopEntropy(fraction=0.4)(batch())["token_weight"]

    assert weight.tolist() == [[0, 1, 0], [1, 0, 0]]


def test_equal_entropies_are_all_kept():
    rows = batch()
    rows["entropy"] = torch.full((2, 3), 0.7)

    assert TopEntropy(fraction=0.2)(rows)["token_weight"].sum().item() == 5


def test_a_token_at_the_floor_of_its_row_is_kept():
    # As prepared for the whole step; 0.5 and 0.25 are floats exactly.
    rows = batch()
    rows["entropy"][0, 1], rows["entropy"][1, 1] = 0.5, 0.25
    rows["entropy_floor"] = torch.tensor([0.5, 0.25])

    assert TopEntropy(fraction=0.4)(rows)["token_weight"].tolist() == [[0, 1, 0], [1, 1, 0]]


def test_a_fraction_of_1_keeps_everything():
    weight = TopEntropy(fraction=1.0)(batch())["token_weight"]

    assert weight.bool().tolist() == batch()["response_mask"].tolist()


def test_the_dropped_share_is_recorded():
    with recording() as ledger:
        TopEntropy(fraction=0.4)(batch())

    assert ledger.means() == {"weight/dropped_top_entropy": pytest.approx(0.6)}


@given(st.integers(0, 30), st.integers(1, 7))
def test_the_quantile_is_that_of_the_whole_optimiser_step(seed, cut):
    rows = example_batch(KEYS, seed=seed, dtype=torch.float64)
    part = loss()

    whole = part(rows)["loss"]
    prepared = rows.copy().update(part.prepare(rows))
    pieces = [part(prepared[:cut])["loss"], part(prepared[cut:])["loss"]]

    torch.testing.assert_close(torch.stack(pieces).sum(), whole, atol=1e-12, rtol=0)
