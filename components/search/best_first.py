"""Best-first search: the likeliest state next."""

from __future__ import annotations

from collections.abc import Sequence

from rlcomp.arguments import Checked, NonNegativeFloat, PositiveInt
from rlcomp.prover.graph import Node, ProofGraph, Trial


class BestFirst(metaclass=Checked):
    """Best-first search by ``sum_t log pi(a_t | s_t) / L^alpha`` over the ``L`` tactics to a state.

    Each state is expanded once; when all are, those that were asked least are sampled anew.

    Args:
        samples: tactics of an expansion.
        alpha: 0 prefers short ways (lean-dojo's prover), 1 has no preference.

    Source:
        Xin et al. 2025 (BFS-Prover), arXiv:2502.03438; Yang et al. 2023 (LeanDojo),
        arXiv:2306.15626, with ``alpha = 0``.
    """

    def __init__(self, *, samples: PositiveInt = 8, alpha: NonNegativeFloat = 0.5) -> None:
        self.samples = samples
        self.alpha = alpha

    def select(self, graph: ProofGraph) -> Node:
        """The best state of those that were expanded least."""
        return max(graph.nodes.values(), key=lambda node: (-node.expansions, self.score(node)))

    def score(self, node: Node) -> float:
        """How likely the way to a state is, in nats."""
        return node.log_prob / float(max(node.depth, 1) ** self.alpha)

    def update(self, graph: ProofGraph, node: Node, trials: Sequence[Trial]) -> None:
        """Nothing to learn: the graph holds all."""
