"""Lean backend of lean-dojo: theorems of a traced repository."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from rlcomp.arguments import Checked, NonEmptyText, PositiveInt
from rlcomp.errors import ConfigError, DataError, in_one_line
from rlcomp.interfaces.task import Example
from rlcomp.prover.lean import LeanState

_PROGRAMS = ("git", "lake", "lean")
# With this variable, lean-dojo contacts GitHub on import.
_TOKEN = "GITHUB_ACCESS_TOKEN"


def lean_dojo() -> Any:  # noqa: ANN401
    """Import lean-dojo and return it; the import takes seconds and resets loguru's logger.

    Raises:
        ConfigError: the package or one of its programs is missing.
    """
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        raise ConfigError(
            f"lean_backend=dojo needs {' and '.join(missing)} in PATH: install git and elan "
            "(https://lean-lang.org/install), which brings lake and lean; without them "
            "lean_backend=wasm checks files, lean_backend=replay replays recordings"
        )
    return _import()


def _import() -> Any:  # noqa: ANN401
    token = os.environ.pop(_TOKEN, None)
    try:
        import lean_dojo as package
    except (ImportError, OSError, AssertionError) as error:
        raise ConfigError(
            f"lean_backend=dojo: lean-dojo cannot be imported ({in_one_line(error)}): pip install "
            "lean-dojo, on Python below 3.13, with git 2.25 or later"
        ) from error
    finally:
        if token is not None:
            os.environ[_TOKEN] = token
    return package


class DojoLean(metaclass=Checked):
    """Lean backend for theorems of a repository: columns ``file_path`` and ``full_name``.

    lean-dojo traces the repository first, which takes hours for Mathlib. A tactic that takes too
    long ends the process, because lean-dojo would read its late reply as the reply to the next
    tactic. A proof counts only if Lean accepts the whole file (``check_proof``), because a tactic
    that prints can forge lean-dojo's protocol.

    Args:
        url: address of the repository.
        commit: hash of the commit.
        timeout: limit of a tactic, in seconds.

    Source:
        Yang et al. 2023 (LeanDojo), arXiv:2306.15626; lean-dojo 4.20.
    """

    def __init__(
        self, *, url: NonEmptyText, commit: NonEmptyText, timeout: PositiveInt = 60
    ) -> None:
        self.package: Any = None
        self.url = url
        self.commit = commit
        self.timeout = timeout
        self.session: AbstractContextManager[Any] | None = None
        self.dojo: Any = None
        self.theorem: Any = None

    def start(self, example: Example) -> LeanState:
        """Begin the proof of an example's theorem; return its first state.

        Raises:
            ConfigError: lean-dojo or one of its programs is missing.
            DataError: the columns are missing, or lean-dojo cannot begin the theorem.
        """
        self.close()
        self.package = self.package or lean_dojo()
        names = [example.columns.get(name) for name in ("file_path", "full_name")]
        if not all(isinstance(name, str) for name in names):
            raise DataError(
                f"example {example.prompt!r:.60} has no columns file_path and full_name, which "
                "lean_backend=dojo needs"
            )
        repo = self.package.LeanGitRepo(self.url, self.commit)
        self.theorem = self.package.Theorem(repo, *names)
        self.session = self.package.Dojo(self.theorem, timeout=self.timeout)
        try:
            self.dojo, first = self.session.__enter__()
        except self.package.DojoInitError as error:
            self.session = None
            raise DataError(f"{names[1]}: lean-dojo cannot begin it: {error}") from error
        return LeanState(str(names[1]), _goals(first.pp), handle=first)

    def run(self, state: LeanState, tactic: str) -> LeanState | str:
        """Return the state after a tactic, or Lean's error message.

        Raises:
            TimeoutError: the tactic took too long.
            ChildProcessError: Lean has crashed, or has ended before.
        """
        if self.dojo is None:
            raise ChildProcessError("Lean's process of this proof has ended")
        package = self.package
        try:
            result = self.dojo.run_tac(state.handle, tactic)
        except package.DojoTacticTimeoutError as error:
            self.close()
            raise TimeoutError(
                f"tactic {tactic!r:.60} took longer than {self.timeout} s"
            ) from error
        except package.DojoCrashError as error:
            self.close()
            raise ChildProcessError(f"Lean has crashed: {error}") from error
        return self._parse(result, state, tactic)

    def _parse(self, result: Any, state: LeanState, tactic: str) -> LeanState | str:  # noqa: ANN401
        package, tactics = self.package, (*state.tactics, tactic)
        if isinstance(result, package.LeanError):
            return str(result.error)
        if isinstance(result, package.ProofGivenUp):
            return "the proof contains sorry"
        if isinstance(result, package.ProofFinished):
            return LeanState(state.statement, (), tactics, completed=True)
        return LeanState(state.statement, _goals(result.pp), tactics, handle=result)

    def rejection(self, state: LeanState) -> str:
        """Return why ``check_proof``, in a new process, rejects the file; '' if it accepts."""
        lines = [line for tactic in state.tactics for line in tactic.split("\n")]
        check: Callable[[Any, str], bool] = self.package.check_proof
        accepted = check(self.theorem, "\n  ".join(["by", *lines]))
        return "" if accepted else "Lean does not accept the file"

    def close(self) -> None:
        """End Lean's process."""
        if self.session is not None:
            self.session.__exit__(None, None, None)
        self.session = self.dojo = None


def _goals(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split("\n\n") if "⊢" in part)
