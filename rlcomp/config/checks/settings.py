"""Checks of the settings of a run, and of values that a constructor would refuse too late."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rlcomp.arguments import NonEmptyText, NonNegativeInt, problem, remedy
from rlcomp.config.finding import Finding, refuse
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


def check_settings(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each mistake in the plain values that every run has."""
    for name, kind in SETTINGS.items():
        value = plan.tree.get(name, BROKEN)
        if value is not BROKEN and (fault := problem(kind, value)):
            choices = _CHOICES.get(name)
            instead = f"set {name}={choices}" if choices else remedy(name, value, fault)
            yield refuse(f"{name} is {value!r}: {fault}; {instead}")


def check_patches(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each yaml of the user whose settings stand below its group."""
    for name in ("recipe", "experiment"):
        if plan.tree.get(name):
            yield refuse(
                f"{name} is a node of its own, which nothing reads: the first line of its yaml "
                "must be '# @package _global_'"
            )


def check_rates(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each learning rate of torch's optimisers that is no number."""
    for node in plan.nodes.values():
        rate = node.arguments.get("lr")
        if node.target.startswith("torch.optim.") and isinstance(rate, (str, bool, list)):
            sweep = f"a sweep has no brackets, rlcomp -m {node.path}.lr=1e-4,1e-3"
            instead = sweep if isinstance(rate, list) else f"set {node.path}.lr=1e-4"
            yield refuse(f"{node.path}.lr is {rate!r}: must be a number; {instead}")


def check_adapters(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each reference that disables adapters which the policy does not have."""
    policy = plan.nodes.get("policy")
    model = policy.arguments.get("model") if policy else None
    target = model.target if isinstance(model, Node) else ""
    if not target.startswith("rlcomp.model.") or re.search("lora|adapter", target):
        return
    for node in plan.nodes.values():
        if node.target.endswith("adapter_off.AdapterOffReference"):
            yield refuse(
                f"{node.path} is adapter_off: it switches the adapters of the policy off, but "
                "with adapter=none the policy has none: add adapter=lora, or take reference=frozen"
            )


def check_randomise(plan: Plan) -> Iterator[Finding]:
    """Yield a finding if dynamics are drawn for an environment that the recipe does not have."""
    environment = plan.tree.get("environment")
    if isinstance(environment, Mapping) and set(environment) == {"randomise"}:
        yield refuse(
            "randomise draws the dynamics of 'environment', which this recipe has not: set "
            "randomise=none, or choose a recipe of control"
        )


def check_tracker(plan: Plan) -> Iterator[Finding]:
    """Yield a finding if a tracker has settings, but no tracker is chosen."""
    tracker = plan.tree.get("tracker")
    if isinstance(tracker, Mapping) and "_target_" not in tracker:
        yield refuse(
            "tracker has settings, but none is chosen: add tracker=wandb (or tracker=tensorboard)"
        )
