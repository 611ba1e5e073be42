"""Files that a run reads, and their checks."""

from __future__ import annotations

import ast
import glob
import importlib.util
import os
import re
import sysconfig
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from huggingface_hub import try_to_load_from_cache
from huggingface_hub.errors import HFValidationError

from rlcomp.checkpoint.manifest import MANIFEST
from rlcomp.checkpoint.reader import SavedCheckpoint, open_checkpoint
from rlcomp.config.checks.models import named_models
from rlcomp.config.plan import Plan
from rlcomp.config.source import absolute_module, source_of
from rlcomp.errors import CheckpointError, ConfigError, RlcompWarning
from rlcomp.files.digests import Digests, digest_changes
from rlcomp.run.resume import START_ANEW_REMEDY

# Last words in names of arguments that always hold paths.
_PATHS = (
    *("path", "paths", "folder", "directory", "dir", "file", "files"),
    *("base", "data", "template"),
)
# Paths of the run itself.
_RUN_SETTINGS = ("directory", "resume")
# An argument that names a program: a part of the machine, like its packages.
_PROGRAM = "program"
# Parts whose paths are outputs.
_OUTPUT_TARGETS = (
    "components.replay.",
    "components.sampler_engine.",
    "rlcomp.trackers.",
    "rlcomp.checkpoint.",
)
# Files that are read in the folder of a model, which has no subfolders except for templates.
_MODEL_FILES = ("config.json", "tokenizer_config.json", "tokenizer.json", "adapter_config.json")
_MODEL_SUFFIXES = (".safetensors", ".json", ".jinja", ".model", ".txt", ".tiktoken")
# A class or function, or what gymnasium imports before it makes an environment, "module:Id-v0".
_DOTTED_NAME = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?::[\w./-]+|\.[A-Za-z_]\w*)")
# Packages and folders whose versions are in a checkpoint.
_OURS = ("rlcomp", "components", "hydra_plugins")
_INSTALLED = ("site-packages", "dist-packages")


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
    for name, paths in _named_files(plan, built, directory.resolve()):
        if paths:
            files.setdefault(name, {}).update({str(path): path for path in paths})
    return files


NamedFiles = Iterator[tuple[str, Sequence[Path]]]


def _named_files(plan: Plan, built: Mapping[str, object], run_directory: Path) -> NamedFiles:
    """Yield each name of inputs with its files."""
    for name in named_models(plan).values():
        if not Path(name).exists() and (folder := _hub_cache_folder(name)):
            yield name, _files_in(folder, run_directory)
    for key in plan.tree.keys() - {*_RUN_SETTINGS}:
        yield from _files_of_argument(key, plan.tree[key], run_directory)
    for path, node in plan.nodes.items():
        part = built.get(path)
        yield node.target, source_files(node.target)
        if isinstance(part, HasInputFiles):
            texts = [str(node.arguments[key]) for key in _PATHS if key in node.arguments]
            yield " ".join([path, *texts]), part.input_files
        elif not node.target.startswith(_OUTPUT_TARGETS):
            for key, value in node.arguments.items():
                yield from _files_of_argument(key, value, run_directory)


def _files_of_argument(key: str, value: object, run_directory: Path) -> NamedFiles:
    """Yield the inputs in a value of a config, at any depth outside of parts."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _files_of_argument(key if _is_path(key) else str(name), item, run_directory)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _files_of_argument(key, item, run_directory)
    elif isinstance(value, str) and key != _PROGRAM and "\0" not in value:
        yield value, _files_named_by(value, _is_path(key), run_directory)
        yield value, source_files(value)


def _is_path(key: str) -> bool:
    return key.rpartition("_")[2] in _PATHS


def _files_named_by(text: str, is_path: bool, run_directory: Path) -> list[Path]:
    """Return the files that a text names: one file, a folder of files, or a pattern.

    Args:
        text: a text of a config.
        is_path: True if its argument's name marks a path. Otherwise the text may also be a word
            that happens to be the name of a file, or "/".
        run_directory: directory of the run, which is no input.
    """
    path = os.path.expanduser(text)
    if os.path.isfile(path):
        return [Path(path)] if is_path or os.sep in text or "." in text else []
    if os.path.isdir(path):
        return _files_in(Path(path), run_directory, include_all=is_path)
    matches = sorted(glob.glob(path)) if is_path and any(sign in text for sign in "*?[") else []
    return [Path(match) for match in matches if os.path.isfile(match)]


def _files_in(folder: Path, run_directory: Path, include_all: bool = False) -> list[Path]:
    """Return the input files of a folder: the manifest of a run's newest checkpoint, or a model.

    The run's own directory has none. Any other folder has all its files as inputs with
    ``include_all``, and none without it.
    """
    if folder.resolve() == run_directory:
        return []
    from rlcomp.model.load_model import is_run  # takes half a second: transformers

    if is_run(str(folder)):
        try:  # the manifest holds the digests of all files, and opening compares them
            return [open_checkpoint(folder).path / MANIFEST]
        except CheckpointError:  # the part that reads it refuses it
            return []
    if any((folder / name).is_file() for name in _MODEL_FILES):
        top = [*folder.iterdir(), *(folder / "additional_chat_templates").glob("*.jinja")]
        return sorted(path for path in top if path.suffix in _MODEL_SUFFIXES and path.is_file())
    return _all_files(folder, run_directory) if include_all else []


def _all_files(folder: Path, run_directory: Path) -> list[Path]:
    """Return every file below a folder except hidden ones and files of the run."""
    files: list[Path] = []
    is_in_run = run_directory in folder.resolve().parents
    for parent, folders, names in () if is_in_run else os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if name[0] != "." and Path(parent, name).resolve() != run_directory
        ]
        files += [Path(parent, name) for name in names if name[0] != "."]
    return sorted(path for path in files if path.is_file())


def _hub_cache_folder(name: str) -> Path | None:
    """Return the local cache's folder of a model of the hub."""
    try:
        config = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    return Path(config).parent if isinstance(config, str) else None


def source_files(dotted: str) -> list[Path]:
    """Return the source files of the user's module that holds a name, and of its imports.

    There are none for a text that is no dotted name, and for names of rlcomp, of Python and of
    installed packages.
    """
    if not (match := _DOTTED_NAME.fullmatch(dotted)):
        return []
    files: dict[str, Path] = {}
    pending = [*_prefixes(match[0] if ":" not in dotted else match[1])]
    while pending:
        module = pending.pop()
        if module in files or not _is_own(module.split(".")[0]):
            continue
        try:
            source = source_of(module)
        except ConfigError:  # a class, or a module that does not exist
            continue
        if source is not None:
            files[module] = source[0]
            pending += _imported_in(module, *source)
    return sorted({*files.values()})


def _prefixes(dotted: str) -> Iterator[str]:
    """Yield the packages of a dotted name, which an import runs as well, and the name."""
    words = dotted.split(".")
    return (".".join(words[:end]) for end in range(1, len(words) + 1))


def _is_own(package: str) -> bool:
    """Return whether a top-level package is the user's: not ours, Python's or installed."""
    if package in _OURS:
        return False
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return False
    library = Path(sysconfig.get_path("stdlib")).resolve()
    locations = [spec.origin] if spec.origin else [*(spec.submodule_search_locations or [])]
    paths = [Path(location).resolve() for location in locations]
    return all(
        path.exists() and library not in path.parents and not {*_INSTALLED} & {*path.parts}
        for path in paths
    )


def _imported_in(module: str, path: Path, tree: ast.Module) -> Iterator[str]:
    """Yield the modules that a module may import: each name may be a module or be inside one."""
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                yield from _prefixes(alias.name)
        elif isinstance(statement, ast.ImportFrom):
            source = absolute_module(module, path, statement)
            for alias in statement.names:
                yield from _prefixes(f"{source}.{alias.name}")


# Largest number of changed files in a message.
_MAX_SHOWN = 5


def check_inputs(saved: SavedCheckpoint, current_digests: Digests, accept: bool) -> None:
    """Check that the files of a continued run are the files that it has read so far.

    Args:
        saved: checkpoint to continue from.
        current_digests: digests of the files now.
        accept: only warn.

    Raises:
        CheckpointError: files have changed; the message names them.
    """
    saved_digests: Digests | None = saved.position().get("inputs")
    if saved_digests is None:
        warnings.warn(
            f"{saved.path} is of an earlier version and has no digests of the files that its "
            "config points to: changes of them are not noticed",
            RlcompWarning,
            stacklevel=2,
        )
        return
    changed_files = [*digest_changes(saved_digests, current_digests)]
    if not changed_files:
        return
    more = f" and {len(changed_files) - _MAX_SHOWN} more" if len(changed_files) > _MAX_SHOWN else ""
    message = f"{saved.path}: since the run began, {', '.join(changed_files[:_MAX_SHOWN])}{more}"
    if not accept:
        raise CheckpointError(
            f"{message}: put the files back, go on with the changed ones by "
            f"accept_changed_files=true, or {START_ANEW_REMEDY}"
        )
    warnings.warn(f"{message}: accepted (accept_changed_files=true)", RlcompWarning, stacklevel=2)
