"""From a composed config to a checked plan: every mistake at once, before torch is imported."""

from __future__ import annotations

from omegaconf import DictConfig

from rlcomp.errors import ConfigErrors
from rlcomp.run.flow import check_arguments, check_flow
from rlcomp.run.wiring import Plan, read


def plan_of(config: DictConfig) -> Plan:
    """Read and check a config.

    Raises:
        ConfigErrors: everything that is wrong with it.
    """
    plan, errors = read(config)
    errors += check_arguments(plan)
    errors += check_flow(plan)
    if errors:
        raise ConfigErrors(errors)
    return plan
