"""Varied keys and jobs of sweeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, RangeSweep
from omegaconf import DictConfig, OmegaConf

from rlcomp.config.options import config_directory
from rlcomp.errors import ConfigError
from rlcomp.files.untrusted import check_no_aliases

# Most jobs of a sweep: three hours at the least, for a run takes at least a second.
MOST_JOBS = 10_000


def swept_keys(arguments: Sequence[str]) -> list[str]:
    """Return the keys that a command line sweeps over.

    Examples:
        >>> swept_keys(["-m", "recipe=grpo,sft", "seed=0,1", "device=cpu"])
        ['recipe', 'seed']
    """
    return [
        key for key, override in overrides_of(arguments).items() if override.is_sweep_override()
    ]


def overrides_of(
    arguments: Sequence[str], config_loader: ConfigLoader | None = None
) -> dict[str, Override]:
    """Return the overrides of a command line by key; the last one counts, as in Hydra.

    Args:
        arguments: a command line.
        config_loader: finds the options that match a ``glob``.

    Raises:
        ConfigError: a range has too many values to list.
    """
    texts = [
        word
        for word in arguments
        if word.startswith("~") or (not word.startswith("-") and "=" in word)
    ]
    overrides = OverridesParser.create(config_loader).parse_overrides(texts)
    check_count(overrides)
    keys = (override.get_key_element() for override in overrides)
    # The removal of a key (~key) and its addition are two entries.
    return {
        key if key.startswith("~") else plain_key(key): override
        for key, override in zip(keys, overrides, strict=True)
    }


def check_count(overrides: Sequence[Override], product: bool = False) -> None:
    """Refuse a sweep of mistaken size before its jobs are listed.

    With ``product`` all combinations are counted, otherwise the values of each override.

    Raises:
        ConfigError: there are too many jobs; the message names the override with the most values.
    """
    counts = [
        (_count(override), override) for override in overrides if override.is_sweep_override()
    ]
    total = math.prod(count for count, _ in counts) if product else 0
    most, override = max(counts, key=itemgetter(0), default=(0, None))
    if max(most, total) > MOST_JOBS and override is not None:
        raise ConfigError(
            f"{override.input_line}: the sweep has {max(most, total):,} jobs, more than "
            f"{MOST_JOBS:,}: give fewer values, or search (hydra/sweeper=optuna)"
        )


def _count(override: Override) -> int:
    """Count the values of an override without listing them; 1 for an interval."""
    value = override.value()
    if isinstance(value, RangeSweep):
        start, stop = value.start, value.stop
        assert start is not None
        assert stop is not None
        return max(math.ceil((stop - start) / value.step), 0) if value.step else 0
    return len(value.list) if isinstance(value, ChoiceSweep) else 1


def texts_of(override: Override) -> list[str]:
    """Return a text ``key=value`` for each value of an override; of an interval only its start."""
    key = override.get_key_element()
    if override.is_sweep_override():
        if override.is_discrete_sweep():
            return [f"{key}={value}" for value in override.sweep_string_iterator()]
        return [f"{key}={getattr(override.value(), 'start', None)}"]
    return [f"{key}={override.get_value_element_as_str()}"]


def plain_key(key: str) -> str:
    """Return the key of an override without its ``+`` or ``~`` prefix.

    Examples:
        >>> plain_key("++learner.lr")
        'learner.lr'
    """
    return key.lstrip("+~")


def requested_overrides(directory: Path) -> list[str]:
    """Return the requested overrides of a sweep: ``hydra.sweeper.params``, then the command line.

    They are read from the sweep's ``multirun.yaml``; empty without this file. Hydra writes it
    before the first job.
    """
    file = directory / "multirun.yaml"
    if not file.is_file():
        return []
    # Unresolved: interpolations have another value in every job.
    check_no_aliases(file)
    config: Any = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
    hydra = config["hydra"]
    params = hydra["sweeper"].get("params") or {}
    return [*(f"{key}={value}" for key, value in params.items()), *hydra["overrides"]["task"]]


def jobs_of_sweep(directory: Path) -> list[list[str]]:
    """Return the overrides of every job of a sweep.

    Empty if the directory has no ``multirun.yaml``, if no key is varied, or if only the sweeper
    knows the jobs (a search).
    """
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    file = directory / "multirun.yaml"
    if not file.is_file():
        return []
    hydra = OmegaConf.load(file).hydra
    overrides = list(overrides_of(requested_overrides(directory), _config_loader(hydra)).values())
    swept = [override for override in overrides if override.is_sweep_override()]
    is_grid = str(hydra.sweeper.get("_target_", "")).endswith(f".{BasicSweeper.__name__}")
    if not is_grid or not swept or not all(override.is_discrete_sweep() for override in swept):
        return []
    check_count(overrides, product=True)
    (combinations,) = BasicSweeper.split_arguments(overrides, None)
    return combinations


def _config_loader(hydra: DictConfig) -> ConfigLoader:
    """Return a loader for the options of rlcomp and of the user's directories."""
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
    from hydra.core.plugins import Plugins

    Plugins.instance()  # registers the kinds of directories
    path = ConfigSearchPathImpl()
    path.append("main", f"file://{config_directory()}")  # may have moved since the sweep
    for source in OmegaConf.select(hydra, "runtime.config_sources", default=[]):
        # Only directories: a package (pkg://) would be imported.
        if source.provider not in ("main", "schema") and source.schema == "file":
            path.append(source.provider, f"{source.schema}://{source.path}")
    return ConfigLoaderImpl(path)
