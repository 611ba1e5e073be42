"""What parts of control and language runs do where nothing is said.

That their options say the same is in tests/test_defaults.py.
"""

import inspect

import pytest

from components.advantage.reweighted import DistillationAdvantage
from components.collector.flow_samples import FlowSamples
from components.collector.steps import (
    ActionEpisodes,
    GoalStepCollector,
    GymnasiumCollector,
    StepCollector,
)
from components.early_stop import KLBudget
from components.environment.control import CartPole, Pendulum
from components.evaluator.episodes import (
    ActionTokenSuccess,
    GreedyReturn,
    GreedySuccess,
    ShiftedDynamics,
)
from components.evaluator.flow import FlowEvaluator
from components.exploration import EpsilonGreedy, ExpertMixture, GaussianExploration
from components.filter import SeatFilter
from components.intervention import QueueIntervention, ScriptedIntervention
from components.kl_controller import AdaptiveKL, DoublingKL, FixedKL, ScheduledKL
from components.learner.natural_gradient import NaturalGradientLearner
from components.loss.contrastive import ContrastiveLoss
from components.loss.entropy import AdaptiveEntropyLoss, EntropyLoss
from components.loss.imitation import PositiveNLL
from components.loss.kl import DistilLoss
from components.loss.transitions import ConservativeLoss, TransitionLoss
from components.loss.value import ValueLoss
from components.pareto.gradients import LagrangianAggregator, NashMTL
from components.pareto.scalarisation import Chebyshev, ExpectedUtility, SmoothChebyshev
from components.randomise import UniformDynamics
from components.reference.frozen import RefreshedReference
from components.replay.goals import SampleFuture, SampleHindsight
from components.replay.memory_mapped import MemoryMappedReplay
from components.replay.prioritized import PrioritizedReplay
from components.replay.stages import Sample, SampleHalfHalf, SampleLabelled
from components.replay.uniform import UniformReplay
from components.sampler.curriculum import Curriculum
from components.sampler.demonstrations import Demonstrations
from components.sampler.difficulty_pools import DifficultyPools
from components.sampler.labels import (
    LabelledAnswers,
    LabelledTextsSampler,
    RatedAnswers,
    StepLabels,
)
from components.sampler.pairs import Pairs
from components.sampler.pools import TaskPools
from components.sampler.prompts import Points
from components.sampler.task_curriculum import Families, Frontier
from components.shaping.length_penalty import LengthPenalty
from components.store import AnswerReplay, PairReplay
from components.target import TargetUpdate
from components.task.composite import HintedTask
from components.worlds.point_maze.experts import ClumsyReacher
from components.worlds.point_maze.reach import Reach
from components.worlds.point_maze.u_maze import UMaze
from components.worlds.ring.gaussians import ModeDistance, RingOfGaussians
from components.worlds.track.environment import Track

DEFAULTS = {
    DistillationAdvantage: {"clip": 10.0, "coef": 1.0},
    ActionEpisodes: {"goal_reward": 0.0},
    FlowSamples: {"num_groups": 1},
    GoalStepCollector: {"num_steps": 50},
    GymnasiumCollector: {"num_steps": 128},
    StepCollector: {"num_steps": 4},
    RingOfGaussians: {"num_modes": 8, "radius": 2.0, "std": 0.15},
    KLBudget: {"budget": 5.0, "window": 5},
    CartPole: {"num_envs": 16, "max_steps": 500},
    Pendulum: {"num_envs": 4, "max_steps": 200},
    Reach: {"num_envs": 16, "max_steps": 50, "stride": 0.05, "radius": 0.05},
    Track: {"num_envs": 2, "max_steps": 40, "noise": 0.2},
    UMaze: {
        "num_envs": 4,
        "max_steps": 50,
        "stride": 0.15,
        "radius": 0.15,
        "wall": 0.5,
        "ends": True,
    },
    ActionTokenSuccess: {"goal_reward": 0.0},
    GreedyReturn: {"max_steps": 500},
    FlowEvaluator: {"num_samples": 2000, "num_steps": 50},
    ShiftedDynamics: {"max_steps": 500},
    GreedySuccess: {"max_steps": 50, "reward": 0.0},
    ClumsyReacher: {"gain": 0.2, "noise": 0.9},
    EpsilonGreedy: {"start": 1.0, "end": 0.05, "fraction": 0.3},
    ExpertMixture: {"decay": 0.0},
    GaussianExploration: {"scale": 0.1},
    SeatFilter: {"seat": 0},
    QueueIntervention: {"copy": 0, "lasts": 1, "seconds": 0.1},
    ScriptedIntervention: {"patience": 8, "duration": 10, "until": 1.0},
    AdaptiveKL: {"kl_coef": 0.2, "target": 6.0, "horizon": 10000},
    DoublingKL: {"kl_coef": 1.0, "target": 0.01},
    FixedKL: {"kl_coef": 0.001},
    ScheduledKL: {"kl_coef": 0.001, "start": 1.0, "end": 0.0, "over": 1.0},
    NaturalGradientLearner: {
        "max_kl": 0.01,
        "damping": 0.1,
        "iterations": 10,
        "shrink": 0.8,
        "max_shrinks": 10,
    },
    ConservativeLoss: {"gamma": 0.99, "conservative_weight": 1.0, "num_actions": 10},
    ContrastiveLoss: {"penalty": 0.1, "entropy_per_action": 0.5, "alpha_init": 1.0},
    DistilLoss: {"beta": 0.5, "coef": 1.0},
    EntropyLoss: {"entropy_coef": 0.01},
    AdaptiveEntropyLoss: {"entropy_coef": 0.0, "target": 0.2, "step": 0.005, "maximum": 1.0},
    PositiveNLL: {"nll_coef": 0.1},
    TransitionLoss: {"gamma": 0.99},
    ValueLoss: {"clip": 0.5, "value_coef": 1.0},
    Chebyshev: {"rho": 0.0, "delta": 0.1, "decay": 0.9},
    LagrangianAggregator: {"step": 0.1},
    ExpectedUtility: {"decay": 0.9},
    NashMTL: {"num_iterations": 20},
    SmoothChebyshev: {"mu": 0.1, "delta": 0.1, "decay": 0.9},
    UniformDynamics: {"width": 0.5},
    RefreshedReference: {"period": 512, "mix": 0.6, "full": False},
    MemoryMappedReplay: {"capacity": 1000000},
    PrioritizedReplay: {"capacity": 1000000, "alpha": 0.6, "beta": 0.4, "epsilon": 1e-06},
    Sample: {"batch_size": 256},
    SampleFuture: {"batch_size": 256, "gamma": 0.99},
    SampleHalfHalf: {"batch_size": 256},
    SampleHindsight: {"batch_size": 256, "fraction": 0.8, "terminate_on_goal": False},
    SampleLabelled: {"batch_size": 64},
    UniformReplay: {"capacity": 1000000},
    ModeDistance: {"mode": 0},
    Curriculum: {"batch_size": 64, "low": 0.2, "high": 0.8, "exploration": 0.3},
    Demonstrations: {"batch_size": 128},
    DifficultyPools: {
        "batch_size": 64,
        "solved": 1.0,
        "hopeless": 0.0,
        "patience": 2,
        "release_after": 20,
    },
    Families: {"raise_at": 0.7, "lower_at": 0.2, "batch_size": 64},
    Frontier: {"threshold": 0.7, "batch_size": 64},
    LabelledAnswers: {"batch_size": 128},
    LabelledTextsSampler: {"batch_size": 32},
    Pairs: {"batch_size": 128},
    Points: {"batch_size": 256},
    TaskPools: {"batch_size": 64},
    RatedAnswers: {"batch_size": 128},
    StepLabels: {"batch_size": 128},
    LengthPenalty: {"weight": 0.2, "min_accuracy": 0.0},
    AnswerReplay: {"batch_size": 128},
    PairReplay: {"batch_size": 64},
    TargetUpdate: {"every": 1},
    HintedTask: {"share": 0.8},
}


@pytest.mark.parametrize("part", DEFAULTS)
def test_numbers_that_nobody_gives(part):
    given = inspect.signature(part.__init__).parameters.values()

    found = {one.name: one.default for one in given if isinstance(one.default, (int, float))}
    assert found == DEFAULTS[part]
    assert [*map(type, found.values())] == [*map(type, DEFAULTS[part].values())]
