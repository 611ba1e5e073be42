"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.learner.anomaly import MedianSpike as MedianSpike
from components.learner.anomaly import SkipNonFinite as SkipNonFinite
from components.learner.gradient import Learner as Learner
from components.learner.gradient_passes import GradientPasses as GradientPasses
from components.learner.gradient_rows import OnPolicyTest as OnPolicyTest
from components.learner.loss_value import LossValues as LossValues
from components.learner.natural_gradient import NaturalGradientLearner as NaturalGradientLearner
from components.learner.optimizer_step import OptimizerStep as OptimizerStep
from components.learner.per_objective import PerObjectiveLearner as PerObjectiveLearner
