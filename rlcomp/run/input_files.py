"""Files that a run reads, and their checks."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from huggingface_hub import try_to_load_from_cache
from huggingface_hub.errors import HFValidationError

from rlcomp.checkpoint.manifest import MANIFEST
from rlcomp.checkpoint.reader import SavedCheckpoint, open_checkpoint
from rlcomp.config.base_model import named_models
from rlcomp.config.plan import Plan
from rlcomp.config.source_files import source_files
from rlcomp.errors import CheckpointError, RlcompWarning
from rlcomp.files.digests import Digests, digest_changes
from rlcomp.run.resume import ANEW

# Last words in names of arguments that always hold paths.
_PATHS = (
    *("path", "paths", "folder", "directory", "dir", "file", "files"),
    *("base", "data", "template"),
)
# Paths of the run itself.
_SETTINGS = ("directory", "resume")
# An argument that names a program: a part of the machine, like its packages.
_PROGRAM = "program"
# Parts whose paths are outputs.
_WRITERS = (
    "components.replay.",
    "components.sampler_engine.",
    "rlcomp.trackers.",
    "rlcomp.checkpoint.",
)
# Files that are read in the folder of a model, which has no subfolders except for templates.
_OF_MODELS = ("config.json", "tokenizer_config.json", "tokenizer.json", "adapter_config.json")
_MODEL_SUFFIXES = (".safetensors", ".json", ".jinja", ".model", ".txt", ".tiktoken")


@runtime_checkable
class HasInputFiles(Protocol):
    """A part that reads files other than those in its arguments."""

    input_files: Sequence[Path]


def input_files(
    plan: Plan, built: Mapping[str, object], directory: Path
) -> dict[str, dict[str, Path]]:
    """Return the files of a config, by the text or the part that names them.

    These are all texts that are paths of files or folders, and the sources of the user's classes
    and functions together with the user's modules that they import.

    Args:
        plan: plan of the run.
        built: its parts, as far as they are built.
        directory: directory of the run, which is no input.
    """
    files: dict[str, dict[str, Path]] = {}
    for name, paths in _named(plan, built, directory.resolve()):
        if paths:
            files.setdefault(name, {}).update({str(path): path for path in paths})
    return files


Named = Iterator[tuple[str, Sequence[Path]]]


def _named(plan: Plan, built: Mapping[str, object], own: Path) -> Named:
    """Yield each name of inputs with its files."""
    for name in named_models(plan).values():
        if not Path(name).exists() and (folder := _cached(name)):
            yield name, _files_in(folder, own)
    for key in plan.tree.keys() - {*_SETTINGS}:
        yield from _of_argument(key, plan.tree[key], own)
    for path, node in plan.nodes.items():
        part = built.get(path)
        yield node.target, source_files(node.target)
        if isinstance(part, HasInputFiles):
            texts = [str(node.arguments[key]) for key in _PATHS if key in node.arguments]
            yield " ".join([path, *texts]), part.input_files
        elif not node.target.startswith(_WRITERS):
            for key, value in node.arguments.items():
                yield from _of_argument(key, value, own)


def _of_argument(key: str, value: object, own: Path) -> Named:
    """Yield the inputs in a value of a config, at any depth outside of parts."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _of_argument(key if _is_path(key) else str(name), item, own)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _of_argument(key, item, own)
    elif isinstance(value, str) and key != _PROGRAM and "\0" not in value:
        yield value, _files_of(value, _is_path(key), own)
        yield value, source_files(value)


def _is_path(key: str) -> bool:
    return key.rpartition("_")[2] in _PATHS


def _files_of(text: str, is_path: bool, own: Path) -> list[Path]:
    """Return the files that a text names: one file, a folder of files, or a pattern.

    Args:
        text: a text of a config.
        is_path: True if its argument's name marks a path. Otherwise the text may also be a word
            that happens to be the name of a file, or "/".
        own: the run's directory.
    """
    path = os.path.expanduser(text)
    if os.path.isfile(path):
        return [Path(path)] if is_path or os.sep in text or "." in text else []
    if os.path.isdir(path):
        return _files_in(Path(path), own, whole=is_path)
    matches = sorted(glob.glob(path)) if is_path and any(sign in text for sign in "*?[") else []
    return [Path(one) for one in matches if os.path.isfile(one)]


def _files_in(folder: Path, own: Path, whole: bool = False) -> list[Path]:
    """Return the input files of a folder: a run's newest checkpoint, a model, or the ``whole``."""
    if folder.resolve() == own:
        return []
    from rlcomp.model.load_model import is_run  # takes half a second: transformers

    if is_run(str(folder)):
        try:  # the manifest holds the digests of all files, and opening compares them
            return [open_checkpoint(folder).path / MANIFEST]
        except CheckpointError:  # the part that reads it refuses it
            return []
    if any((folder / name).is_file() for name in _OF_MODELS):
        top = [*folder.iterdir(), *(folder / "additional_chat_templates").glob("*.jinja")]
        return sorted(path for path in top if path.suffix in _MODEL_SUFFIXES and path.is_file())
    return _all_in(folder, own) if whole else []


def _all_in(folder: Path, own: Path) -> list[Path]:
    """Return every file below a folder except hidden ones and files of the run."""
    files: list[Path] = []
    inside = own in folder.resolve().parents
    for where, folders, names in () if inside else os.walk(folder):
        folders[:] = [
            name for name in folders if name[0] != "." and Path(where, name).resolve() != own
        ]
        files += [Path(where, name) for name in names if name[0] != "."]
    return sorted(path for path in files if path.is_file())


def _cached(name: str) -> Path | None:
    """Return the local cache's folder of a model of the hub."""
    try:
        config = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    return Path(config).parent if isinstance(config, str) else None


# Largest number of changed files in a message.
_SHOWN = 5


def check_inputs(saved: SavedCheckpoint, now: Digests, accept: bool) -> None:
    """Check that the files of a continued run are the files that it has read so far.

    Args:
        saved: checkpoint to continue from.
        now: digests of the files.
        accept: only warn.

    Raises:
        CheckpointError: files have changed; the message names them.
    """
    then: Digests | None = saved.place().get("inputs")
    if then is None:
        warnings.warn(
            f"{saved.path} is of an earlier version and has no digests of the files that its "
            "config points to: changes of them are not noticed",
            RlcompWarning,
            stacklevel=2,
        )
        return
    changed_files = [*digest_changes(then, now)]
    if not changed_files:
        return
    more = f" and {len(changed_files) - _SHOWN} more" if len(changed_files) > _SHOWN else ""
    message = f"{saved.path}: since the run began, {', '.join(changed_files[:_SHOWN])}{more}"
    if not accept:
        raise CheckpointError(
            f"{message}: put the files back, go on with the changed ones by "
            f"accept_changed_files=true, or {ANEW}"
        )
    warnings.warn(f"{message}: accepted (accept_changed_files=true)", RlcompWarning, stacklevel=2)
