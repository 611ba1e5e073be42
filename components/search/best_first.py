"""Best-first search by likelihood."""

from __future__ import annotations

from collections.abc import Sequence

from rlcomp.arguments import Checked, NonNegativeFloat, PositiveInt
from rlcomp.prover.graph import Node, ProofGraph, Trial


class BestFirst(metaclass=Checked):
    """Best-first search by ``sum_t log pi(a_t | s_t) / L^alpha`` of the path to a state.

    ``L`` is the number of tactics on the path. Each state is expanded once. After that, the states
    with the fewest expansions are sampled again.

    Args:
        samples: tactics per expansion.
        alpha: 0 prefers short paths (lean-dojo's prover), 1 has no preference.

    Source:
        Xin et al. 2025 (BFS-Prover), arXiv:2502.03438; Yang et al. 2023 (LeanDojo),
        arXiv:2306.15626, with ``alpha = 0``.
    """

    def __init__(self, *, samples: PositiveInt = 8, alpha: NonNegativeFloat = 0.5) -> None:
        self.samples = samples
        self.alpha = alpha

    def select(self, graph: ProofGraph) -> Node:
        """Return the best of the states with the fewest expansions."""
        return max(graph.nodes.values(), key=lambda node: (-node.expansions, self.score(node)))

    def score(self, node: Node) -> float:
        """Return the score of the path to a state, in nats."""
        return node.log_prob / float(max(node.depth, 1) ** self.alpha)

    def update(self, graph: ProofGraph, node: Node, trials: Sequence[Trial]) -> None:
        """No-op: the graph holds all."""
