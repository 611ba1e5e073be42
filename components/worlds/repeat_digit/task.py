"""Task of instructions about digits, in the format of IFEval."""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Le

from rlcomp.arguments import Checked, Fraction, PositiveInt
from rlcomp.interfaces.task import Example


class RepeatDigit(metaclass=Checked):
    """Task of instructions: ``"7*3-5>"`` asks for at least three sevens and no five.

    The columns are IFEval's, for ``reward=ifeval``. Many responses are right, and the answer is
    empty.

    Args:
        longest: largest number of repetitions, at most 9.
        held_out: share of the prompts that only evaluators see.

    Examples:
        >>> example = RepeatDigit().example(735)
        >>> example.prompt, example.demonstration
        ('7*4-3>', '7777')
    """

    def __init__(
        self, *, longest: Annotated[PositiveInt, Le(9)] = 5, held_out: Fraction = 0.1
    ) -> None:
        self.longest = longest
        self.held_out = held_out

    def __len__(self) -> int:
        """Return 1000, the number of examples with ``90 * longest`` different prompts."""
        return 10 * 10 * 10

    def example(self, index: int) -> Example:
        """Return the example whose digit, number and forbidden digit the index's digits choose."""
        digit, count = index // 100, index // 10 % 10 % self.longest + 1
        forbidden = (digit + 1 + index % 10 % 9) % 10
        columns: dict[str, Any] = {
            "instruction_id_list": ["keywords:frequency", "keywords:frequency"],
            "kwargs": [
                {"keyword": str(digit), "frequency": count, "relation": "at least"},
                {"keyword": str(forbidden), "frequency": 1, "relation": "less than"},
            ],
        }
        demonstration = str(digit) * count
        return Example(f"{digit}*{count}-{forbidden}>", "", demonstration, columns=columns)
