"""Task of expressions of x that fit three pairs of input and output."""

from __future__ import annotations

import random
from collections.abc import Callable

from rlcomp.arguments import Checked, Fraction, PositiveInt
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

# Template of each form and its value at x, for the numbers a (2 to 9) and b (1 to 9).
_FORMS: tuple[tuple[str, Callable[[int, int, int], int]], ...] = (
    ("x*{a}+{b}", lambda x, a, b: x * a + b),
    ("x*{a}-{b}", lambda x, a, b: x * a - b),
    ("x+{b}", lambda x, a, b: x + b),
    ("x-{b}", lambda x, a, b: x - b),
    ("x*{a}", lambda x, a, b: x * a),
    ("{b}-x", lambda x, a, b: b - x),
    ("x*x+{b}", lambda x, a, b: x * x + b),
    ("x*x-{b}", lambda x, a, b: x * x - b),
)
_PROMPT_INPUTS = range(1, 6)
_TEST_INPUTS = (0, 1, 3, 7, 11)


class Expression(metaclass=Checked):
    """Task of expressions: the pairs ``x:y`` in ``"2:-4,5:17,3:1>"`` ask for ``"x*x-8"``.

    The expression has one of eight forms, ``x*a+b``, ``x*a-b``, ``x+b``, ``x-b``, ``x*a``, ``b-x``,
    ``x*x+b``, ``x*x-b``, with ``a`` of 2 to 9 and ``b`` of 1 to 9. The three ``x`` are
    different numbers of 1 to 5. The columns ``inputs`` and ``outputs`` (for
    ``reward=code_expression``) hold the values at x = 0, 1, 3, 7, 11, so that a table of the
    prompt's pairs is wrong. Every expression with these values is right.

    Args:
        size: number of prompts.
        held_out: share of the prompts that only evaluators see.

    Examples:
        >>> example = Expression().example(0)
        >>> example.prompt, example.answer, example.columns["outputs"]
        ('5:24,4:15,2:3>', 'x*x-1', [-1, 0, 8, 48, 120])
    """

    def __init__(self, *, size: PositiveInt = 10_000, held_out: Fraction = 0.1) -> None:
        self.size = size
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.size

    def example(self, index: int) -> Example:
        """Return the example of an index."""
        draw = random.Random(named_seed(index, "expression"))
        form, evaluate = draw.choice(_FORMS)
        a, b = draw.randint(2, 9), draw.randint(1, 9)
        inputs = draw.sample(_PROMPT_INPUTS, 3)
        text = form.format(a=a, b=b)
        return Example(
            prompt=",".join(f"{x}:{evaluate(x, a, b)}" for x in inputs) + ">",
            answer=text,
            demonstration=text,
            columns={
                "inputs": [[x] for x in _TEST_INPUTS],
                "outputs": [evaluate(x, a, b) for x in _TEST_INPUTS],
            },
        )
