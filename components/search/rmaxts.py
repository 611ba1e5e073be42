"""RMaxTS: tree search with a reward for new states."""

from __future__ import annotations

import math
from collections.abc import Sequence

from components.search.mcts import MonteCarlo
from rlcomp.arguments import Fraction, PositiveInt
from rlcomp.prover.graph import Edge, Node, Trial


class RMaxTS(MonteCarlo):
    """MCTS with an intrinsic reward: 1 when an expansion finds a new state, else 0.

    Scores are discounted upper confidence bounds,
    ``W(s, a) / N(s, a) + sqrt(2 ln(sum_b N(s, b)) / N(s, a))``, where each later simulation of an
    edge multiplies its earlier ones by ``gamma``. A tactic that was never followed comes first. An
    expansion samples single tactics instead of the paper's whole proofs, and ``widening`` decides
    when a state is expanded again instead of a child of its own.

    Args:
        samples: tactics per expansion.
        gamma: discount of earlier simulations.
        widening: growth of the visits between two expansions of a state, at least 2.

    Source:
        Xin et al. 2024 (DeepSeek-Prover-V1.5), arXiv:2408.08152, section 3.
    """

    def __init__(
        self, *, samples: PositiveInt = 8, gamma: Fraction = 0.99, widening: PositiveInt = 4
    ) -> None:
        super().__init__(samples=samples, widening=widening)
        self.gamma = gamma

    def scores(self, node: Node, edges: Sequence[Edge]) -> list[float]:
        """Return the bound of each edge."""
        total = sum(edge.visits for edge in edges)
        return [
            edge.total / edge.visits + math.sqrt(2 * math.log(max(total, 1.0)) / edge.visits)
            if edge.visits
            else math.inf
            for edge in edges
        ]

    def returned(self, node: Node, trials: Sequence[Trial]) -> float:
        """Return 1 if the simulation found a new state, else 0."""
        return float(any(trial.is_new for trial in trials))

    def add(self, edge: Edge, value: float) -> None:
        """Add a simulation to an edge and discount the earlier ones."""
        edge.visits = self.gamma * edge.visits + 1
        edge.total = self.gamma * edge.total + value
