"""Losses and KL penalties: what they record, by hand."""

import math

import pytest

from components.kl import KLInReward, KLInTokenReward, KLObserver
from components.kl_controller import AdaptiveKL, FixedKL
from components.loss.entropy import AdaptiveEntropyLoss
from components.loss.imitation import PositiveNLL
from components.loss.kl import KLLoss, KLRatioLoss
from components.loss.reduction import TokenMean
from components.loss.value import ValueLoss

# pi / pi_old and the like of the batch's nine tokens: rows of 3, 1, 2 and 3.
RATIOS = (1.5, 0.5, 4.0, 0.6, 3.5, 0.9, 0.7, 0.6, 1.1)
LOGS = [math.log(r) for r in RATIOS]
LIKELY = {"log_probs": (-1, -2, -3, -1, -2, -1, -1, -2, -2)}
CONTROLLER = FixedKL(kl_coef=0.3)
LOSS = {"controller": CONTROLLER, "reduction": TokenMean()}
# The file that records, a part, what the batch has of its own, and the numbers.
PINNED = [
    (
        "components/loss/kl.py",
        KLLoss(estimator="k1", **LOSS),
        {},
        {"in_loss": sum(LOGS) / 9},
    ),
    (
        "components/loss/kl.py",
        KLRatioLoss(estimator="k1_ratio", **LOSS),
        {},
        {"in_loss": sum(r * math.log(r) for r in RATIOS) / 9},
    ),
    # Of rows 1 to 3: 1 + 2 + 1 + 1 + 2 + 2.
    (
        "components/loss/imitation.py",
        PositiveNLL(nll_coef=0.1, reduction=TokenMean()),
        LIKELY,
        {"nll": 9 / 6},
    ),
    # From 0.5 to 0.9, cut at 0.7, below a return of 1: six tokens. From 0.1 to 0.9, cut at 0.3: of
    # 0.2 the cut one is nearer. Half the return was explained: a quarter of its variance is left.
    (
        "components/loss/value.py",
        ValueLoss(clip=0.2, value_coef=1.0, reduction=TokenMean()),
        {
            "value": (0.9,) * 9,
            "old_value": (0.5, 0.5, 0.1, 0.1, 0.5, 0.5, 0.1, 0.5, 0.5),
            "returns": (1, 1, 0.2, 0.2, 1, 1, 0.2, 1, 1),
        },
        {"clip_fraction": 6 / 9, "explained_variance": 3 / 4},
    ),
    (
        "components/loss/entropy.py",
        AdaptiveEntropyLoss(
            entropy_coef=0.05, target=9.0, step=0.01, maximum=1.0, reduction=TokenMean()
        ),
        {},
        {"coef": 0.05},
    ),
    (
        "components/kl.py",
        KLInReward(controller=CONTROLLER, estimator="k1"),
        {},
        {"in_reward": sum(LOGS) / 9, "coef": 0.3},
    ),
    (
        "components/kl.py",
        KLInTokenReward(controller=CONTROLLER, estimator="k1"),
        {},
        {"in_token_reward": sum(LOGS) / 9, "coef": 0.3},
    ),
    (
        "components/kl.py",
        KLObserver(controller=CONTROLLER, estimator="k1"),
        {},
        {"coef": 0.3},
    ),
    (
        "rlcomp/interfaces/kl_controller.py",
        KLInReward(controller=CONTROLLER, estimator="k1"),
        {},
        {"coef": 0.3},
    ),
]


@pytest.mark.parametrize("case", PINNED, ids=[case[0] for case in PINNED])
def test_what_is_recorded_is_the_number_by_hand(recorded, case):
    file, part, entries, numbers = case

    assert recorded(file, part, entries) == pytest.approx(numbers)


# Row 1 empty: three responses, of log ratios log 3, log 3.15 and log 0.462.
EMPTY = {"response_mask": (True,) * 3 + (False,) + (True,) * 5}
OF_ROWS = [math.log(3), math.log(3.15), math.log(0.462)]


@pytest.mark.parametrize(
    ("unit", "kl"),
    [
        ("sequence", sum(OF_ROWS) / 3),
        ("token", (OF_ROWS[0] / 3 + OF_ROWS[1] / 2 + OF_ROWS[2] / 3) / 3),
    ],
)
@pytest.mark.parametrize("kind", [KLInReward, KLInTokenReward, KLObserver])
def test_an_adaptive_controller_is_told_the_kl_and_the_number_of_responses(ragged, kind, unit, kl):
    target = kl / 1.1
    controller = AdaptiveKL(kl_coef=0.3, target=target, unit=unit, horizon=30.0)
    part = kind(controller=controller, estimator="k1")

    part(ragged(EMPTY))
    if kind is KLObserver:  # which tells it before the next batch
        part(ragged(EMPTY))

    # Ten percent above, three of thirty responses.
    assert controller.coef() == pytest.approx(0.3 * (1 + 0.1 * 3 / 30), rel=1e-9)
