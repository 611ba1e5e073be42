"""Readers of untrusted files: bounded bytes, strict JSON, and yaml as plain values."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from omegaconf import DictConfig
from omegaconf._utils import get_yaml_loader
from omegaconf.errors import OmegaConfBaseException

from rlcomp.errors import CheckpointError

# Bytes. The state of a run beside its tensors has some kilobytes.
LARGEST = 1 << 28


def read_json(file: Path) -> Any:  # noqa: ANN401
    """Return the value in a JSON file.

    Raises:
        CheckpointError: the file is no JSON, larger than 256 MiB or too deep, or an object has a
            name twice.
    """
    try:
        return parse_json(read_bounded(file, LARGEST))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is not what was written: {error}") from error


def read_bounded(file: Path, largest: int) -> bytes:
    """Return the bytes of an untrusted file, which may be a link to ``/dev/zero``.

    Raises:
        ValueError: it is no file, or larger.
    """
    if file.exists() and not file.is_file():
        raise ValueError("it is no file")
    with file.open("rb") as opened:
        content = opened.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"it is larger than {largest:,} bytes")
    return content


def parse_json(text: bytes, constant: Callable[[str], float] = float) -> Any:  # noqa: ANN401
    """Return the value in a JSON text.

    Args:
        text: the text.
        constant: converts ``NaN``, ``Infinity`` and ``-Infinity``, which Python's JSON accepts.

    Raises:
        ValueError: the text is no JSON, or an object has a name twice.
    """
    return json.loads(text.decode("utf-8"), object_pairs_hook=_object, parse_constant=constant)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"it has {twice!r:.60} twice")
    return values


# A config of ours has some ten kilobytes, and ten levels.
_LARGEST = 1 << 20
_DEEPEST = 40
_ALIAS = re.compile(r"(?:^|[\s\[{,:-])\*[^\s*]")
# An interpolation that only refers: ${model}, ${task.length}. All others call a resolver. Its name
# may be an interpolation itself: ${oc.env:SECRET}, ${${name}:SECRET}.
_REFERENCE = re.compile(r"\$\{[\w.\[\]]+\}")


def read_saved_config(file: Path, trust: bool = False) -> DictConfig:
    """Return a config that was written beside a checkpoint or into a run's directory.

    It is read as plain values: no tags and no anchors (they can unfold without end). Resolvers are
    allowed only with ``trust``: one reads the environment.

    Raises:
        CheckpointError: the file is no such config; names the file and the fault.
    """
    try:
        text = read_bounded(file, _LARGEST).decode("utf-8")
        config = yaml.load(text, _Plain)
        if not isinstance(config, dict):
            raise TypeError("it is no mapping")
        if not trust:
            _refuse_resolvers(config, "")
        return DictConfig(config)
    except (
        OSError,
        RecursionError,
        TypeError,
        ValueError,
        OmegaConfBaseException,
        yaml.YAMLError,
    ) as error:
        fault = " ".join(str(error).split())[:300] or type(error).__name__
        raise CheckpointError(f"{file} is no config that rlcomp wrote: {fault}") from error


def check_plain(file: Path) -> None:
    """Refuse the yaml of a run before it is loaded, if it unfolds without end.

    Raises:
        CheckpointError: it has an alias (``*name``), is too large, or cannot be read.
    """
    try:
        text = read_bounded(file, _LARGEST).decode("utf-8")
        # The regular expression is fast; a scan takes as long as loading.
        if _ALIAS.search(text) and any(isinstance(t, yaml.AliasToken) for t in yaml.scan(text)):
            raise ValueError("it has anchors")
    except (OSError, ValueError, yaml.YAMLError) as error:
        fault = " ".join(str(error).split())[:300]
        raise CheckpointError(f"{file} is no config that rlcomp wrote: {fault}") from error


class _Plain(get_yaml_loader()):  # type: ignore[misc]
    """Loader of plain values: refuses anchors and deep nesting, and reads no tag."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401
        if self.check_event(yaml.AliasEvent):
            raise ValueError("it has anchors")
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ValueError(f"it is more than {_DEEPEST} levels deep")
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def _refuse_resolvers(value: object, where: str) -> None:
    if isinstance(value, str) and "${" in _REFERENCE.sub("", value):
        raise ValueError(
            f"{where} is {value!r}, which calls a resolver: allow it with trust=true "
            "(rlcomp-sample, rlcomp-replay: --trust)"
        )
    items = dict(enumerate(value)) if isinstance(value, list) else value
    for key, item in items.items() if isinstance(items, dict) else ():
        _refuse_resolvers(item, f"{where}.{key}" if where else str(key))
