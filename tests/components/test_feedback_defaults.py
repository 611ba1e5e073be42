"""What parts of preferences, reward models, judges and pipelines do where nothing is said.

That their options say the same is in tests/test_defaults.py.
"""

import inspect

import pytest

from components.advantage.process import PRIME, ProcessSupervision
from components.evaluator.likelihood import HeldOutPairs
from components.evaluator.reward_model import (
    LabelRanking,
    RatingAgreement,
    RewardModelPairs,
    StepLabelAccuracy,
)
from components.evaluator.value_quality import ValueQuality
from components.judge import EndpointJudge, GenerativeJudge, WordPrefixJudge
from components.loss.comparison import BradleyTerry, Davidson
from components.loss.labels import ImplicitOutcomeLoss
from components.loss.preference import KTOLoss, PreferenceLoss
from components.loss.regression import OrdinalRegression
from components.pairing import BestWorstPairs, JudgedPairs
from components.pairwise_judge.bradley_terry import LearnedJudge, SimulatedJudge
from components.pairwise_judge.option import EndpointPairJudge, OptionLogProbJudge
from components.pairwise_judge.rationale import ReasoningJudge
from components.pairwise_judge.verdicts import JudgeEnsemble
from components.reward.judge import JudgeScore, Rubric
from components.reward.reward_model import LearnedReward, ScorerReward
from components.reward.ruler import Ruler
from components.reward.tournament import Tournament
from components.shaping.process import (
    ImplicitProcessReward,
    PotentialShaping,
    StepRewards,
    TurnPotentialShaping,
)
from components.shaping.transform import RaterNoise, RunningNormalisation
from components.store import CollectedAnswers, CollectedPairs
from components.task.composite import AnswerVerdicts
from components.task.labels import LabelledTexts
from components.task.steps import StepLabelTask
from components.value import LanguageTargets
from components.worlds.sorting.judgements import Revisions, Verdicts
from components.worlds.sorting.labels import SortingGraded, SortingPairs
from components.worlds.sorting.variants import TwoOrders, TwoScripts, UnsaidOrder
from components.writer import EndpointWriter, LanguageModelWriter

DEFAULTS = {
    PRIME: {"process_coef": 1.0, "gamma": 1.0},
    ProcessSupervision: {"epsilon": 1e-06},
    LabelRanking: {"num_texts": 512},
    HeldOutPairs: {"num_pairs": 256},
    RatingAgreement: {"num_answers": 512},
    RewardModelPairs: {"num_pairs": 512, "bins": 10},
    StepLabelAccuracy: {"num_answers": 512, "bins": 10},
    ValueQuality: {"num_prompts": 128, "continuations": 64},
    EndpointJudge: {"least_mass": 0.05, "alternatives": 20},
    GenerativeJudge: {"least_mass": 0.05},
    WordPrefixJudge: {"least": 3},
    BradleyTerry: {"margin": 0.0, "label_noise": 0.0, "centring_coef": 0.01},
    Davidson: {"nu": 1.0, "learnt": True, "rate": 100.0, "label_noise": 0.0, "centring_coef": 0.01},
    ImplicitOutcomeLoss: {"beta": 0.05},
    KTOLoss: {"beta": 0.1, "desirable_weight": 1.0, "undesirable_weight": 1.0},
    OrdinalRegression: {"rate": 100.0},
    PreferenceLoss: {"label_noise": 0.0, "unbiased": False, "pair_coef": 1.0, "nll_coef": 0.0},
    BestWorstPairs: {"gap": 0.0},
    JudgedPairs: {"soft": True, "votes": 0},
    EndpointPairJudge: {"least_mass": 0.05, "alternatives": 20},
    JudgeEnsemble: {"least": 1},
    LearnedJudge: {"scale": 1.0, "batch_size": 32},
    OptionLogProbJudge: {"least_mass": 0.05, "batch_size": 64},
    ReasoningJudge: {"rationales": 1, "least": 1, "clip": 0.0},
    SimulatedJudge: {"temperature": 0.2, "position_bias": 0.0, "length_bias": 0.0},
    JudgeScore: {"correct_from": 0.5},
    LearnedReward: {"batch_size": 32},
    Rubric: {"correct_from": 1.0},
    Ruler: {"tries": 3, "correct_from": 0.5},
    ScorerReward: {"penalty": 0.5, "normalised": False},
    Tournament: {"correct_from": 0.5},
    ImplicitProcessReward: {"beta": 0.05},
    RunningNormalisation: {"clip": 5.0},
    PotentialShaping: {"coef": 1.0, "gamma": 1.0},
    RaterNoise: {"temperature": 0.2},
    StepRewards: {"coef": 1.0},
    TurnPotentialShaping: {"coef": 1.0, "gamma": 1.0},
    CollectedAnswers: {"distinct": True, "emptied": True},
    CollectedPairs: {"distinct": True, "emptied": True},
    AnswerVerdicts: {"mislabelled": 0.0},
    LabelledTexts: {"held_out": 0.2},
    Revisions: {"length": 6, "size": 5000, "flawed": 0.0, "held_out": 0.1},
    SortingGraded: {"length": 6, "most": 4, "held_out": 0.1, "mislabelled": 0.0},
    SortingPairs: {
        **{"length": 6, "position": 5, "held_out": 0.1, "ties": 0.0},
        **{"uneven": 0.0, "mislabelled": 0.0},
    },
    StepLabelTask: {"held_out": 0.1},
    TwoOrders: {"length": 6, "held_out": 0.1},
    TwoScripts: {"length": 6, "strayed": 0.0, "flawed": 0.0, "size": 1_000_000, "held_out": 0.1},
    UnsaidOrder: {"length": 3, "heeded": 0.3, "held_out": 0.1},
    Verdicts: {"length": 6, "size": 5000, "flawed": 0.0, "held_out": 0.1},
    LanguageTargets: {"continuations": 4},
    EndpointWriter: {"max_new_tokens": 512},
    LanguageModelWriter: {"max_new_tokens": 512},
}


@pytest.mark.parametrize("part", DEFAULTS)
def test_numbers_that_nobody_gives(part):
    given = inspect.signature(part.__init__).parameters.values()

    found = {one.name: one.default for one in given if isinstance(one.default, (int, float))}
    assert found == DEFAULTS[part]
    assert [*map(type, found.values())] == [*map(type, DEFAULTS[part].values())]
