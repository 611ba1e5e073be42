"""Early check that engines in other processes can be reached."""

from __future__ import annotations

from collections.abc import Mapping

from rlcomp.interfaces.sampler_engine import Elsewhere


def try_engines(nodes: Mapping[str, object]) -> None:
    """Reach every engine in another process.

    Args:
        nodes: nodes of the run, by path.

    Raises:
        ConfigError: an engine cannot be reached, as the first rollout would show.
    """
    for node in nodes.values():
        if isinstance(node, Elsewhere):
            node.reach()
