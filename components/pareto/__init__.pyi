"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.pareto.gradients import Constrained as Constrained
from components.pareto.gradients import Mgda as Mgda
from components.pareto.gradients import NashMtl as NashMtl
from components.pareto.gradients import Pama as Pama
from components.pareto.gradients import Torchjd as Torchjd
from components.pareto.scalarisation import Chebyshev as Chebyshev
from components.pareto.scalarisation import Expected as Expected
from components.pareto.scalarisation import Linear as Linear
from components.pareto.scalarisation import Preferred as Preferred
from components.pareto.scalarisation import Random as Random
from components.pareto.scalarisation import Scaled as Scaled
from components.pareto.scalarisation import SmoothChebyshev as SmoothChebyshev
