"""Search algorithms of provers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlcomp.arguments import Checked, Fraction, NonNegativeFloat, PositiveInt
from rlcomp.prover.graph import Edge, ProofGraph, ProofNode, Trial


class RepeatedSampling(metaclass=Checked):
    """Best-of-n (control): attempts of one tactic per state, until a proof or a failure.

    It is no search: an attempt does not use the results of earlier ones. A tactic that was tried in
    the same state before costs no further call, which favours this control.

    Args:
        max_depth: maximum number of tactics of an attempt.
    """

    samples = 1

    def __init__(self, *, max_depth: PositiveInt = 16) -> None:
        self.max_depth = max_depth

    def select(self, graph: ProofGraph) -> ProofNode:
        """Return the current state of the attempt."""
        return graph.path[-1].child if graph.path else graph.root

    def update(self, graph: ProofGraph, node: ProofNode, trials: Sequence[Trial]) -> None:
        """Continue the attempt or start the next one."""
        edge = trials[0].edge if trials else None
        is_last = edge is None or len(graph.path) + 1 >= self.max_depth
        graph.path = [] if is_last or edge is None else [*graph.path, edge]


class BestFirstSearch(metaclass=Checked):
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

    def select(self, graph: ProofGraph) -> ProofNode:
        """Return the best of the states with the fewest expansions."""
        return max(graph.nodes.values(), key=lambda node: (-node.expansions, self.score(node)))

    def score(self, node: ProofNode) -> float:
        """Return the score of the path to a state, in nats."""
        return node.log_prob / float(max(node.depth, 1) ** self.alpha)

    def update(self, graph: ProofGraph, node: ProofNode, trials: Sequence[Trial]) -> None:
        """Do nothing: the graph holds everything that :meth:`select` reads."""


class MonteCarloTreeSearch(metaclass=Checked):
    """MCTS with PUCT: ``argmax_a Q(s, a) + c P(s, a) sqrt(1 + N(s)) / (1 + N(s, a))``.

    ``P`` is the policy's probability of the tactic, normalised over the state's known tactics.
    ``Q`` is the mean value of the leaves below the tactic: 1 for a solved state, otherwise the
    critic's value, or 0 without a critic. A path never returns to one of its states. A state is
    sampled again when its visits reach the next power of ``widening``.

    Args:
        samples: tactics per expansion.
        exploration: ``c``, weight of the exploration.
        widening: factor between the visits of two expansions of a state; 1 counts as 2.

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

    def select(self, graph: ProofGraph) -> ProofNode:
        """Descend by the score to a state to expand."""
        node, path, visited = graph.root, list[Edge](), {graph.root}
        # Stop at a state without expansion, or at one whose visits allow a further expansion.
        while node.expansions > 0 and node.visits < self.widening**node.expansions:
            edges = [edge for edge in node.edges if edge.child not in visited]
            if not edges:
                break
            scores = self.scores(node, edges)
            edge = edges[scores.index(max(scores))]
            path.append(edge)
            node = edge.child
            visited.add(node)
        graph.path = path
        return node

    def scores(self, node: ProofNode, edges: Sequence[Edge]) -> list[float]:
        """Return the PUCT score of each edge."""
        probabilities = [math.exp(edge.log_prob) for edge in edges]
        # All probabilities may underflow to 0.
        total = max(sum(probabilities), 1e-300)
        scale = self.exploration * math.sqrt(node.visits + 1) / total
        return [
            edge.total / max(edge.visits, 1.0) + scale * p / (1 + edge.visits)
            for edge, p in zip(edges, probabilities, strict=True)
        ]

    def update(self, graph: ProofGraph, node: ProofNode, trials: Sequence[Trial]) -> None:
        """Add the leaf's value to the edges of its path."""
        value = self.simulation_value(node, trials)
        graph.root.visits += 1
        for edge in graph.path:
            edge.child.visits += 1
            self.add_simulation(edge, value)

    def simulation_value(self, node: ProofNode, trials: Sequence[Trial]) -> float:
        """Return the value of a simulation that ends at a state."""
        return 1.0 if node.solved else node.value

    def add_simulation(self, edge: Edge, value: float) -> None:
        """Add a simulation to an edge."""
        edge.visits += 1
        edge.total += value


class RMaxTS(MonteCarloTreeSearch):
    """MCTS with an intrinsic reward: 1 when an expansion finds a new state, else 0.

    Scores are discounted upper confidence bounds,
    ``W(s, a) / N(s, a) + sqrt(2 ln(sum_b N(s, b)) / N(s, a))``, where each later simulation of an
    edge multiplies its earlier ones by ``gamma``. A tactic that was never followed comes first.

    Two things differ from the paper. An expansion samples single tactics, not whole proofs. And
    ``widening`` decides when a state is expanded again; in the paper a virtual child of the state
    competes with its other children.

    Args:
        samples: tactics per expansion.
        gamma: discount of earlier simulations.
        widening: factor between the visits of two expansions of a state; 1 counts as 2.

    Source:
        Xin et al. 2024 (DeepSeek-Prover-V1.5), arXiv:2408.08152, section 3.
    """

    def __init__(
        self, *, samples: PositiveInt = 8, gamma: Fraction = 0.99, widening: PositiveInt = 4
    ) -> None:
        super().__init__(samples=samples, widening=widening)
        self.gamma = gamma

    def scores(self, node: ProofNode, edges: Sequence[Edge]) -> list[float]:
        """Return the bound of each edge."""
        total = sum(edge.visits for edge in edges)
        return [
            edge.total / edge.visits + math.sqrt(2 * math.log(max(total, 1.0)) / edge.visits)
            if edge.visits
            else math.inf
            for edge in edges
        ]

    def simulation_value(self, node: ProofNode, trials: Sequence[Trial]) -> float:
        """Return 1 if the simulation found a new state, else 0."""
        return float(any(trial.is_new for trial in trials))

    def add_simulation(self, edge: Edge, value: float) -> None:
        """Add a simulation to an edge and discount the earlier ones."""
        edge.visits = self.gamma * edge.visits + 1
        edge.total = self.gamma * edge.total + value
