"""Monte-Carlo tree search over proof states."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlcomp.arguments import Checked, NonNegativeFloat, PositiveInt
from rlcomp.prover.graph import Edge, Node, ProofGraph, Trial


class MonteCarlo(metaclass=Checked):
    """MCTS with PUCT: ``argmax_a Q(s, a) + c P(s, a) sqrt(1 + N(s)) / (1 + N(s, a))``.

    ``P`` is the policy's probability of the tactic, normalised over the state's known ones. ``Q``
    is the mean value of the leaves below it: a critic's, or 0. A path never returns to one of its
    states. A state is sampled again when its visits reach the next power of ``widening``.

    Args:
        samples: tactics per expansion.
        exploration: ``c``, weight of the exploration.
        widening: growth of the visits between two expansions of a state, at least 2.

    Source:
        Silver et al. 2017, Nature 550 (PUCT); Lample et al. 2022 (HyperTree), arXiv:2205.11491.
    """

    def __init__(
        self,
        *,
        samples: PositiveInt = 8,
        exploration: NonNegativeFloat = 1.0,
        widening: PositiveInt = 4,
    ) -> None:
        self.samples = samples
        self.exploration = exploration
        self.widening = max(widening, 2)

    def select(self, graph: ProofGraph) -> Node:
        """Descend by the score to a state to expand."""
        node, path, passed = graph.root, list[Edge](), {graph.root}
        while node.expansions > 0 and node.visits < self.widening**node.expansions:
            open_ = [edge for edge in node.edges if edge.child not in passed]
            if not open_:
                break
            scores = self.scores(node, open_)
            edge = open_[scores.index(max(scores))]
            path.append(edge)
            node = edge.child
            passed.add(node)
        graph.path = path
        return node

    def scores(self, node: Node, edges: Sequence[Edge]) -> list[float]:
        """Return the PUCT score of each edge."""
        likely = [math.exp(edge.log_prob) for edge in edges]
        scale = self.exploration * math.sqrt(node.visits + 1) / max(sum(likely), 1e-300)
        return [
            edge.total / max(edge.visits, 1.0) + scale * p / (1 + edge.visits)
            for edge, p in zip(edges, likely, strict=True)
        ]

    def update(self, graph: ProofGraph, node: Node, trials: Sequence[Trial]) -> None:
        """Add the leaf's value to the edges of its path."""
        value = self.returned(node, trials)
        graph.root.visits += 1
        for edge in graph.path:
            edge.child.visits += 1
            self.add(edge, value)

    def returned(self, node: Node, trials: Sequence[Trial]) -> float:
        """Return the value of a simulation."""
        return 1.0 if node.solved else node.value

    def add(self, edge: Edge, value: float) -> None:
        """Add a simulation to an edge."""
        edge.visits += 1
        edge.total += value
