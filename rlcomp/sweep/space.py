"""Search space: every override with more than one value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.types import IntervalSweep, Override

from rlcomp.errors import ConfigError
from rlcomp.sweep.jobs import overrides_of, texts_of


class Space:
    """Points of a search.

    Args:
        arguments: overrides, as on the command line.
        config_loader: finds the options that match a ``glob``.

    Raises:
        ConfigError: no override except seeds has several values.
    """

    def __init__(self, arguments: Sequence[str], config_loader: ConfigLoader | None = None) -> None:
        overrides = overrides_of(arguments, config_loader)
        seeds = overrides.get("seed")
        swept = {key: o for key, o in overrides.items() if o.is_sweep_override()}
        self.searched = {key: override for key, override in swept.items() if key != "seed"}
        if not self.searched:
            raise ConfigError(
                "there is nothing to search: give a value a range, "
                "learner.optimizer.lr='tag(log,interval(1e-4,1e-2))', or several, loss=grpo,policy"
            )
        if seeds is not None and seeds.is_sweep_override() and not seeds.is_discrete_sweep():
            raise ConfigError("seed is an interval: list the seeds of a trial, seed=0,1,2")
        self.seeds = [""] if seeds is None else texts_of(seeds)
        self.fixed = [texts_of(o)[0] for key, o in overrides.items() if key not in {*swept, "seed"}]

    def jobs(self, trial: Any) -> list[list[str]]:  # noqa: ANN401
        """Return the overrides of every run of a trial, one a seed.

        Args:
            trial: an ``optuna.Trial``, which suggests values.
        """
        chosen = [
            f"{override.get_key_element()}={_suggested(trial, key, override)}"
            for key, override in self.searched.items()
        ]
        return [[*chosen, *self.fixed, *([seed] if seed else [])] for seed in self.seeds]


def _suggested(trial: Any, key: str, override: Override) -> object:  # noqa: ANN401
    sweep = override.value()
    if not isinstance(sweep, IntervalSweep):
        return trial.suggest_categorical(key, [*override.sweep_string_iterator()])
    low, high, log = sweep.start, sweep.end, "log" in sweep.tags
    if isinstance(low, int) and isinstance(high, int):
        return trial.suggest_int(key, low, high, log=log)
    return trial.suggest_float(key, low, high, log=log)
