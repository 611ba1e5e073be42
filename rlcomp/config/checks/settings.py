"""Checks of the settings of a run, and of values that a constructor would refuse too late."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rlcomp.arguments import NonEmptyText, NonNegativeInt, problem, remedy
from rlcomp.config.plan import Plan
from rlcomp.config.reader import BROKEN, Node

SETTINGS = {
    "seed": NonNegativeInt,
    "device": NonEmptyText,
    "directory": NonEmptyText,
    "resume": NonEmptyText,
    "trust": bool,
    "overwrite": bool,
    "accept_changed_files": bool,
}

_CHOICES = {"resume": "auto, must, never, or the path of a run or of one of its checkpoints"}


def check_settings(plan: Plan) -> list[str]:
    """Return the mistakes in the plain values that every run has."""
    return [
        f"{name} is {plan.tree[name]!r}: {fault}; "
        + (
            f"set {name}={_CHOICES[name]}"
            if name in _CHOICES
            else remedy(name, plan.tree[name], fault)
        )
        for name, kind in SETTINGS.items()
        if name in plan.tree
        and plan.tree[name] is not BROKEN
        and (fault := problem(kind, plan.tree[name]))
    ]


def check_patches(plan: Plan) -> list[str]:
    """Yamls of one's own that would change nothing: their settings stand below their group."""
    return [
        f"{name} is a node of its own, which nothing reads: the first line of its yaml must be "
        "'# @package _global_'"
        for name in ("recipe", "experiment")
        if plan.tree.get(name)
    ]


def check_rates(plan: Plan) -> list[str]:
    """Learning rates of torch's optimisers, which would compare a list only once they are made."""
    return [
        f"{node.path}.lr is {rate!r}: must be a number; "
        + (
            f"a sweep has no brackets, rlcomp -m {node.path}.lr=1e-4,1e-3"
            if isinstance(rate, list)
            else f"set {node.path}.lr=1e-4"
        )
        for node in plan.nodes.values()
        if node.target.startswith("torch.optim.")
        and isinstance(rate := node.arguments.get("lr"), (str, bool, list))
    ]


def check_adapters(plan: Plan) -> list[str]:
    """Return a message on a reference that switches off adapters that the policy does not have."""
    policy = plan.nodes.get("policy")
    model = policy.arguments.get("model") if policy else None
    target = model.target if isinstance(model, Node) else ""
    bare = target.startswith("rlcomp.model.") and not re.search("lora|adapter", target)
    return [
        f"{node.path} is adapter_off: it switches the adapters of the policy off, and with "
        "adapter=none there are none: add adapter=lora, or take reference=frozen"
        for node in plan.nodes.values()
        if bare and node.target.endswith("adapter_off.AdapterOff")
    ]


def check_randomise(plan: Plan) -> list[str]:
    """Dynamics that shall be drawn, where there is no environment that has any."""
    environment = plan.tree.get("environment")
    if not isinstance(environment, Mapping) or "_target_" in environment:
        return []
    if set(environment) != {"randomise"}:
        return []
    return [
        "randomise draws the dynamics of 'environment', which this recipe has not: set "
        "randomise=none, or choose a recipe of control"
    ]


def check_tracker(plan: Plan) -> list[str]:
    """Return a message on settings of a tracker that was not chosen: nothing would be logged."""
    tracker = plan.tree.get("tracker")
    if not isinstance(tracker, Mapping) or "_target_" in tracker:
        return []
    return ["tracker has settings, but none is chosen: add tracker=wandb (or tracker=tensorboard)"]
