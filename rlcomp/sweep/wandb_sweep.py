"""Conversion of a sweep line to the yaml of ``wandb sweep``, for agents on any machines.

::

    python -m rlcomp.sweep.wandb_sweep -m recipe=grpo,dapo seed=0,1,2 > sweep.yaml
    wandb sweep sweep.yaml
    wandb agent ENTITY/PROJECT/SWEEP
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra.core.override_parser.types import IntervalSweep, Override

from rlcomp.errors import ConfigError, UserError
from rlcomp.sweep.jobs import overrides_of, texts_of
from rlcomp.trackers.metric_names import better

METRIC = "evaluation/sampled"  # default objective of a search
_DIRECTORY = "runs/wandb"  # with a directory for each run, so that a preempted run continues
# Keys that the conversion sets itself.
_SET_HERE = ("directory", "tracker", "hydra/sweeper", "hydra/launcher")


def wandb_sweep(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the config of a W&B sweep: grid if every value is listed, else Bayesian search.

    Args:
        arguments: a sweep line. ``directory`` names the folder of the runs' directories,
            ``hydra.sweeper.metric`` the objective of a search, and ``hydra.sweeper.n_trials`` its
            number of trials.

    Raises:
        ConfigError: no override has several values, or no direction of the objective is known.
    """
    overrides = overrides_of(arguments)
    swept = {key: override for key, override in overrides.items() if override.is_sweep_override()}
    if not swept:
        raise ConfigError(
            "nothing has several values: list them, recipe=grpo,dapo, or give a range, "
            "learner.optimizer.lr='tag(log,interval(1e-4,1e-2))'"
        )
    fixed = [
        texts_of(override)[0]
        for key, override in overrides.items()
        if key not in swept and key not in _SET_HERE and not key.startswith("hydra.sweeper.")
    ]
    folder = _value(overrides, "directory", _DIRECTORY)
    # W&B fills in only its own macros and leaves ${oc.env:...} to Hydra.
    settings = ["tracker=wandb", f"directory={folder}/${{oc.env:WANDB_RUN_ID}}"]
    is_search = not all(override.is_discrete_sweep() for override in swept.values())
    return {
        "program": "rlcomp",
        "method": "bayes" if is_search else "grid",
        **(_search_settings(overrides) if is_search else {}),
        "parameters": {
            override.get_key_element(): _parameter(override) for override in swept.values()
        },
        "command": ["${env}", "${program}", *fixed, *settings, "${args_no_hyphens}"],
    }


def _search_settings(overrides: dict[str, Override]) -> dict[str, Any]:
    """Return the objective of a search and its number of runs, in W&B's names."""
    metric = _value(overrides, "hydra.sweeper.metric", METRIC)
    direction = better(metric)
    if not direction:
        raise ConfigError(
            f"hydra.sweeper.metric is {metric!r}, a metric without a better direction: name "
            f"another, such as {METRIC}"
        )
    goal = {"higher": "maximize", "lower": "minimize"}[direction]
    trials = _value(overrides, "hydra.sweeper.n_trials", "")
    cap = {"run_cap": int(trials)} if trials else {}
    return {"metric": {"name": metric, "goal": goal}, **cap}


def _value(overrides: dict[str, Override], key: str, default: str) -> str:
    return texts_of(overrides[key])[0].partition("=")[2] if key in overrides else default


def _parameter(override: Override) -> dict[str, Any]:
    """Return the values of an override, or the ends and the distribution of its range.

    ``interval(0,1)`` is a range of floats, ``int(interval(1,8))`` of integers.
    """
    sweep = override.value()
    if not isinstance(sweep, IntervalSweep):
        return {"values": [_plain(text.partition("=")[2]) for text in texts_of(override)]}
    low, high = sweep.start, sweep.end
    is_integer = isinstance(low, int) and isinstance(high, int)
    ends = {"min": low, "max": high}
    if "log" not in sweep.tags:
        return {"distribution": "int_uniform" if is_integer else "uniform", **ends}
    if is_integer:
        return {"distribution": "q_log_uniform_values", "q": 1, **ends}
    return {"distribution": "log_uniform_values", **ends}


def _plain(text: str) -> object:
    """Convert integers and floats, for axes of W&B's charts; leave all else unchanged.

    Examples:
        >>> _plain("3"), _plain("1e-4"), _plain("[1,2]"), _plain("true")
        (3, 0.0001, '[1,2]', 'true')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def main() -> None:
    """Print the yaml of a sweep line."""
    try:
        print(yaml.safe_dump(wandb_sweep(sys.argv[1:]), sort_keys=False), end="")
    except UserError as error:
        print(f"rlcomp: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
