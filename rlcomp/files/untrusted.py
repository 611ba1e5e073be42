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

# A limit against exhausted memory: the JSON state of a run has some kilobytes.
MAX_JSON_BYTES = 1 << 28


def read_json(file: Path) -> Any:  # noqa: ANN401
    """Return the value in a JSON file.

    Raises:
        CheckpointError: the file cannot be read, is larger than 256 MiB, is not JSON or is nested
            too deeply, or an object repeats a name.
    """
    try:
        return parse_json(read_bounded(file, MAX_JSON_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is not what was written: {error}") from error


def read_bounded(file: Path, limit: int) -> bytes:
    """Return the bytes of an untrusted file; it may be endless, such as a link to ``/dev/zero``.

    Raises:
        ValueError: the path is not a file, or the file is larger than ``limit`` bytes.
        OSError: the file is missing or cannot be read.
    """
    if file.exists() and not file.is_file():
        raise ValueError("it is not a file")
    with file.open("rb") as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"it is larger than {limit:,} bytes")
    return content


def parse_json(text: bytes, constant: Callable[[str], float] = float) -> Any:  # noqa: ANN401
    """Return the value in a JSON text.

    ``constant`` converts ``NaN``, ``Infinity`` and ``-Infinity``, by default to floats; standard
    JSON has none of them.

    Raises:
        ValueError: the text is not JSON, or an object repeats a name.
        RecursionError: the text is nested too deeply.
    """
    return json.loads(
        text.decode("utf-8"), object_pairs_hook=_unique_names, parse_constant=constant
    )


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object as a dict.

    Raises:
        ValueError: a name occurs twice.
    """
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"it has {twice!r:.60} twice")
    return values


# Configs of rlcomp have about ten kilobytes and ten levels.
_MAX_YAML_BYTES = 1 << 20
_MAX_DEPTH = 40
_ALIAS = re.compile(r"(?:^|[\s\[{,:-])\*[^\s*]")
# A reference: ${model}, ${task.length}. All other interpolations call a resolver, whose name may be
# an interpolation itself: ${oc.env:SECRET}, ${${name}:SECRET}.
_REFERENCE = re.compile(r"\$\{[\w.\[\]]+\}")


def read_saved_config(file: Path, trust: bool = False) -> DictConfig:
    """Return the saved config of a run, read as plain values.

    Aliases are refused, because they can expand without limit. Tags can name plain values and paths
    only. Resolvers are allowed only with ``trust``, because ``oc.env`` reads the environment.

    Raises:
        CheckpointError: the file cannot be read, is larger than 1 MiB or is nested too deeply, has
            an alias or a resolver, or is no mapping.
    """
    try:
        text = read_bounded(file, _MAX_YAML_BYTES).decode("utf-8")
        config = yaml.load(text, _PlainLoader)
        if not isinstance(config, dict):
            raise TypeError("it is not a mapping")
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
        raise CheckpointError(f"{file} is not a config that rlcomp wrote: {fault}") from error


def check_no_aliases(file: Path) -> None:
    """Check that the yaml of a run has no aliases, because they can expand without limit.

    Raises:
        CheckpointError: the file has an alias (``*name``), is too large, or cannot be read.
    """
    try:
        text = read_bounded(file, _MAX_YAML_BYTES).decode("utf-8")
        # The regular expression is fast; a scan takes as long as loading.
        if _ALIAS.search(text) and any(
            isinstance(token, yaml.AliasToken) for token in yaml.scan(text)
        ):
            raise ValueError("it has anchors")
    except (OSError, ValueError, yaml.YAMLError) as error:
        fault = " ".join(str(error).split())[:300]
        raise CheckpointError(f"{file} is not a config that rlcomp wrote: {fault}") from error


class _PlainLoader(get_yaml_loader()):  # type: ignore[misc]
    """Loader of plain values that refuses aliases and deep nesting."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401
        if self.check_event(yaml.AliasEvent):
            raise ValueError("it has anchors")
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise ValueError(f"it is more than {_MAX_DEPTH} levels deep")
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def _refuse_resolvers(value: object, path: str) -> None:
    if isinstance(value, str) and "${" in _REFERENCE.sub("", value):
        raise ValueError(
            f"{path} is {value!r} and calls a resolver: allow it with trust=true "
            "(rlcomp-sample, rlcomp-replay: --trust)"
        )
    items = dict(enumerate(value)) if isinstance(value, list) else value
    for key, item in items.items() if isinstance(items, dict) else ():
        _refuse_resolvers(item, f"{path}.{key}" if path else str(key))
