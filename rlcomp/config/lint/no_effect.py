"""Check for settings that change nothing under the other choices of a command line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlcomp.config.finding import Finding, warn
from rlcomp.config.plan import OWN, Plan, collect
from rlcomp.config.reader import Node

_CLIP = re.compile(r"\+{0,2}(\w+(?:\.\w+)*?)([./])trust_region(?:\.\w+)*=(?!none$)")


def settings_without_effect(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on every override of the command line that the run does not use.

    A recipe may set values that its own choices leave unused, so its values are not checked.
    """
    used = _used_nodes(plan)
    for word in plan.words:
        if reason := _unused_reason(plan, used, word) or _unclipped_reason(plan, word):
            yield warn(f"{word}: it changes nothing: {reason}")


def _used_nodes(plan: Plan) -> dict[str, Node]:
    """Return the nodes that a phase of at least one step runs, and the nodes within them."""
    nodes: dict[str, Node] = {}
    for phase in plan.phases.values():
        if phase.steps:
            collect((phase.lists(), phase.every, phase.on_begin), nodes)
    return nodes


def _unused_reason(plan: Plan, used: dict[str, Node], word: str) -> str | None:
    """Return that no phase runs the node of a setting; None if a phase does."""
    names = word.lstrip("+").partition("=")[0].split(".")
    paths = [".".join(names[:end]) for end in range(1, len(names))]
    node = next((path for path in paths if path in plan.nodes), None)
    if node is None or names[0] in OWN or {*paths} & used.keys():
        return None
    return f"no phase of this run uses {node}; leave it out"


def _unclipped_reason(plan: Plan, word: str) -> str | None:
    """Return why each ratio of a trust region is 1, so that it never clips; None: it may clip."""
    match = _CLIP.match(word)
    loss = match and plan.nodes.get(match[1])
    ratio = loss and loss.arguments.get("ratio")
    if not loss or not isinstance(ratio, Node):
        return None
    if ratio.target.endswith("ratio.NoRatio"):
        return f"with {loss.path}/ratio=none every ratio is 1; add {loss.path}/ratio=token"
    steps = [_steps(node) for node in plan.nodes.values() if loss in _losses(node)]
    if steps != [1] or any(".delayed." in node.target for node in plan.nodes.values()):
        return None
    learner = next(node.path for node in plan.nodes.values() if loss in _losses(node))
    return (
        f"with one optimiser step a batch the policy is still the one that sampled, and every "
        f"ratio is 1; set {learner}.num_minibatches=4, or {learner}.epochs=2"
    )


def _losses(node: Node) -> Iterator[object]:
    losses = node.arguments.get("losses")
    return iter(losses.values() if isinstance(losses, dict) else ())


def _steps(learner: Node) -> object:
    """Return the number of optimiser steps for each batch; None if it is unknown."""
    counts = [learner.arguments.get(name, 1) for name in ("num_minibatches", "epochs")]
    return counts[0] * counts[1] if all(isinstance(count, int) for count in counts) else None
