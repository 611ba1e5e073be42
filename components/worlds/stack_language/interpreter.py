"""Interpreter of a stack language with twelve commands on a stack of digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rlcomp.errors import DataError

# Number of digits that each command takes from the top, and its results before modulo 10.
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
    """Error of a program that cannot run to its end; its message is a short reason."""


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
        max_steps: largest number of commands to run, brackets included.
        max_depth: largest number of digits on the stack.

    Raises:
        ProgramError: a character is no command, brackets do not match, the stack has too few or too
            many digits, or the program needs more than ``max_steps`` steps.

    Examples:
        >>> run_program("ist", [3, 7]), run_program("d[k]", [3])
        ([8, 9], [3, 0])
    """
    partners = _match_brackets(program)
    stack, position = [*stack], 0
    for _ in range(max_steps):
        if position >= len(program):
            return stack
        position = _run_command(program[position], position, stack, partners)
        if len(stack) > max_depth:
            raise ProgramError(f"more than {max_depth} digits")
    if position >= len(program):
        return stack
    raise ProgramError(f"more than {max_steps} steps")


def _run_command(command: str, position: int, stack: list[int], partners: dict[int, int]) -> int:
    """Run one command, change the stack and return the position of the next command."""
    if command in "[]":
        if not stack:
            raise ProgramError(f"{command} needs a digit")
        # "[" skips the loop if the top is 0; "]" repeats it if the top is not 0.
        jumps = (command == "[") == (stack[-1] == 0)
        return (partners[position] if jumps else position) + 1
    count, operation = _OPERATIONS[command]
    if len(stack) < count:
        raise ProgramError(f"{command} needs {f'{count} digits' if count > 1 else 'a digit'}")
    first = len(stack) - count
    stack[first:] = [value % 10 for value in operation(*stack[first:])]
    return position + 1


def _match_brackets(program: str) -> dict[int, int]:
    """Check that every character is a command; return each bracket's partner by position."""
    partners, open_brackets = dict[int, int](), list[int]()
    for position, command in enumerate(program):
        if command not in COMMANDS:
            raise ProgramError(f"no command {command}")
        if command == "[":
            open_brackets.append(position)
        elif command == "]":
            if not open_brackets:
                raise ProgramError("] without [")
            partners[position] = open_brackets.pop()
            partners[partners[position]] = position
    if open_brackets:
        raise ProgramError("[ without ]")
    return partners


def parse_stack(text: object) -> list[int]:
    """Return the stack of a text of digits, the top last.

    Raises:
        DataError: the value is not a text of digits.

    Examples:
        >>> parse_stack("47")
        [4, 7]
    """
    if not isinstance(text, str) or not text or not set(text) <= set("0123456789"):
        raise DataError(f"the stack is {text!r:.60}: must be a text of digits, such as '47'")
    return [int(digit) for digit in text]
