"""Jobs of the sandbox and their limits."""

from __future__ import annotations

from dataclasses import dataclass

from rlcomp.errors import ConfigError

MEBIBYTE = 1 << 20
_MIN_MEMORY = 64 * MEBIBYTE  # Python itself takes about half of it

_CELL = """\
import ast
tree = ast.parse({source!r}, "<cell>")
last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
names = {{"__name__": "__main__"}}
exec(compile(tree, "<cell>", "exec"), names)
value = last and eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
if value is not None:
    print(repr(value))
"""


@dataclass(frozen=True)
class Limits:
    """Limits of one program.

    Args:
        wall: wall-clock seconds after which all processes of the job are killed.
        cpu: CPU seconds after which a process of the program is killed; rounded up.
        memory: bytes of address space of each process, at least 64 MiB.
        output: bytes of standard output, of standard error, of the returned values, and of each
            file.
        disk: bytes of /tmp, the only writable folder (tier ``strict``; other tiers have none).
        tasks: maximum number of threads and processes at the same time (tier ``strict``; other
            tiers allow one). Without ``fork`` only threads are allowed, and ``memory`` limits all
            of them together.
        fork: whether the program may create processes and execute files (tier ``strict`` only).

    Raises:
        ConfigError: a limit is not a finite number above 0, or ``memory`` is below 64 MiB.
    """

    wall: float = 5.0
    cpu: float = 5.0
    memory: int = 512 * MEBIBYTE
    output: int = MEBIBYTE
    disk: int = 16 * MEBIBYTE
    tasks: int = 32
    fork: bool = False

    def __post_init__(self) -> None:
        """Check the limits."""
        for name in ("wall", "cpu", "memory", "output", "disk", "tasks"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise ConfigError(f"limits.{name}={value}: must be a finite number above 0")
        if self.memory < _MIN_MEMORY:
            raise ConfigError(
                f"limits.memory={self.memory}: must be at least {_MIN_MEMORY}, for Python itself"
            )


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class StdioJob:
    """Program that reads standard input and writes standard output.

    Args:
        source: Python source.
        stdin: the whole input.
        limits: limits of the program.
    """

    source: str
    stdin: str = ""
    limits: Limits = DEFAULT_LIMITS


def notebook_cell(code: str) -> str:
    """Return a program that runs code and prints the ``repr`` of a last expression, if not None."""
    return _CELL.format(source=code)


@dataclass(frozen=True)
class CallsJob:
    """Calls of a function, or evaluations of an expression, with many inputs.

    Args:
        source: Python that defines the function; with ``names`` an expression of these names.
        inputs: arguments of each call, as the text of a tuple (:mod:`rlcomp.sandbox.plain_data`).
        entry_point: name of the function; unused with ``names``.
        names: the variables of an expression.
        limits: limits of all calls together.
    """

    source: str
    inputs: tuple[str, ...]
    entry_point: str = ""
    names: tuple[str, ...] = ()
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True)
class CheckJob:
    """Function in one source text, with tests in other source texts.

    Args:
        candidate_source: Python that defines the function.
        test_sources: Python texts that call the function by its name or as ``candidate``; each text
            is one test. If a text defines ``check``, ``check(candidate)`` is the last test.
        entry_point: name of the function.
        limits: limits of each of the two programs.
    """

    candidate_source: str
    test_sources: tuple[str, ...]
    entry_point: str
    limits: Limits = DEFAULT_LIMITS


Job = StdioJob | CallsJob | CheckJob
