"""Lookup: a toy task that needs a tool."""

from __future__ import annotations

import random
import sys
from string import ascii_lowercase

from rlcomp.arguments import Checked, Fraction, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class Lookup(metaclass=Checked):
    """Task of a hidden map: ``"a3="`` asks for the letter after three applications to ``a``.

    Every example has its own map (column ``map``: the image of each letter, in order). The prompt
    does not hold it; the tool answers the question ``<a>``
    (:class:`components.worlds.lookup.environment.LookupTool`). Without the tool an answer is a
    guess, right with probability 1 / ``letters``.

    A demonstration asks before each step with probability ``asked``; otherwise it gives a random
    letter as the answer.

    Args:
        letters: number of letters, at most 26.
        hops: most applications of the map.
        fewest: fewest applications; all numbers up to ``hops`` alternate (column ``hops``).
        asked: probability that a demonstration asks once more.
        examples: number of examples.
        held_out: share of the examples that only evaluators see.

    Raises:
        ConfigError: there are more than 26 letters, or hops above 9 or below ``fewest``.

    Examples:
        >>> example = Lookup(asked=1.0).example(2)
        >>> example.prompt, example.columns["map"][:3], example.turns
        ('c1=', 'gbj', ('<c>', 'j|', 'j'))
    """

    def __init__(
        self,
        *,
        letters: PositiveInt = 16,
        hops: PositiveInt = 4,
        fewest: PositiveInt = 1,
        asked: Probability = 0.4,
        examples: PositiveInt = 100_000,
        held_out: Fraction = 0.1,
    ) -> None:
        for name, value, most in (("letters", letters, 26), ("hops", hops, 9)):
            if value > most:
                raise ConfigError(f"Lookup: {name} is {value}: must be at most {most}")
        if fewest > hops:
            raise ConfigError(f"Lookup: fewest is {fewest}: must be at most hops, {hops}")
        if examples > sys.maxsize:
            raise ConfigError(f"Lookup: examples is {examples}: must be at most {sys.maxsize}")
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
        """Return an example; letters and numbers of hops alternate, maps are random."""
        draw = random.Random(named_seed(index, "lookup"))
        image = "".join(draw.sample(self.letters, len(self.letters)))
        number, first = divmod(index, len(self.letters))
        hops = self.fewest + number % (self.hops - self.fewest + 1)
        letter = self.letters[first]
        turns, answer = list[str](), letter
        shown = True
        for _ in range(hops):
            shown = shown and draw.random() < self.asked
            step = image[self.letters.index(answer)]
            turns += [f"<{answer}>", f"{step}|"] if shown else []
            answer = step
        turns.append(answer if shown else draw.choice(self.letters))
        prompt = f"{letter}{hops}="
        return Example(
            prompt,
            answer,
            "".join(turns),
            source=f"{prompt}{image}",
            columns={"map": image, "hops": hops},
            turns=tuple(turns),
        )
