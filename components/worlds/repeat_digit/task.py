"""Instructions about digits: a toy task with IFEval's verifiable instructions."""

from __future__ import annotations

from typing import Any

from rlcomp.arguments import Checked, Fraction, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example


class RepeatDigit(metaclass=Checked):
    """Task of instructions: ``"7*3-5>"`` asks for at least three sevens and no five.

    The columns are those of IFEval, for ``reward=ifeval``. Many responses are right, and there is
    no gold answer.

    Args:
        longest: largest required number of a digit, at most 9.
        held_out: share of the prompts that only evaluators see.

    Raises:
        ConfigError: ``longest`` is above 9.

    Examples:
        >>> example = RepeatDigit().example(735)
        >>> example.prompt, example.demonstration
        ('7*4-3>', '7777')
    """

    def __init__(self, *, longest: PositiveInt = 5, held_out: Fraction = 0.1) -> None:
        if longest > 9:
            raise ConfigError(f"RepeatDigit: longest is {longest}: must be at most 9")
        self.longest = longest
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out; ``90 * longest`` prompts differ."""
        return 10 * 10 * 10

    def example(self, index: int) -> Example:
        """Return an example; the index's digits are the digit, the number and the other digit."""
        digit, often = index // 100, index // 10 % 10 % self.longest + 1
        other = (digit + 1 + index % 10 % 9) % 10
        columns: dict[str, Any] = {
            "instruction_id_list": ["keywords:frequency", "keywords:frequency"],
            "kwargs": [
                {"keyword": str(digit), "frequency": often, "relation": "at least"},
                {"keyword": str(other), "frequency": 1, "relation": "less than"},
            ],
        }
        shown = str(digit) * often
        return Example(f"{digit}*{often}-{other}>", "", shown, columns=columns)
