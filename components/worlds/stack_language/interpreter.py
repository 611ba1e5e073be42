"""Interpreter of a stack language with twelve commands on a stack of digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rlcomp.errors import DataError

# By command: the number of digits that it takes from the top, and its results modulo 10.
_OPERATIONS: dict[str, tuple[int, Callable[..., tuple[int, ...]]]] = {
    "i": (1, lambda a: (a + 1,)),
    "k": (1, lambda a: (a - 1,)),
    "t": (1, lambda a: (3 * a,)),
    "a": (2, lambda a, b: (a + b,)),
    "m": (2, lambda a, b: (a * b,)),
    "d": (1, lambda a: (a, a)),
    "s": (2, lambda a, b: (b, a)),
    "o": (2, lambda a, b: (a, b, a)),
    "r": (3, lambda a, b, c: (b, c, a)),
    "p": (1, lambda _: ()),
}
COMMANDS = (*_OPERATIONS, "[", "]")


class ProgramError(Exception):
    """Error of a program that cannot run to its end, with a short reason."""


def run_program(
    program: str, stack: Sequence[int], *, max_steps: int = 100, max_depth: int = 16
) -> list[int]:
    """Run a program and return the final stack, its top last.

    ``i`` increments the top, ``k`` decrements it, ``t`` triples it; ``a`` adds the two on top,
    ``m`` multiplies them; ``d`` duplicates the top, ``p`` pops it, ``s`` swaps the two on top,
    ``o`` copies the second onto the top, ``r`` moves the third to the top. ``[`` and ``]`` repeat
    the commands between them while the top is not 0. All digits are modulo 10.

    Args:
        program: commands, one character each.
        stack: initial digits, the top last.
        max_steps: most commands to run, brackets included.
        max_depth: most digits on the stack.

    Raises:
        ProgramError: a character is no command, brackets do not match, the stack is empty or too
            deep, or there are too many steps.

    Examples:
        >>> run_program("ist", [3, 7]), run_program("d[k]", [3])
        ([8, 9], [3, 0])
    """
    partner = _partners(program)
    stack, place = [*stack], 0
    for _ in range(max_steps):
        if place >= len(program):
            return stack
        place = _stepped(program[place], place, stack, partner)
        if len(stack) > max_depth:
            raise ProgramError(f"more than {max_depth} digits")
    if place >= len(program):
        return stack
    raise ProgramError(f"more than {max_steps} steps")


def _stepped(command: str, place: int, stack: list[int], partner: dict[int, int]) -> int:
    """Run one command and return the place of the next one."""
    if command in "[]":
        if not stack:
            raise ProgramError(f"{command} needs {_counted(1)}")
        again = (command == "[") == (stack[-1] == 0)
        return (partner[place] if again else place) + 1
    taken, operation = _OPERATIONS[command]
    if len(stack) < taken:
        raise ProgramError(f"{command} needs {_counted(taken)}")
    rest, top = stack[: len(stack) - taken], stack[len(stack) - taken :]
    stack[:] = [*rest, *(value % 10 for value in operation(*top))]
    return place + 1


def _counted(digits: int) -> str:
    return f"{digits} digits" if digits > 1 else "a digit"


def _partners(program: str) -> dict[int, int]:
    """Check that every character is a command; return each bracket's partner by place."""
    partner, opened = dict[int, int](), list[int]()
    for place, command in enumerate(program):
        if command not in COMMANDS:
            raise ProgramError(f"no command {command}")
        if command == "[":
            opened.append(place)
        elif command == "]":
            if not opened:
                raise ProgramError("] without [")
            partner[place] = opened.pop()
            partner[partner[place]] = place
    if opened:
        raise ProgramError("[ without ]")
    return partner


def stack_of(text: object) -> list[int]:
    """Return the stack of a text of digits, the top last.

    Raises:
        DataError: the value is no text of digits.

    Examples:
        >>> stack_of("47")
        [4, 7]
    """
    if not isinstance(text, str) or not text or not set(text) <= set("0123456789"):
        raise DataError(f"{text!r:.60} must be a text of digits, such as '47'")
    return [int(digit) for digit in text]
