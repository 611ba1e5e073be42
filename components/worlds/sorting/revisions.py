"""Task of critiques and revisions of answers to sorting prompts."""

from __future__ import annotations

import random
from typing import Annotated

from annotated_types import Interval

from components.worlds.sorting.verdicts import draw_digits, draw_wrong_order
from rlcomp.arguments import Checked, Fraction, NonEmptyText, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class Revisions(metaclass=Checked):
    """Task of revisions: the prompt ``"52>52:"`` has the answer ``"-=25"``.

    The prompt is a sorting prompt and a response to it. The answer is a critique, a separator and a
    revision. The principle of the critique is that the digits ascend. The critique is ``+`` for an
    ascending response, else ``-``; the revision ascends. One half of the responses descend, a
    quarter ascend, and a quarter have another order. An example is held out if its sorting prompt
    is.

    Args:
        length: number of digits to sort, 2 to 18.
        template: template of the prompt, with ``{prompt}`` and ``{response}``.
        separator: text between critique and revision.
        size: number of examples.
        flawed: share of the demonstrations whose revision does not ascend, against the principle.
        held_out: share of the sorting prompts that only evaluators see.

    Raises:
        ConfigError: ``template`` lacks a field.

    Source:
        Bai et al. 2022 (Constitutional AI), arXiv:2212.08073, section 3.1.

    Examples:
        >>> task = Revisions(length=4)
        >>> [(e.prompt, e.answer) for e in map(task.example, (0, 1))]
        [('6752>2567:', '+=2567'), ('9841>9841:', '-=1489')]
    """

    def __init__(
        self,
        *,
        length: Annotated[int, Interval(ge=2, le=18)] = 6,
        template: NonEmptyText = "{prompt}{response}:",
        separator: NonEmptyText = "=",
        size: PositiveInt = 5_000,
        flawed: Probability = 0.0,
        held_out: Fraction = 0.1,
    ) -> None:
        for field in ("{prompt}", "{response}"):
            if field not in template:
                raise ConfigError(f"Revisions: template is {template!r}: must contain {field}")
        self.length = length
        self.template = template
        self.separator = separator
        self.size = size
        self.flawed = flawed
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.size

    def example(self, index: int) -> Example:
        """Return the example drawn for the index."""
        draw = random.Random(named_seed(index, "revisions"))
        digits = draw_digits(draw, self.length)
        right = "".join(sorted(digits))
        other = draw_wrong_order(draw, digits, right)
        response = draw.choice((right[::-1], right[::-1], right, other))
        prompt = self.template.replace("{prompt}", f"{digits}>").replace("{response}", response)
        critique = f"{'+' if response == right else '-'}{self.separator}"
        revision = other if draw.random() < self.flawed else right
        return Example(prompt, critique + right, critique + revision, source=f"{digits}>")
