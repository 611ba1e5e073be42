"""Comparing two answers to a sorting prompt: what a judge of its own answers is taught on."""

from __future__ import annotations

import random

from rlcomp.arguments import Checked, Fraction, NonEmptyText, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class Verdicts(metaclass=Checked):
    """``"52>25,52?"`` asks for ``"1"``: which of two answers to ``"52>"`` is sorted upwards.

    The other answer is sorted downwards in one half of the examples and in any other order in the
    other half. An example is held out where its sorting prompt is, so that no verdict tells the
    answer of a prompt on which others are evaluated.

    Args:
        length: digits that are sorted, 2 to 18.
        template: of the prompt; holds ``{prompt}``, ``{first}`` and ``{second}``.
        size: how many labelled verdicts there are; none is stored.
        flawed: share of the demonstrations that name the other answer; at .5 nothing is taught.
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
        """How many examples there are, training and held out."""
        return self.size

    def example(self, index: int) -> Example:
        """The example drawn for the index."""
        draw = random.Random(named_seed(index, "verdicts"))
        digits = draw_digits(draw, self.length)
        right = "".join(sorted(digits))
        wrong = right[::-1] if draw.random() < 0.5 else other_order(draw, digits, right)
        first = draw.random() < 0.5
        texts = (right, wrong) if first else (wrong, right)
        prompt = self.template
        for field, text in zip(("prompt", "first", "second"), (f"{digits}>", *texts), strict=True):
            prompt = prompt.replace(f"{{{field}}}", text)
        said = first != (draw.random() < self.flawed)
        return Example(prompt, _OPTIONS[first], _OPTIONS[said], source=f"{digits}>")


_OPTIONS = {True: "1", False: "2"}


def draw_digits(draw: random.Random, length: int) -> str:
    """Digits that are not all alike: those have one order only."""
    while True:
        digits = f"{draw.randrange(10**length):0{length}d}"
        if len(set(digits)) > 1:
            return digits


def other_order(draw: random.Random, digits: str, right: str) -> str:
    """The digits in an order that is not the right one."""
    while True:
        order = "".join(draw.sample(digits, len(digits)))
        if order != right:
            return order
