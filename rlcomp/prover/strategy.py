"""Interface of search strategies, which select the next state to expand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rlcomp.prover.graph import Node, ProofGraph, Trial


class Search(Protocol):
    """Interface of search strategies; their memory is in the graph.

    Attributes:
        samples: tactics that the policy samples in an expansion.
    """

    samples: int

    def select(self, graph: ProofGraph) -> Node:
        """Return the state to expand next; a state may be expanded again with new samples."""
        ...

    def update(self, graph: ProofGraph, node: Node, trials: Sequence[Trial]) -> None:
        """Update the memory with the trials of an expansion."""
        ...
