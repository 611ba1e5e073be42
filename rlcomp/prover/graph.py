"""Proof graph: the distinct states of a search and the tactics between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rlcomp.interfaces.protocols import Searchable
from rlcomp.interfaces.task import Example


class Proposal(NamedTuple):
    """Tactic that the policy has sampled in a state.

    Attributes:
        tactic: its text.
        log_prob: sum over its tokens, nats.
        place: index of its row.
    """

    tactic: str
    log_prob: float
    place: int = -1


@dataclass(eq=False)
class ProofNode:
    """State of a proof search.

    Attributes:
        state: state of the environment.
        text: the text that the policy reads; states with the same text are one node.
        solved: whether no goal is left, or a tactic leads to a solved node.
        log_prob: sum over the tactics of the likeliest path from the root, nats; a later shortcut
            to an ancestor does not change it.
        depth: number of tactics of that path.
        edges: accepted tactics.
        parents: edges that lead to this state.
        expansions: number of expansions by the policy.
        value: the critic's value, in [0, 1]; 0 without a critic.
        visits: number of simulations through it.
        tried: the trial of each tactic in this state, by the tactic's text.
    """

    state: Any
    text: str
    solved: bool = False
    log_prob: float = 0.0
    depth: int = 0
    edges: list[Edge] = field(default_factory=list)
    parents: list[Edge] = field(default_factory=list)
    expansions: int = 0
    value: float = 0.0
    visits: int = 0
    tried: dict[str, Trial] = field(default_factory=dict)


@dataclass(eq=False)
class Edge:
    """Tactic from one state to another.

    Attributes:
        tactic: its text.
        log_prob: nats.
        parent: the node it was applied to.
        child: the node it leads to.
        visits: number of simulations through it; a strategy may discount earlier ones.
        total: sum of the returns of these simulations, with the same discount.
    """

    tactic: str
    log_prob: float
    parent: ProofNode
    child: ProofNode
    visits: float = 0.0
    total: float = 0.0


class Trial(NamedTuple):
    """Application of a tactic to a state.

    Attributes:
        node: the node of the state.
        proposal: the tactic.
        edge: the resulting edge; None if the tactic failed, leads to the same state, or leads to an
            unsolved state that the policy cannot read.
        is_new: whether it led to a new state.
    """

    node: ProofNode
    proposal: Proposal
    edge: Edge | None
    is_new: bool


class ProofGraph:
    """Graph of a search. A tactic is tried once per state, by one call of the environment.

    Args:
        environment: applies tactics.
        example: the example with the theorem.
        fits: whether the policy can read a state's text; otherwise the state is a dead end.

    Attributes:
        root: the node of the first state.
        nodes: the nodes by text.
        trials: all trials, in order.
        tokens: number of tokens that the policy has sampled.
        path: the strategy's path to the expanded node.
    """

    def __init__(
        self,
        environment: Searchable[Any],
        example: Example,
        fits: Callable[[str], bool] = lambda text: True,
    ) -> None:
        self.environment = environment
        self.fits = fits
        state = environment.start(example)
        self.root = ProofNode(state, environment.text(state), environment.solved(state))
        self.nodes = {self.root.text: self.root}
        self.trials: list[Trial] = []
        self.tokens = 0
        self.path: list[Edge] = []

    @property
    def calls(self) -> int:
        """Number of tactics that the environment has tried."""
        return len(self.trials)

    def expand(self, node: ProofNode, proposals: Sequence[Proposal], max_calls: int) -> list[Trial]:
        """Try proposals in a node, each at most once, with at most ``max_calls`` calls.

        Returns:
            The trials of the proposals, also of earlier expansions; without the proposals for which
            no call is left.
        """
        node.expansions += 1
        trials = list[Trial]()
        for proposal in proposals:
            trial = node.tried.get(proposal.tactic)
            if trial is not None:
                trials.append(trial._replace(is_new=False))
            elif max_calls > 0:
                max_calls -= 1
                trials.append(self._try(node, proposal))
        return trials

    def _try(self, node: ProofNode, proposal: Proposal) -> Trial:
        state = self.environment.apply(node.state, proposal.tactic)
        trial = Trial(node, proposal, None, False)
        if not isinstance(state, str):
            trial = self._add_edge(node, proposal, state)
        node.tried[proposal.tactic] = trial
        self.trials.append(trial)
        return trial

    def _add_edge(self, node: ProofNode, proposal: Proposal, state: Any) -> Trial:  # noqa: ANN401
        solved, text = self.environment.solved(state), self.environment.text(state)
        child = self.nodes.get(text)
        is_new = child is None
        if child is node or (child is None and not solved and not self.fits(text)):
            return Trial(node, proposal, None, False)
        child = self.nodes.setdefault(text, child or ProofNode(state, text))
        edge = Edge(proposal.tactic, proposal.log_prob, node, child)
        node.edges.append(edge)
        child.parents.append(edge)
        log_prob = node.log_prob + proposal.log_prob
        if is_new or log_prob > child.log_prob:
            child.log_prob, child.depth = log_prob, node.depth + 1
        if solved or child.solved:
            _solve(child)
        return Trial(node, proposal, edge, is_new)

    def proof(self) -> list[Edge]:
        """Return the shortest proof in the graph, as edges; empty if there is none."""
        ends = [node for node in self.nodes.values() if self.environment.solved(node.state)]
        # Breadth-first search from the solved states: steps is the distance of a node to them.
        steps, queue = dict.fromkeys(ends, 0), ends
        for node in queue:
            for edge in node.parents:
                if edge.parent not in steps:
                    steps[edge.parent] = steps[node] + 1
                    queue.append(edge.parent)
        path, node = list[Edge](), self.root
        while steps.get(node, 0) > 0:
            edge = next(e for e in node.edges if steps.get(e.child, -1) == steps[node] - 1)
            path.append(edge)
            node = edge.child
        return path


def _solve(node: ProofNode) -> None:
    """Mark a node and its ancestors as solved; no-op for a solved node."""
    queue = [node]
    for each in queue:
        if not each.solved:
            each.solved = True
            queue += [edge.parent for edge in each.parents]
