"""Ratios, trust regions and weights: what they record, by hand."""

import math

import pytest

from components.loss.ratio import SequenceRatio, SequenceTokenRatio, TokenRatio, WholeSequenceRatio
from components.loss.trust_region.bapo import BAPO
from components.loss.trust_region.clip import CISPO, GMPO, Clip, DualClip
from components.loss.trust_region.covariance import ClipCov, KLCov
from components.loss.trust_region.divergence import DPPO, M2PO, KLPenalty
from components.loss.trust_region.smooth import VESPO
from components.loss.weight.importance import (
    DivergenceFilter,
    GeometricFilter,
    MaskedWeight,
    OffPolicyMask,
    TruncatedWeight,
)
from components.loss.weight.rows import OverlongMask, TopEntropy

# pi / pi_old and the like of the batch's nine tokens: rows of 3, 1, 2 and 3.
RATIOS = (1.5, 0.5, 4.0, 0.6, 3.5, 0.9, 0.7, 0.6, 1.1)
LOGS = [math.log(r) for r in RATIOS]
ROWS = [LOGS[0:3], LOGS[3:4], LOGS[4:6], LOGS[6:9]]
K3 = sum(r - 1 - math.log(r) for r in RATIOS) / 9
ON_POLICY = {"old_log_probs": (-2.0,) * 9}
LIKELY = {"log_probs": (-1, -2, -3, -1, -2, -1, -1, -2, -2)}


def of_rows(*values):
    """The mean over tokens of one number a row."""
    return sum(n * value for n, value in zip((3, 1, 2, 3), values, strict=True)) / 9


# The file that records, a part, what the batch has of its own, and the numbers.
PINNED = [
    # A > 0 above 1.2: 1.5, 4; A < 0 below 0.8: 0.6, 0.7, 0.6; A < 0 above 3: 3.5.
    (
        "components/loss/trust_region/clip.py",
        Clip(),
        {},
        {"clip_fraction_high": 2 / 9, "clip_fraction_low": 3 / 9},
    ),
    (
        "components/loss/trust_region/clip.py",
        DualClip(clip_dual=3.0),
        {},
        {"clip_fraction_high": 2 / 9, "clip_fraction_low": 3 / 9, "clip_fraction_dual": 1 / 9},
    ),
    # Whatever the sign: 0.5, 0.6, 0.7, 0.6 below 0.8; 4, 3.5 above 3.
    (
        "components/loss/trust_region/clip.py",
        CISPO(clip_low=0.2, clip_high=2.0),
        {},
        {"clip_fraction_low": 4 / 9, "clip_fraction_high": 2 / 9},
    ),
    # Means of A -2.5 / 9, of log pi -15 / 9. Covariances above 0.1: 0.85 (clipped), 0.24.
    (
        "components/loss/trust_region/covariance.py",
        ClipCov(share=0.99, covariance_low=0.1, covariance_high=5.0),
        LIKELY,
        {"clip_fraction_high": 2 / 9, "clip_fraction_low": 3 / 9, "selected_fraction": 1 / 9},
    ),
    # The two largest: floor(0.25 x 9).
    (
        "components/loss/trust_region/covariance.py",
        KLCov(share=0.25),
        LIKELY,
        {"selected_fraction": 2 / 9},
    ),
    (
        "components/loss/trust_region/divergence.py",
        KLPenalty(kl_coef=0.5),
        {},
        {"kl": K3, "kl_coef": 0.5},
    ),
    # Unclipped r |A|: 0.5 against 3.5 + 0.9 + 0.35 + 0.55 = 5.3, a share of 0.086; with the ceiling
    # at 1.6 also 1.5. Above it 4; below the floor, A < 0: twice 0.6.
    (
        "components/loss/trust_region/bapo.py",
        BAPO(share=0.2, floor_start=0.65, ceiling_start=1.2, ceiling_step=0.4),
        {"rollout_log_probs": (0.0,) * 9},
        {
            "clip_fraction_high": 1 / 9,
            "clip_fraction_low": 2 / 9,
            "ratio_floor": 0.65,
            "ratio_ceiling": 1.6,
            "positive_share": 2.0 / 7.3,
            "search_steps": 1,
        },
    ),
    # log r: above 0.5, A > 0: that of 4; below -0.4, A < 0: those of twice 0.6.
    (
        "components/loss/trust_region/clip.py",
        GMPO(clip_low=0.4, clip_high=0.5),
        {},
        {"clip_fraction_high": 1 / 9, "clip_fraction_low": 2 / 9},
    ),
    # pi_old = e^-2 = 0.135, so D = 0.135 |r - 1|, above 0.04 for |r - 1| > 0.296: up with A > 0
    # 1.5, 4; down with A < 0 0.6, 0.7, 0.6. The |r - 1| sum to 7.8.
    (
        "components/loss/trust_region/divergence.py",
        DPPO(divergence="tv", delta=0.04),
        ON_POLICY,
        {
            "clip_fraction_high": 2 / 9,
            "clip_fraction_low": 3 / 9,
            "divergence": math.exp(-2) * 7.8 / 9,
        },
    ),
    # A > 0 above 1: 1.5, 4; A < 0 below 1: 0.6, 0.9, 0.7, 0.6, of (log r)^2 0.164, 1.92, 0.261,
    # 0.011, 0.127, 0.261. All six have mean 0.46; without 4, 0.165.
    (
        "components/loss/trust_region/divergence.py",
        M2PO(tau=0.2),
        {},
        {
            "selected_fraction": 1 / 9,
            "second_moment": sum(math.log(r) ** 2 for r in (1.5, 4, 0.6, 0.9, 0.7, 0.6)) / 6,
            "second_moment_kept": sum(math.log(r) ** 2 for r in (1.5, 0.6, 0.9, 0.7, 0.6)) / 5,
        },
    ),
    # r^2 e^(3 - 3r) in row 0, of A > 0; r^3 e^(2 - 2r) elsewhere.
    (
        "components/loss/trust_region/smooth.py",
        VESPO(),
        {},
        {
            "weight": sum(
                [r**2 * math.exp(3 - 3 * r) for r in RATIOS[:3]]
                + [r**3 * math.exp(2 - 2 * r) for r in RATIOS[3:]]
            )
            / 9
        },
    ),
    (
        "components/loss/ratio.py",
        TokenRatio(),
        ON_POLICY,
        {"mean": sum(RATIOS) / 9, "approx_kl": K3},
    ),
    *[
        (
            file,
            part,
            ON_POLICY,
            {"mean": of_rows(*[math.exp(sum(r) / len(r)) for r in ROWS]), "approx_kl": K3},
        )
        for file, part in (
            ("components/loss/ratio.py", SequenceRatio()),
            ("components/loss/ratio.py", SequenceTokenRatio()),
        )
    ],
    (
        "components/loss/ratio.py",
        WholeSequenceRatio(),
        ON_POLICY,
        {"mean": of_rows(3, 0.6, 3.15, 0.462), "approx_kl": K3},
    ),
    # 1.5, 0.5, 2, 0.6, 2, 0.9, 0.7, 0.6, 1.1.
    (
        "components/loss/weight/importance.py",
        TruncatedWeight(cap=2.0),
        {},
        {"mean": 9.9 / 9, "second_moment": 13.73 / 9},
    ),
    # 0.5, 4, 3.5 go.
    (
        "components/loss/weight/importance.py",
        MaskedWeight(low=0.55, high=2.0),
        {},
        {"mean": 5.4 / 9, "second_moment": 5.48 / 9, "dropped_masked": 3 / 9},
    ),
    # The largest of rows 0 and 2 are those of 4 and 3.5: 1.61, 1.25.
    (
        "components/loss/weight/importance.py",
        DivergenceFilter(estimator="k3", aggregate="max", high=0.2),
        {},
        {"divergence": K3, "dropped_divergence": 5 / 9},
    ),
    # Geometric means 1.44, 0.6, 1.77, 0.77.
    (
        "components/loss/weight/importance.py",
        GeometricFilter(low=0.7, high=1.5),
        {},
        {"dropped_geometric": 3 / 9},
    ),
    # Mean log pi_rollout / pi: -0.37, 0.51, -0.57, 0.26; row 0 has A > 0.
    (
        "components/loss/weight/importance.py",
        OffPolicyMask(delta=0.2),
        {},
        {"dropped_off_policy": 4 / 9},
    ),
    ("components/loss/weight/rows.py", OverlongMask(), {}, {"dropped_overlong": 8 / 9}),
    # Rank 0.7 x 8 = 5.6 of 1 ... 9: above 6.6 are 7, 8, 9.
    (
        "components/loss/weight/rows.py",
        TopEntropy(fraction=0.3),
        {},
        {"dropped_top_entropy": 6 / 9},
    ),
]


@pytest.mark.parametrize("case", PINNED, ids=[case[0] for case in PINNED])
def test_what_is_recorded_is_the_number_by_hand(recorded, case):
    file, part, entries, numbers = case

    assert recorded(file, part, entries) == pytest.approx(numbers)
