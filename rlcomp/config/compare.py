"""Differences of two configs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf


def flatten(config: DictConfig) -> dict[str, str]:
    """Return every unresolved value by its path; the value of a part is the name of its class.

    A list is one value, as a text.

    Examples:
        >>> flatten(OmegaConf.create({"loss": {"_target_": "a.b.Clip", "low": 0.2}}))
        {'loss': 'Clip', 'loss.low': '0.2'}
    """
    values: dict[str, str] = {}

    def walk(value: Any, path: str) -> None:  # noqa: ANN401
        if isinstance(value, Mapping):
            for key, item in value.items():
                if key == "_target_":
                    values[path] = str(item).rpartition(".")[2]
                else:
                    walk(item, f"{path}.{key}" if path else str(key))
        else:
            values[path] = str(value)

    walk(OmegaConf.to_container(config, resolve=False), "")
    return values


def config_differences(one: DictConfig, other: DictConfig) -> dict[str, tuple[str, str]]:
    """Return the paths at which two configs differ, with both values ("-" for absent).

    Examples:
        >>> first = OmegaConf.create({"lr": 1, "seed": 0})
        >>> config_differences(first, OmegaConf.create({"lr": 2, "seed": 0}))
        {'lr': ('1', '2')}
    """
    left, right = flatten(one), flatten(other)
    paths = dict.fromkeys([*left, *right])
    pairs = {path: (left.get(path, "-"), right.get(path, "-")) for path in paths}
    return {path: (was, now) for path, (was, now) in pairs.items() if was != now}
