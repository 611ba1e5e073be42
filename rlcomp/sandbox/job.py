"""What the sandbox is asked to run: jobs and their limits."""

from __future__ import annotations

from dataclasses import dataclass

from rlcomp.errors import ConfigError

MEBIBYTE = 1 << 20
_PYTHON = 64 * MEBIBYTE


@dataclass(frozen=True)
class Limits:
    """What one program may use.

    Args:
        wall: seconds until everything of the job is killed.
        cpu: seconds of the CPU until the program is killed; rounded up.
        memory: bytes of address space of each process; Python itself takes some 30 MiB of it.
        output: bytes of standard output, of standard error, of the values that come back, and of
            any one file.
        disk: bytes of /tmp, the one place to write to (tier ``strict``; in ``portable`` there is
            none).
        tasks: threads and processes at a time (``strict``; one in ``portable``). Without ``fork``
            they are threads, and ``memory`` bounds all of them together.
        fork: whether it may make processes and execute files (``strict`` only).
    """

    wall: float = 5.0
    cpu: float = 5.0
    memory: int = 512 * MEBIBYTE
    output: int = MEBIBYTE
    disk: int = 16 * MEBIBYTE
    tasks: int = 32
    fork: bool = False

    def __post_init__(self) -> None:
        """Refuse what nothing can run in."""
        for name in ("wall", "cpu", "memory", "output", "disk", "tasks"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise ConfigError(f"limits.{name}={value}: a finite number above 0")
        if self.memory < _PYTHON:
            told = f"limits.memory={self.memory}: Python itself needs {_PYTHON}"
            raise ConfigError(told)


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class StdioJob:
    """A program that reads standard input and writes standard output.

    Args:
        source: Python.
        stdin: all of its input.
        limits: of it.
    """

    source: str
    stdin: str = ""
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True)
class CallsJob:
    """A function, or an expression, at many inputs.

    Args:
        source: Python that defines the function; with ``names`` an expression of these names.
        inputs: the arguments of each call: a tuple's text (:mod:`rlcomp.sandbox.plain_data`).
        entry_point: the function; unused with ``names``.
        names: of an expression.
        limits: of all calls together.
    """

    source: str
    inputs: tuple[str, ...]
    entry_point: str = ""
    names: tuple[str, ...] = ()
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True)
class CheckJob:
    """A function of one source, tested by another.

    Args:
        candidate_source: Python that defines the function.
        test_sources: Python that calls the function by its name or as ``candidate``; each is one
            test. If they define ``check``, ``check(candidate)`` is the last one.
        entry_point: the function.
        limits: of each of the two programs.
    """

    candidate_source: str
    test_sources: tuple[str, ...]
    entry_point: str
    limits: Limits = DEFAULT_LIMITS


Job = StdioJob | CallsJob | CheckJob
