"""Before anything expensive: is an engine that samples in another process there?"""

from __future__ import annotations

from collections.abc import Mapping

from rlcomp.interfaces.sampler_engine import Elsewhere


def try_engines(nodes: Mapping[str, object]) -> None:
    """Reach every engine that samples elsewhere.

    Args:
        nodes: of the run, by path.

    Raises:
        ConfigError: one is not there, as it would turn out at the first rollout.
    """
    for node in nodes.values():
        if isinstance(node, Elsewhere):
            node.reach()
