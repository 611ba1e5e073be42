"""Rewards, shaping, advantages and filters: what they record, by hand."""

import math

import pytest
import torch

from components.advantage.gae import GAE, VAPO, VTrace
from components.advantage.group import GroupMean, LengthWeightedBaseline, MaxRL
from components.advantage.monte_carlo import GreedyBaseline, OptimalTokenBaseline
from components.advantage.pass_at_k import PassAtK, PassAtKTraining
from components.advantage.per_objective import PerObjectiveAdvantage
from components.advantage.process import ProcessSupervision
from components.advantage.reweighted import DifficultyWeightedAdvantage, Noon
from components.filter import OverlongFilter, VariedGroupFilter, ZeroVarianceMask
from components.pareto.scalarisation import LinearScalarisation
from components.shaping.length import SoftOverlong
from components.shaping.length_penalty import LengthPenalty
from rlcomp.interfaces.reward import write_reward

ONE_INVALID = {"reward_valid": [True, False, True, True]}
ROW_1_EMPTY = {"response_mask": (True,) * 3 + (False,) + (True,) * 5}


def of_rows(*values):
    """The mean over tokens of one number a row."""
    return sum(n * value for n, value in zip((3, 1, 2, 3), values, strict=True)) / 9


class Judged(torch.nn.Module):
    """A reward that gives what stands there."""

    def forward(self, rows):
        return write_reward(rows, rows["reward"], {}, rows["correct"], rows["reward_valid"])


# The file that records, a part, what the batch has of its own, and the numbers.
PINNED = [  # Lengths 3, (1), 2, 3 cost 0.5, 0.25 and 0.5 of the rewards 1, 0 and 0.5.
    (
        "rlcomp/interfaces/stages.py",
        SoftOverlong(max_length=3, buffer=2, factor=0.5),
        {**ONE_INVALID, "rewards": {}},
        {"soft_overlong": -1.25 / 3, "shaped": 0.25 / 3},
    ),
    (
        "rlcomp/interfaces/reward.py",
        Judged(),
        ONE_INVALID,
        {"mean": 1.5 / 3, "correct": 2 / 3, "invalid_fraction": 1 / 4},
    ),
    # A group of one; 1, 0, 0.5 less 0.5. Two rows of four are 0, but six tokens of nine. With row 1
    # empty, two of three.
    (
        "rlcomp/interfaces/advantage.py",
        GroupMean(),
        {},
        {"abs": of_rows(0, 0.5, 0.5, 0), "zero_fraction": 2 / 4},
    ),
    (
        "rlcomp/interfaces/advantage.py",
        GroupMean(),
        ROW_1_EMPTY,
        {"abs": 2 * 0.5 / 8, "zero_fraction": 2 / 3},
    ),
    # Of the last three, of 1, 2 and 3 tokens, 2.5 / 6 instead of 1.5 / 3.
    (
        "components/advantage/group.py",
        LengthWeightedBaseline(),
        {},
        {"baseline_shift": 3 / 4 * (3 / 6 - 2.5 / 6)},
    ),
    # Leads 0, 0.5, -0.5 and 0.
    (
        "components/advantage/reweighted.py",
        Noon(advantage=GroupMean()),
        {},
        {"dropped_negative": 2 / 9},
    ),
    # Of the valid right ones, 2 and 3 tokens long, z is -1 and 1.
    (
        "components/shaping/length_penalty.py",
        LengthPenalty(weight=0.5, min_accuracy=0.0),
        {**ONE_INVALID, "rewards": {}},
        {"length_penalty_std": 0.5 * (1 / (1 + math.exp(-1)) - 1 / 2)},
    ),
    # The return less 0.5, without row 1.
    (
        "components/advantage/gae.py",
        GAE(gamma=1.0, gae_lambda=1.0, whiten=False),
        ONE_INVALID,
        {"abs": (3 * 0.5 + 2 * 0.5) / 8},
    ),
    # lambda = 1 - 2 / n, at least 0; the error of 0.5 stands on the last token.
    (
        "components/advantage/gae.py",
        VAPO(alpha=0.5, gamma=1.0, whiten=False),
        ONE_INVALID,
        {"gae_lambda": 2 / 3 / 4, "abs": (0.5 * (1 + 1 / 3 + 1 / 9) + 0.5) / 8},
    ),
    (
        "components/advantage/gae.py",
        VTrace(gamma=1.0, rho_max=2.0, c_max=1.0),
        ONE_INVALID,
        {"rho_capped": 2 / 8},
    ),
    # Baselines 0.25 and 0.95, of a group of three and of one; leads 0.75 and 0.
    (
        "components/advantage/monte_carlo.py",
        GreedyBaseline(),
        {
            "reward": [1, 0.25, 0.25, 0.95],
            "greedy": [False, True, False, True],
            "group_id": [6, 6, 6, 2],
        },
        {"baseline": 0.6, "abs": 0.375, "zero_fraction": 0.5},
    ),
    # Of the valid rows 0, 2, 3: accuracies 0, 1, 1.
    (
        "components/advantage/reweighted.py",
        DifficultyWeightedAdvantage(advantage=GroupMean()),
        ONE_INVALID,
        {"group_accuracy": 2 / 3},
    ),
    # A group of one; 3, 2.4, 0.6 over their mean of 2, less 1: 0.5, 0.2, -0.7.
    ("components/advantage/group.py", MaxRL(), {"reward": [1, 3, 2.4, 0.6]}, {"positive": 0.7 / 2}),
    # Mean 1.2, below half of 3: 1.5, -0.5, -1.
    (
        "components/advantage/group.py",
        MaxRL(),
        {"reward": [1, 3, 0.6, 0]},
        {"positive": 1.5, "rare": 1.5},
    ),
    # Best of all: 0.2 of one response, 1 of three. Best of two: 1, 1, 0.5, none of the one.
    (
        "components/advantage/pass_at_k.py",
        PassAtK(k=None),
        {"reward": [0.2, 1, 0, 0.5]},
        {"best_of_k": 3.2 / 4},
    ),
    ("components/advantage/pass_at_k.py", PassAtK(k=2), {}, {"best_of_k": 2.5 / 3}),
    # Of 1, 0, 1 a right one adds 1 to one pair of three; to the three nothing.
    (
        "components/advantage/pass_at_k.py",
        PassAtK(k=2, epsilon=None),
        {"reward": [0.2, 1, 0, 1]},
        {"best_of_k": 1, "tied_best": 1 / 3},
    ),
    (
        "components/advantage/pass_at_k.py",
        PassAtK(k=None),
        {"reward": [0.2, 1, 0, 1]},
        {"best_of_k": 3.2 / 4, "tied_best": 0},
    ),
    # pi = 1/2, so that W sums the squared probabilities: at token 1 of rows 1 to 3 0.5, 0.25, 0.25
    # and a baseline of 0.625; at token 2 of rows 2 and 3 0.5, 1 and 1/3. Token 3 is one row's
    # alone; row 0, a group of one, has no reward.
    (
        "components/advantage/monte_carlo.py",
        OptimalTokenBaseline(),
        {
            "old_log_probs": (math.log(0.5),) * 9,
            "squared_probs": (1, 1, 1, 0.5, 0.25, 0.25, 0.25, 0.75, 1),
            "reward_valid": [False, True, True, True],
        },
        {
            "abs": (0.375 + 0.625 + 0.125 + 1 / 3 + 1 / 6) / 6,
            "zero_fraction": 1 / 6,
        },
    ),
    # Row 1 is empty. a: 4, 0, 0 less 4/3, over the std 2 of 0, 4, 0, 0; b, which row 0 has not: 3,
    # 0, 6 less 3, over the std 3. a + b / 2: -2/3 - 1/2, -2/3 + 1/2.
    (
        "components/advantage/per_objective.py",
        PerObjectiveAdvantage(
            advantage=GroupMean(),
            aggregator=LinearScalarisation(weights={"a": 1.0, "b": 0.5}),
            scale="running",
        ),
        {
            **ROW_1_EMPTY,
            "rewards": {"a": [0, 4, 0, 0], "b": [math.nan, 3, 0, 6]},
        },
        {
            "abs": (2 * 7 / 6 + 3 * 1 / 6) / 8,
            "zero_fraction": 1 / 3,
            "scale/a": 2.0,
            "scale/b": 3.0,
        },
    ),
    # Steps of 4, 0, 0, 0: mean 1, std 2. Row 1: 1.5; row 2: -0.5 for both tokens before its end;
    # row 3: -0.5 for the last two, twice that for the first. Row 0 is a group of one.
    (
        "components/advantage/process.py",
        ProcessSupervision(epsilon=1e-9),
        {
            "token_reward": (5, 5, 5, 4, 7, 0, 0, 7, 0),
            "step_end": (False, False, True, True, False, True, True, False, True),
        },
        {"abs": (1.5 + 2 * 0.5 + 1 + 2 * 0.5) / 9, "zero_fraction": 3 / 9},
    ),
    (
        "components/advantage/pass_at_k.py",
        PassAtKTraining(k=2),
        {},
        {"best_of_k": 2.5 / 3, "certain": 0},
    ),
    # Each pair of 1, 0, 1 holds a 1; row 0 is a group of one.
    (
        "components/advantage/pass_at_k.py",
        PassAtKTraining(k=2),
        {"reward": [0.2, 1, 0, 1]},
        {"best_of_k": 1, "certain": 1},
    ),
    ("components/filter.py", OverlongFilter(), {}, {"overlong_fraction": 3 / 4}),
    (
        "components/filter.py",
        ZeroVarianceMask(),
        {},
        {
            "zero_variance_fraction": 1 / 4,
        },
    ),
    (
        "components/filter.py",
        VariedGroupFilter(),
        {},
        {
            "zero_variance_fraction": 1 / 4,
            "all_right": 3 / 4,
            "all_wrong": 1 / 4,
        },
    ),
]


@pytest.mark.parametrize("case", PINNED, ids=[case[0] for case in PINNED])
def test_what_is_recorded_is_the_number_by_hand(recorded, case):
    file, part, entries, numbers = case

    assert recorded(file, part, entries) == pytest.approx(numbers)
