"""Manifest of a checkpoint: format, environment, and size and SHA-256 of every file."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from rlcomp.arguments import NonNegativeInt, PositiveInt
from rlcomp.checkpoint.state_fields import field
from rlcomp.errors import CheckpointError
from rlcomp.files.digests import file_digest
from rlcomp.files.environment import environment
from rlcomp.files.untrusted import read_json

# Version of the format; checkpoints of other versions are refused.
FORMAT = 1
# Limits of an environment: entries, and characters of each.
_MAX_ENTRIES, _MAX_CHARACTERS = 64, 200
# A message lists at most this many checkpoints, the newest.
_LISTED = 8
MANIFEST = "manifest.json"
TENSORS, STATE, CONFIG = "tensors.safetensors", "state.json", "config.yaml"


def write_manifest(directory: Path) -> None:
    """Write the manifest of the files in a directory."""
    files = sorted(directory.iterdir())
    manifest = {
        "format": FORMAT,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "environment": environment(),
        "files": {path.name: [path.stat().st_size, file_digest(path)] for path in files},
    }
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=1))


def check_files(path: Path) -> None:
    """Check that a checkpoint has exactly the files of its manifest, unchanged.

    Raises:
        CheckpointError: the folder is missing or has a link, or a file is missing, changed, not
            of this checkpoint or of another format.
    """
    _check_folder(path)
    listed = _read_manifest(path / MANIFEST)
    for name in sorted(file.name for file in path.iterdir()):
        if name not in (*listed, MANIFEST):
            raise CheckpointError(f"{path / name} is not of this checkpoint: move it elsewhere")
    for name, (size, checksum) in listed.items():
        file = path / name
        if not file.is_file():
            raise CheckpointError(f"{file} is missing")
        if file.stat().st_size != size or file_digest(file) != checksum:
            raise CheckpointError(f"{file} is not what was written: size or checksum differ")


def _check_folder(path: Path) -> None:
    """Check that a folder exists, and that neither it nor an entry is a link (it is untrusted)."""
    if not path.exists() and path.parent.is_dir():
        names = sorted(entry.name for entry in path.parent.glob("step-*"))[-_LISTED:]
        raise CheckpointError(
            f"{path} is not there; {path.parent} has {', '.join(names) or 'no checkpoint'}"
        )
    if path.is_symlink() or not path.is_dir():
        raise CheckpointError(f"{path} is not a directory: a checkpoint is a directory, not a link")
    for file in sorted(path.iterdir()):
        if not stat.S_ISREG(file.lstat().st_mode):
            raise CheckpointError(f"{file} is a link or no file: a checkpoint consists of files")


def _read_manifest(file: Path) -> dict[str, tuple[int, str]]:
    """Return size and digest of every file of a checkpoint."""
    if not file.is_file():
        raise CheckpointError(f"{file} is missing")
    manifest = read_json(file)
    try:
        version = field(manifest, "format", PositiveInt)
        if version != FORMAT:
            raise CheckpointError(
                f"format {version}, this version reads format {FORMAT}: take the rlcomp that wrote "
                "it"
            )
        field(manifest, "torch", str)
        field(manifest, "threads", PositiveInt)
        _environment(manifest)
        listed = field(manifest, "files", dict)
        if not {TENSORS, STATE} <= listed.keys() <= {TENSORS, STATE, CONFIG}:
            raise CheckpointError(f"'files' are {', '.join(listed)[:100]}")
        return {name: _size_and_digest(listed, name) for name in listed}
    except CheckpointError as error:
        raise CheckpointError(f"{file}: {error}") from None


def read_environment(path: Path) -> dict[str, str]:
    """Return the environment of the run that wrote a checkpoint.

    A checkpoint of version 0.1 has the entries ``torch`` and ``threads`` only.
    """
    return _environment(read_json(path / MANIFEST))


def _environment(manifest: Mapping[str, Any]) -> dict[str, str]:
    entries_of_0_1 = {name: str(manifest[name]) for name in ("torch", "threads")}
    entries: dict[str, str] = field(
        {"environment": entries_of_0_1, **manifest}, "environment", dict[str, str]
    )
    if len(entries) > _MAX_ENTRIES or any(len(text) > _MAX_CHARACTERS for text in entries.values()):
        raise CheckpointError("'environment' is longer than rlcomp writes it")
    return entries


def _size_and_digest(listed: dict[str, Any], name: str) -> tuple[int, str]:
    entry: Sequence[Any] = field(listed, name, tuple[NonNegativeInt, str])
    size, checksum = entry
    if not re.fullmatch("[0-9a-f]{64}", checksum):
        raise CheckpointError(f"the checksum of '{name}' is {checksum!r:.60}: no SHA-256")
    return size, checksum
