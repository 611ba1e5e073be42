"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.evaluator.accuracy import Accuracy as Accuracy
from components.evaluator.agent import AgentAccuracy as AgentAccuracy
from components.evaluator.agent import ProvenShare as ProvenShare
from components.evaluator.budget import BudgetForcing as BudgetForcing
from components.evaluator.coverage import Coverage as Coverage
from components.evaluator.episodes import ActionTokenSuccess as ActionTokenSuccess
from components.evaluator.episodes import GreedyReturn as GreedyReturn
from components.evaluator.episodes import GreedySuccess as GreedySuccess
from components.evaluator.episodes import HorizonCost as HorizonCost
from components.evaluator.episodes import ShiftedDynamics as ShiftedDynamics
from components.evaluator.flow import FlowEvaluator as FlowEvaluator
from components.evaluator.forgetting import Forgetting as Forgetting
from components.evaluator.hacking_monitor import HackingMonitor as HackingMonitor
from components.evaluator.likelihood import HeldOutPairs as HeldOutPairs
from components.evaluator.likelihood import NextTokenEvaluator as NextTokenEvaluator
from components.evaluator.likelihood import Perplexity as Perplexity
from components.evaluator.objectives import ObjectivesEvaluator as ObjectivesEvaluator
from components.evaluator.reward_model import LabelRanking as LabelRanking
from components.evaluator.reward_model import RatingAgreement as RatingAgreement
from components.evaluator.reward_model import RewardModelPairs as RewardModelPairs
from components.evaluator.reward_model import StepLabelAccuracy as StepLabelAccuracy
from components.evaluator.rollouts import RolloutLog as RolloutLog
from components.evaluator.self_play import SelfPlayWinRate as SelfPlayWinRate
from components.evaluator.self_play import VerdictQuality as VerdictQuality
from components.evaluator.value_quality import HasValues as HasValues
from components.evaluator.value_quality import ValueQuality as ValueQuality
