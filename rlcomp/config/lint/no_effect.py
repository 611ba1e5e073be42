"""Warnings of settings that change nothing under the other choices of a command line."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence

from rlcomp.config.plan import OWN, Plan, collect
from rlcomp.config.reader import Node
from rlcomp.errors import RlcompWarning

_CLIP = re.compile(r"\+{0,2}(\w+(?:\.\w+)*?)([./])trust_region(?:\.\w+)*=(?!none$)")


def warn_of_no_effect(plan: Plan, words: Sequence[str]) -> None:
    """Warn of every word that sets what the run does not use.

    A recipe may well do so: one that is deleted in part keeps the settings of the rest.

    Args:
        plan: a checked one.
        words: overrides of the command line.
    """
    used = _used(plan)
    for word in words:
        if told := _of_no_phase(plan, used, word) or _never_clips(plan, word):
            warnings.warn(f"{word}: it changes nothing: {told}", RlcompWarning, stacklevel=2)


def _used(plan: Plan) -> dict[str, Node]:
    """Return the nodes that a phase of at least one step runs, and the nodes within them."""
    found: dict[str, Node] = {}
    for phase in plan.phases.values():
        if phase.steps:
            collect((phase.lists(), phase.every, phase.on_begin), found)
    return found


def _of_no_phase(plan: Plan, used: dict[str, Node], word: str) -> str | None:
    """Explain that no phase runs the node of a setting; None: one does."""
    names = word.lstrip("+").partition("=")[0].split(".")
    paths = [".".join(names[:end]) for end in range(1, len(names))]
    node = next((path for path in paths if path in plan.nodes), None)
    if node is None or names[0] in OWN or {*paths} & used.keys():
        return None
    return f"no phase of this run uses {node}; leave it out"


def _never_clips(plan: Plan, word: str) -> str | None:
    """Explain that a trust region never clips, as each ratio is 1; None: it may clip."""
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
    """Optimiser steps a batch."""
    counts = [learner.arguments.get(name, 1) for name in ("num_minibatches", "epochs")]
    return counts[0] * counts[1] if all(isinstance(count, int) for count in counts) else None
