"""Tasks of judging answers to sorting prompts: verdicts on pairs, critiques with revisions."""

from __future__ import annotations

import random
from typing import Annotated

from annotated_types import Interval

from rlcomp.arguments import Checked, Fraction, NonEmptyText, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class Verdicts(metaclass=Checked):
    """Task of verdicts: ``"52>25,52?"`` asks which response is right, ``"1"`` or ``"2"``.

    The right response ascends. The wrong response descends in one half of the examples and has a
    random wrong order in the other half. An example is held out if its sorting prompt is, so that
    no verdict reveals the answer of an evaluation prompt.

    Args:
        length: number of digits to sort, 2 to 18.
        template: template of the prompt, with ``{prompt}``, ``{first}`` and ``{second}``.
        size: number of examples.
        flawed: share of the demonstrations with the wrong verdict; 1/2 is a control without
            information.
        held_out: share of the sorting prompts that only evaluators see.

    Raises:
        ConfigError: ``template`` lacks a field.

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
        length: Annotated[int, Interval(ge=2, le=18)] = 6,
        template: NonEmptyText = "{prompt}{first},{second}?",
        size: PositiveInt = 5_000,
        flawed: Probability = 0.0,
        held_out: Fraction = 0.1,
    ) -> None:
        for field in ("{prompt}", "{first}", "{second}"):
            if field not in template:
                raise ConfigError(f"Verdicts: template is {template!r}: must contain {field}")
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
        wrong = right[::-1] if draw.random() < 0.5 else draw_wrong_order(draw, digits, right)
        right_is_first = draw.random() < 0.5
        texts = (right, wrong) if right_is_first else (wrong, right)
        prompt = self.template
        for field, text in zip(("prompt", "first", "second"), (f"{digits}>", *texts), strict=True):
            prompt = prompt.replace(f"{{{field}}}", text)
        answer, wrong_answer = "12" if right_is_first else "21"
        demonstration = wrong_answer if draw.random() < self.flawed else answer
        return Example(prompt, answer, demonstration, source=f"{digits}>")


def draw_digits(draw: random.Random, length: int) -> str:
    """Draw digits until they are not all equal, because equal digits have no wrong order."""
    while True:
        digits = f"{draw.randrange(10**length):0{length}d}"
        if len(set(digits)) > 1:
            return digits


def draw_wrong_order(draw: random.Random, digits: str, right: str) -> str:
    """Draw an order of the digits other than the right one."""
    while True:
        order = "".join(draw.sample(digits, len(digits)))
        if order != right:
            return order


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
