"""Parts of a recipe for custom loops: building, saving and loading."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from omegaconf import OmegaConf

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.config.build import Builder
from rlcomp.config.resolve import compose_or_explain, plan_of, traced_errors
from rlcomp.errors import ConfigError, nearest
from rlcomp.run.launch import device, place_on


class Parts(dict[str, object]):
    """The nodes that a config's phases use, by path: ``parts["policy"]``, ``parts["learner"]``.

    Attributes:
        config: text of the config.
        unused: paths of the nodes that no phase uses, which are not built.
    """

    config: str | None = None
    unused: frozenset[str] = frozenset()

    def __missing__(self, name: str) -> NoReturn:
        """Raise an error that names the nearest part, or says why the part is not built."""
        if name in self.unused:
            raise KeyError(f"no part {name!r}: no phase uses it; add it to the stages of a phase")
        raise KeyError(f"no part {name!r}{nearest(name, self)}")

    def __getattr__(self, name: str) -> NoReturn:
        """Raise an error, since parts are items and not attributes."""
        raise AttributeError(
            f"Parts have no {name!r}: a part is parts['learner'], and a whole run is the command "
            "line's, rlcomp recipe=NAME; docs/kernel.md has a loop of one's own"
        )


def build(*overrides: str, config_dirs: Sequence[str] = (), **settings: object) -> Parts:
    """Build the parts of a recipe that its phases use, after the checks of its plan.

    Unlike the command line, this checks neither that every override is read nor the task's columns,
    and tries no reward, environment or engine.

    Args:
        overrides: as on the command line: ``"recipe=rloo"``, ``"seed=1"``.
        config_dirs: directories of your own configs.
        settings: must be empty; names of settings contain dots and are given as texts.

    Raises:
        ConfigError: ``rlcomp`` would refuse the config, or a setting is not given as a text.
    """
    if settings or not all(isinstance(word, str) for word in overrides):
        raise ConfigError(_texts_message(overrides, settings))
    config = compose_or_explain(overrides, config_dirs)
    plan = plan_of(config, overrides)
    with traced_errors(plan):
        reached = plan.reached()
        parts = Parts(Builder(reached, int(config.seed)).all())
    parts.unused = frozenset(plan.nodes.keys() - reached.nodes.keys())
    parts.config = OmegaConf.to_yaml(config)
    place_on(device(str(config.device)), parts)
    return parts


def _texts_message(words: Sequence[object], settings: Mapping[str, object]) -> str:
    """Write as texts the settings that were given as keywords, mappings or lists."""
    items = [*settings.items()]
    overrides = list[str]()
    for word in words:
        if isinstance(word, Mapping):
            items += word.items()
        else:
            overrides += map(str, word) if isinstance(word, (list, tuple)) else [str(word)]
    overrides += [f"{name}={_as_override(value)}" for name, value in items]
    quoted = ", ".join(repr(text) for text in overrides)
    return f"build: overrides are texts, as on the command line: build({quoted:.300})"


def _as_override(value: object) -> str:
    """Write a value as on the command line."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def save(parts: Mapping[str, object], directory: str | Path, step: int) -> Path:
    """Save everything the next step depends on: weights, optimisers, generators, counters.

    Args:
        parts: by name.
        directory: is created.
        step: number of finished steps; names the checkpoint.

    Returns:
        The checkpoint, a folder; earlier ones stay. If the parts are from :func:`build`,
        ``rlcomp-sample`` and ``rlcomp-export`` can read it.

    Raises:
        CheckpointError: the checkpoint cannot be written.
    """
    writer = Checkpoint(directory=str(directory), keep=1, config=getattr(parts, "config", None))
    position = {"phase": 0, "step": step, "total": step, "trackers": {}}
    return writer.write(writer.directory, parts, position)


def load(parts: Mapping[str, object], path: str | Path) -> int:
    """Restore a checkpoint of :func:`save`, completely or not at all; return its step.

    Args:
        parts: built from the same config.
        path: a checkpoint, or a directory of checkpoints for the newest one.

    Raises:
        CheckpointError: there is none, or it belongs to other parts.
    """
    saved = open_checkpoint(Path(path))
    # Earlier versions built and saved all nodes of a config.
    skipped: frozenset[str] = getattr(parts, "unused", frozenset()) & saved.nodes()
    step: int = replace(saved, skipped_nodes=skipped).restore(parts)["total"]
    return step
