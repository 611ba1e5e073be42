"""Comparisons of two answers to a sorting prompt, to train a judge."""

from __future__ import annotations

import random

from rlcomp.arguments import Checked, Fraction, NonEmptyText, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class Verdicts(metaclass=Checked):
    """Task of verdicts: ``"52>25,52?"``, ``"1"``, the answer that is sorted upwards.

    The other answer is sorted downwards in one half of the examples and in any other order in the
    other half. An example is held out if its sorting prompt is, so that no verdict reveals the
    answer of an evaluation prompt.

    Args:
        length: digits that are sorted, 2 to 18.
        template: the prompt's wording, with ``{prompt}``, ``{first}`` and ``{second}``.
        size: number of labelled verdicts; none is stored.
        flawed: share of the demonstrations that name the other answer; .5 has no information.
        held_out: share of the sorting prompts that only evaluators see.

    Raises:
        ConfigError: ``length`` is not one of 2 to 18, or ``template`` lacks a field.

    Source:
        Yuan et al. 2024 (Self-Rewarding), arXiv:2401.10020, section 2.1 (evaluation fine-tuning).

    Examples:
        >>> task = Verdicts(length=4)
        >>> [(e.prompt, e.answer) for e in map(task.example, (0, 3))]
        [('2291>1229,2129?', '1'), ('8873>8873,3788?', '2')]
    """

    def __init__(
        self,
        *,
        length: PositiveInt = 6,
        template: NonEmptyText = "{prompt}{first},{second}?",
        size: PositiveInt = 5_000,
        flawed: Probability = 0.0,
        held_out: Fraction = 0.1,
    ) -> None:
        if not 2 <= length <= 18:
            raise ConfigError(f"Verdicts: length is {length}: must be 2 to 18")
        for field in ("{prompt}", "{first}", "{second}"):
            if field not in template:
                raise ConfigError(f"Verdicts: template is {template!r}: must hold {field}")
        self.length = length
        self.template = template
        self.size = size
        self.flawed = flawed
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.size

    def example(self, index: int) -> Example:
        """Return the example drawn for the index."""
        draw = random.Random(named_seed(index, "verdicts"))
        digits = draw_digits(draw, self.length)
        right = "".join(sorted(digits))
        wrong = right[::-1] if draw.random() < 0.5 else other_order(draw, digits, right)
        first = draw.random() < 0.5
        texts = (right, wrong) if first else (wrong, right)
        prompt = self.template
        for field, text in zip(("prompt", "first", "second"), (f"{digits}>", *texts), strict=True):
            prompt = prompt.replace(f"{{{field}}}", text)
        named = first != (draw.random() < self.flawed)
        return Example(prompt, _OPTIONS[first], _OPTIONS[named], source=f"{digits}>")


_OPTIONS = {True: "1", False: "2"}


def draw_digits(draw: random.Random, length: int) -> str:
    """Draw digits that are not all equal, as equal digits have only one order."""
    while True:
        digits = f"{draw.randrange(10**length):0{length}d}"
        if len(set(digits)) > 1:
            return digits


def other_order(draw: random.Random, digits: str, right: str) -> str:
    """Return the digits in a wrong order."""
    while True:
        order = "".join(draw.sample(digits, len(digits)))
        if order != right:
            return order
