"""Best-of-n: whole proofs sampled one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from rlcomp.arguments import Checked, PositiveInt
from rlcomp.prover.graph import Node, ProofGraph, Trial


class Sampling(metaclass=Checked):
    """Best-of-n (control): attempts of one tactic per state, until a proof or a failure.

    It is no search: an attempt does not use the results of earlier ones. A tactic that was tried in
    the same state before costs no further call, which favours this control.

    Args:
        max_depth: most tactics of an attempt.
    """

    samples = 1

    def __init__(self, *, max_depth: PositiveInt = 16) -> None:
        self.max_depth = max_depth

    def select(self, graph: ProofGraph) -> Node:
        """Return the current state of the attempt."""
        return graph.path[-1].child if graph.path else graph.root

    def update(self, graph: ProofGraph, node: Node, trials: Sequence[Trial]) -> None:
        """Continue the attempt or start the next one."""
        edge = trials[0].edge if trials else None
        ended = edge is None or len(graph.path) + 1 >= self.max_depth
        graph.path = [] if ended or edge is None else [*graph.path, edge]
