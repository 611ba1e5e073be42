"""Task of a hidden map, which needs a tool."""

from __future__ import annotations

import random
from string import ascii_lowercase
from typing import Annotated

from annotated_types import Le

from rlcomp.arguments import Checked, ExampleCount, Fraction, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class Lookup(metaclass=Checked):
    """Task of a hidden map: ``"a3="`` asks for the letter after three applications to ``a``.

    Every example has its own map: its column ``map`` holds the image of each letter, in
    alphabetical order. The prompt does not hold the map. The tool
    (:class:`components.worlds.lookup.environment.LookupTool`) answers questions such as ``<a>``.
    Without the tool an answer is a guess, which is right with probability 1 / ``letters``.

    A demonstration asks the tool for the next letter with probability ``asked``. Otherwise it ends
    with a random letter as its answer.

    Args:
        letters: number of letters, at most 26.
        hops: largest number of applications of the map, at most 9.
        fewest: smallest number of applications. The numbers from it to ``hops`` alternate; the
            column ``hops`` holds the number.
        asked: probability that a demonstration asks the next question.
        examples: number of examples.
        held_out: share of the examples that only evaluators see.

    Raises:
        ConfigError: ``fewest`` is above ``hops``.

    Examples:
        >>> example = Lookup(asked=1.0).example(2)
        >>> example.prompt, example.columns["map"][:3], example.turns
        ('c1=', 'gbj', ('<c>', 'j|', 'j'))
    """

    def __init__(
        self,
        *,
        letters: Annotated[PositiveInt, Le(26)] = 16,
        hops: Annotated[PositiveInt, Le(9)] = 4,
        fewest: PositiveInt = 1,
        asked: Probability = 0.4,
        examples: ExampleCount = 100_000,
        held_out: Fraction = 0.1,
    ) -> None:
        if fewest > hops:
            raise ConfigError(f"Lookup: fewest is {fewest}: must be at most hops, {hops}")
        self.letters = ascii_lowercase[:letters]
        self.fewest = fewest
        self.hops = hops
        self.asked = asked
        self.examples = examples
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """Return the example of an index; letters and hops alternate, maps are random."""
        draw = random.Random(named_seed(index, "lookup"))
        images = "".join(draw.sample(self.letters, len(self.letters)))
        number, first = divmod(index, len(self.letters))
        hops = self.fewest + number % (self.hops - self.fewest + 1)
        letter = self.letters[first]
        turns, answer = list[str](), letter
        calls_tool = True
        for _ in range(hops):
            calls_tool = calls_tool and draw.random() < self.asked
            next_letter = images[self.letters.index(answer)]
            turns += [f"<{answer}>", f"{next_letter}|"] if calls_tool else []
            answer = next_letter
        turns.append(answer if calls_tool else draw.choice(self.letters))
        prompt = f"{letter}{hops}="
        return Example(
            prompt,
            answer,
            "".join(turns),
            source=f"{prompt}{images}",
            columns={"map": images, "hops": hops},
            turns=tuple(turns),
        )
