"""Best-of-n: whole proofs, sampled one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from rlcomp.arguments import Checked, PositiveInt
from rlcomp.prover.graph import Node, ProofGraph, Trial


class Sampling(metaclass=Checked):
    """Best-of-n (control): one tactic a state, to the end of a proof or a failure, then anew.

    No search: nothing that is known of one attempt guides the next. A tactic that was tried in the
    same state before costs no further call, to its advantage.

    Args:
        max_depth: tactics of an attempt.
    """

    samples = 1

    def __init__(self, *, max_depth: PositiveInt = 16) -> None:
        self.max_depth = max_depth

    def select(self, graph: ProofGraph) -> Node:
        """Where the attempt is."""
        return graph.path[-1].child if graph.path else graph.root

    def update(self, graph: ProofGraph, node: Node, trials: Sequence[Trial]) -> None:
        """Go on, or begin the next attempt."""
        edge = trials[0].edge if trials else None
        ended = edge is None or len(graph.path) + 1 >= self.max_depth
        graph.path = [] if ended or edge is None else [*graph.path, edge]
