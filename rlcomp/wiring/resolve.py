"""Parses and checks a composed config: reports all mistakes at once, before importing torch."""

from __future__ import annotations

from omegaconf import DictConfig

from rlcomp.arguments import NonEmptyText, NonNegativeInt, problem
from rlcomp.errors import ConfigErrors
from rlcomp.wiring.arguments import check_arguments
from rlcomp.wiring.flow_source import check_flow
from rlcomp.wiring.foreign import check_foreign
from rlcomp.wiring.plan import Plan, read
from rlcomp.wiring.reader import BROKEN
from rlcomp.wiring.watched import check_watched


def plan_of(config: DictConfig) -> Plan:
    """Read and check a config.

    Raises:
        ConfigErrors: everything that is wrong with it.
    """
    plan, errors = read(config)
    errors += check_plan(plan)
    if errors:
        raise ConfigErrors(errors)
    return plan


def check_plan(plan: Plan) -> list[str]:
    """Everything that is wrong with a plan that could be read."""
    refused = check_foreign(plan)
    # What a foreign loss asks for is no news beside that it cannot run.
    return (
        check_settings(plan)
        + (refused or check_arguments(plan))
        + check_flow(plan)
        + check_watched(plan)
    )


SETTINGS = {
    "seed": NonNegativeInt,
    "device": NonEmptyText,
    "directory": NonEmptyText,
    "resume": NonEmptyText,
    "trust": bool,
    "overwrite": bool,
}


def check_settings(plan: Plan) -> list[str]:
    """The plain values that every run has."""
    return [
        f"{name} is {plan.tree[name]!r}: {fault}; set {name}=..."
        for name, kind in SETTINGS.items()
        if name in plan.tree
        and plan.tree[name] is not BROKEN
        and (fault := problem(kind, plan.tree[name]))
    ]
