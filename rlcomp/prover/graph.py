"""Proof graph: the states that a search has seen, equal ones once, and the tactics between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rlcomp.interfaces.searchable import Searchable
from rlcomp.interfaces.task import Example


class Proposal(NamedTuple):
    """A tactic that the policy has sampled in a state.

    Attributes:
        tactic: its text.
        log_prob: of its tokens, summed, nats.
        place: where its row is found.
    """

    tactic: str
    log_prob: float
    place: int = -1


@dataclass(eq=False)
class Node:
    """A state.

    Attributes:
        state: of the environment.
        text: what the policy reads of it; equal text, equal node.
        solved: nothing is left to prove, or a tactic leads to a solved node.
        log_prob: of the tactics on the likeliest way here, summed, nats.
        depth: how many they are.
        edges: tactics that the environment has accepted.
        parents: edges that lead here.
        expansions: how often the policy was asked.
        value: a critic's, in [0, 1]; 0 without one.
        visits: simulations that passed it.
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
    """A tactic from one state to another.

    Attributes:
        tactic: its text.
        log_prob: nats.
        parent: where it was applied.
        child: where it leads.
        visits: simulations that passed it, discounted where the strategy does so.
        total: of what they returned, likewise.
    """

    tactic: str
    log_prob: float
    parent: Node
    child: Node
    visits: float = 0.0
    total: float = 0.0


class Trial(NamedTuple):
    """A tactic that was tried in a state.

    Attributes:
        node: where.
        proposal: what.
        edge: what became of it; None if it failed or leads nowhere.
        is_new: it led to a state that was not known.
    """

    node: Node
    proposal: Proposal
    edge: Edge | None
    is_new: bool


class ProofGraph:
    """A search's graph. Each tactic is tried once in a state: a call of the environment.

    Args:
        environment: applies tactics.
        example: where to begin.
        fits: whether the policy can read a state's text; one that it cannot is a dead end.
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
        self.root = Node(state, environment.text(state), environment.solved(state))
        self.nodes = {self.root.text: self.root}
        self.trials: list[Trial] = []
        self.tokens = 0
        # Of the strategy: the way to the node that is expanded.
        self.path: list[Edge] = []

    @property
    def calls(self) -> int:
        """Tactics that the environment was asked to apply."""
        return len(self.trials)

    def expand(self, node: Node, proposals: Sequence[Proposal], most: int) -> list[Trial]:
        """Try proposals in a node; those that were tried before are not tried again.

        Args:
            node: where.
            proposals: what the policy says.
            most: calls that are left.

        Returns:
            What became of each, old or new.
        """
        node.expansions += 1
        found = list[Trial]()
        for proposal in proposals:
            known = node.tried.get(proposal.tactic)
            if known is not None:
                found.append(known._replace(is_new=False))
            elif most > 0:
                most -= 1
                found.append(self._tried(node, proposal))
        return found

    def _tried(self, node: Node, proposal: Proposal) -> Trial:
        state = self.environment.apply(node.state, proposal.tactic)
        trial = Trial(node, proposal, None, False)
        if not isinstance(state, str):
            trial = self._reached(node, proposal, state)
        node.tried[proposal.tactic] = trial
        self.trials.append(trial)
        return trial

    def _reached(self, node: Node, proposal: Proposal, state: Any) -> Trial:  # noqa: ANN401
        solved, text = self.environment.solved(state), self.environment.text(state)
        child = self.nodes.get(text)
        is_new = child is None
        if child is node or (child is None and not solved and not self.fits(text)):
            return Trial(node, proposal, None, False)
        child = self.nodes.setdefault(text, child or Node(state, text))
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
        """The shortest proof in the graph, as edges; empty where there is none."""
        ends = [node for node in self.nodes.values() if self.environment.solved(node.state)]
        steps, queue = dict.fromkeys(ends, 0), ends
        for node in queue:
            for edge in node.parents:
                if edge.parent not in steps:
                    steps[edge.parent] = steps[node] + 1
                    queue.append(edge.parent)
        found, node = list[Edge](), self.root
        while steps.get(node, 0) > 0:
            edge = next(e for e in node.edges if steps.get(e.child, -1) == steps[node] - 1)
            found.append(edge)
            node = edge.child
        return found


def _solve(node: Node) -> None:
    """Mark a node and all that lead to it."""
    queue = [node]
    for each in queue:
        if not each.solved:
            each.solved = True
            queue += [edge.parent for edge in each.parents]
