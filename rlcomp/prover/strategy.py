"""Strategy of a search: which state of a proof graph is expanded next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rlcomp.prover.graph import Node, ProofGraph, Trial


class Search(Protocol):
    """A search strategy; what it remembers stands in the graph.

    Attributes:
        samples: tactics that the policy samples in an expansion.
    """

    samples: int

    def select(self, graph: ProofGraph) -> Node:
        """The state to expand next; one that was expanded before is sampled anew."""
        ...

    def update(self, graph: ProofGraph, node: Node, trials: Sequence[Trial]) -> None:
        """Learn what became of an expansion."""
        ...
