"""Critiques and revisions of answers to sorting prompts."""

from __future__ import annotations

import random

from components.worlds.sorting.verdicts import draw_digits, other_order
from rlcomp.arguments import Checked, Fraction, NonEmptyText, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class Revisions(metaclass=Checked):
    """Task of revisions: ``"52>52:"``, ``"-=25"`` (critique, separator, revision).

    The principle is that digits are sorted upwards. The critique is ``+`` for a sorted answer,
    ``-`` for others; the revision is the sorted answer. One half of the answers are sorted
    downwards, a quarter upwards, a quarter in another order. An example is held out if its sorting
    prompt is.

    Args:
        length: digits that are sorted, 2 to 18.
        template: the prompt's wording, with ``{prompt}`` and ``{response}``.
        separator: text between critique and revision.
        size: number of examples; none is stored.
        flawed: share of the demonstrations with a revision in another order, which breaks the
            principle.
        held_out: share of the sorting prompts that only evaluators see.

    Raises:
        ConfigError: ``length`` is not one of 2 to 18, or ``template`` lacks a field.

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
        length: PositiveInt = 6,
        template: NonEmptyText = "{prompt}{response}:",
        separator: NonEmptyText = "=",
        size: PositiveInt = 5_000,
        flawed: Probability = 0.0,
        held_out: Fraction = 0.1,
    ) -> None:
        if not 2 <= length <= 18:
            raise ConfigError(f"Revisions: length is {length}: must be 2 to 18")
        for field in ("{prompt}", "{response}"):
            if field not in template:
                raise ConfigError(f"Revisions: template is {template!r}: must hold {field}")
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
        other = other_order(draw, digits, right)
        response = draw.choice((right[::-1], right[::-1], right, other))
        prompt = self.template.replace("{prompt}", f"{digits}>").replace("{response}", response)
        critique = f"{'+' if response == right else '-'}{self.separator}"
        shown = other if draw.random() < self.flawed else right
        return Example(prompt, critique + right, critique + shown, source=f"{digits}>")
