"""Clip-Cov and KL-Cov."""

import pytest
import torch

from components.loss.trust_region.covariance import ClipCov, KLCov
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

NAN = float("nan")


def batch():
    # Advantages have mean 0, log-probs mean -2: covariances 2, 0, 2, -2 (two rows, one mean).
    return make_batch(
        response_mask=[[True, True, False], [True, True, False]],
        log_probs=torch.tensor([[-1.0, -2.0, NAN], [-4.0, -1.0, NAN]], dtype=torch.float64),
        ratio=torch.tensor([[1.1, 1.0, NAN], [0.9, 2.0, NAN]], dtype=torch.float64),
        advantage=torch.tensor([[2.0, 1.0, NAN], [-1.0, -2.0, NAN]], dtype=torch.float64),
    )


def test_clip_cov_selects_only_tokens_between_the_bounds():
    part = ClipCov(share=1.0, covariance_low=0.5, covariance_high=5.0)

    assert part.prepare(batch())["selected"].tolist() == [
        [True, False, False],
        [True, False, False],
    ]
    # 2 * 1.1 and -1 * 0.9 are gone; 1 * 1 and -2 * 2 stand.
    assert part(batch())["surrogate"].tolist() == [[0, 1, 0], [0, -4, 0]]


@pytest.mark.parametrize("bounds", [(0.5, 2.0), (2.0, 5.0)])
def test_clip_cov_selects_no_token_at_a_bound(bounds):
    # Two tokens covary by 2; the bounds are open, as in verl.
    low, high = bounds
    part = ClipCov(share=1.0, covariance_low=low, covariance_high=high)

    assert not part.prepare(batch())["selected"].any()


def test_clip_cov_draws_no_more_than_its_share():
    part = ClipCov(share=0.25, covariance_low=0.5, covariance_high=5.0)

    drawn = torch.stack([part.prepare(batch())["selected"] for _ in range(50)])

    assert bool((drawn.sum((1, 2)) == 1).all())
    assert bool(drawn[:, 0, 0].any())
    assert bool(drawn[:, 1, 0].any())


def test_clip_cov_selects_no_clipped_token():
    rows = batch()
    rows["ratio"][0, 0] = 1.5
    part = ClipCov(share=1.0, covariance_low=0.5, covariance_high=5.0)

    assert part.prepare(rows)["selected"].tolist() == [[False] * 3, [True, False, False]]
    assert part(rows)["surrogate"][0, 0].item() == pytest.approx(2 * 1.2)


def test_clip_cov_draws_from_its_own_generator():
    part = ClipCov(share=0.25, covariance_low=0.5, covariance_high=5.0)
    torch.manual_seed(0)
    part.generator.manual_seed(7)
    first = [part.prepare(batch())["selected"].tolist() for _ in range(6)]
    torch.manual_seed(1)
    part.generator.manual_seed(7)

    assert [part.prepare(batch())["selected"].tolist() for _ in range(6)] == first


def test_kl_cov_penalises_the_tokens_of_highest_covariance():
    rows = batch()
    rows["ratio"].requires_grad_()

    surrogate = KLCov(share=0.5, kl_coef=0.5)(rows)["surrogate"]
    surrogate.sum().backward()

    # 2.2 - 0.5 log 1.1, 1, -0.9 - 0.5 * -log 0.9, -4
    want = [[2.2 - 0.0476551, 1, 0], [-0.9 - 0.0526803, -4, 0]]
    torch.testing.assert_close(
        surrogate.detach(), torch.tensor(want, dtype=torch.float64), atol=1e-6, rtol=0
    )
    # A -+ 0.5 / r where held
    assert rows["ratio"].grad[:, 0].tolist() == pytest.approx([2 - 0.5 / 1.1, -1 + 0.5 / 0.9])


def test_kl_cov_never_penalises_a_token_without_covariance():
    rows = batch()
    rows["advantage"] = torch.zeros_like(rows["advantage"])

    assert not KLCov(share=1.0).prepare(rows)["selected"].any()


def test_kl_cov_does_not_clip():
    rows = batch()
    rows["ratio"][1, 1] = 50.0

    assert KLCov(share=0.25)(rows)["surrogate"][1, 1].item() == -100


@pytest.mark.parametrize(
    "part", [ClipCov(share=1.0, covariance_low=0.5, covariance_high=5.0), KLCov(share=0.5)]
)
def test_the_share_picked_is_recorded(part):
    with recording() as ledger:
        part(batch())

    assert ledger.means()["trust_region/selected_fraction"] == 0.5


def test_clip_cov_records_the_clipped_shares_below_and_above():
    rows = batch()
    rows["response_mask"] = torch.tensor([[True, True, True], [True, True, False]])
    rows["log_probs"][0, 2] = -1.0
    rows["ratio"] = torch.tensor([[0.7, 0.9, 1.5], [1.6, 1.1, NAN]], dtype=torch.float64)
    rows["advantage"] = torch.tensor([[-1.0, -2.0, 2.0], [1.0, 1.0, NAN]], dtype=torch.float64)

    with recording() as ledger:
        ClipCov(clip_low=0.2, clip_high=0.3)(rows)

    # A falling token below 0.8 is one of five (0.9 is not), rising ones above 1.3 are two.
    assert ledger.means()["trust_region/clip_fraction_low"] == pytest.approx(1 / 5)
    assert ledger.means()["trust_region/clip_fraction_high"] == pytest.approx(2 / 5)


def test_bounds_with_nothing_between_them_are_refused():
    with pytest.raises(ConfigError, match=r"covariance_high is 1.0, not above covariance_low"):
        ClipCov(covariance_low=1.0, covariance_high=1.0)
