"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.evaluator.accuracy import Accuracy as Accuracy
from components.evaluator.agent import AgentAccuracy as AgentAccuracy
from components.evaluator.budget import Budget as Budget
from components.evaluator.coverage import Coverage as Coverage
from components.evaluator.episodes import ActionTokenSuccess as ActionTokenSuccess
from components.evaluator.episodes import Episodes as Episodes
from components.evaluator.episodes import Horizon as Horizon
from components.evaluator.episodes import Shifted as Shifted
from components.evaluator.episodes import Success as Success
from components.evaluator.flow import FlowEvaluator as FlowEvaluator
from components.evaluator.forgetting import Forgetting as Forgetting
from components.evaluator.hacking_monitor import HackingMonitor as HackingMonitor
from components.evaluator.next_token import NextTokenEvaluator as NextTokenEvaluator
from components.evaluator.objectives import ObjectivesEvaluator as ObjectivesEvaluator
from components.evaluator.past_selves import PastSelves as PastSelves
from components.evaluator.perplexity import Perplexity as Perplexity
from components.evaluator.preferences import HeldOutPairs as HeldOutPairs
from components.evaluator.proofs import ProvenShare as ProvenShare
from components.evaluator.reward_model import LabelledSteps as LabelledSteps
from components.evaluator.reward_model import Labels as Labels
from components.evaluator.reward_model import RatedAnswers as RatedAnswers
from components.evaluator.reward_model import RewardModelPairs as RewardModelPairs
from components.evaluator.rollouts import RolloutLog as RolloutLog
from components.evaluator.value_quality import HasValues as HasValues
from components.evaluator.value_quality import ValueQuality as ValueQuality
from components.evaluator.verifier_quality import VerifierQuality as VerifierQuality
