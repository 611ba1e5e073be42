"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.pareto.gradients import LagrangianAggregator as LagrangianAggregator
from components.pareto.gradients import MGDA as MGDA
from components.pareto.gradients import NashMTL as NashMTL
from components.pareto.gradients import PAMA as PAMA
from components.pareto.gradients import TorchJDAggregator as TorchJDAggregator
from components.pareto.scalarisation import Chebyshev as Chebyshev
from components.pareto.scalarisation import ExpectedUtility as ExpectedUtility
from components.pareto.scalarisation import LinearScalarisation as LinearScalarisation
from components.pareto.scalarisation import PreferenceWeights as PreferenceWeights
from components.pareto.scalarisation import RandomWeights as RandomWeights
from components.pareto.scalarisation import ScaledObjectives as ScaledObjectives
from components.pareto.scalarisation import SmoothChebyshev as SmoothChebyshev
