"""The parts of a recipe, for loops of one's own: build, save and load them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from omegaconf import OmegaConf

from rlcomp.errors import ConfigError, ConfigErrors, nearest
from rlcomp.io.checkpoint import Checkpoint
from rlcomp.io.saved import open_checkpoint
from rlcomp.run.launch import device, place_on
from rlcomp.wiring.build import Builder
from rlcomp.wiring.composition import compose_or_explain
from rlcomp.wiring.resolve import added, check_used, plan_of, traced_errors


class Parts(dict[str, object]):
    """The nodes of a config by their paths: ``parts["policy"]``, ``parts["learner"]``.

    Attributes:
        config: the text of the config.
    """

    config: str | None = None

    def __missing__(self, name: str) -> NoReturn:
        """Refuse, with the most alike of the parts."""
        raise KeyError(f"no part {name!r}{nearest(name, self)}")

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse: parts are items, and a run of all is the command line's."""
        raise AttributeError(
            f"Parts have no {name!r}: a part is parts['learner'], and a whole run is the command "
            "line's, rlcomp recipe=NAME; docs/kernel.md has a loop of one's own"
        )


def build(*overrides: str, config_dirs: Sequence[str] = (), **settings: object) -> Parts:
    """The parts of a recipe, checked and built as the command line does it.

    Args:
        overrides: as on the command line: ``"recipe=rloo"``, ``"seed=1"``.
        config_dirs: directories of your own configs.
        settings: none; names of settings hold dots, so that they are written as texts.

    Raises:
        ConfigErrors: what ``rlcomp`` would refuse.
    """
    if settings or not all(isinstance(word, str) for word in overrides):
        raise ConfigError(_as_texts(overrides, settings))
    config = compose_or_explain(overrides, config_dirs)
    if faults := check_used(config, added(overrides), overrides):
        raise ConfigErrors(faults)
    plan = plan_of(config, overrides)
    with traced_errors(plan, overrides):
        parts = Parts(Builder(plan, int(config.seed)).all())
    parts.config = OmegaConf.to_yaml(config)
    place_on(device(str(config.device)), parts)
    return parts


def _as_texts(words: Sequence[object], settings: Mapping[str, object]) -> str:
    """What to write for settings that were given as keywords, mappings or lists of texts."""
    given = [*settings.items()]
    texts = list[str]()
    for word in words:
        if isinstance(word, Mapping):
            given += word.items()
        else:
            texts += map(str, word) if isinstance(word, (list, tuple)) else [str(word)]
    texts += [f"{name}={_written(value)}" for name, value in given]
    shown = ", ".join(repr(text) for text in texts)
    return f"build: overrides are texts, as on the command line: build({shown:.300})"


def _written(value: object) -> str:
    """A value as the command line writes it."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def save(parts: Mapping[str, object], directory: str | Path, step: int) -> Path:
    """Save all that the next step depends on: weights, optimisers, generators, counters.

    Args:
        parts: by name.
        directory: is made.
        step: how many have been taken; names the checkpoint.

    Returns:
        The checkpoint, a folder; of parts of :func:`build`, ``rlcomp-sample`` and
        ``rlcomp-export`` read it.

    Raises:
        CheckpointError: it cannot be written.
    """
    writer = Checkpoint(directory=str(directory), keep=1, config=getattr(parts, "config", None))
    place = {"phase": 0, "step": step, "total": step, "trackers": {}}
    return writer.write(writer.directory, parts, place)


def load(parts: Mapping[str, object], path: str | Path) -> int:
    """Restore what :func:`save` wrote, all of it or nothing; give its step.

    Args:
        parts: built alike.
        path: a checkpoint, or the directory of several for the newest one.

    Raises:
        CheckpointError: there is none, or it is of other parts.
    """
    step: int = open_checkpoint(Path(path)).restore(parts)["total"]
    return step
