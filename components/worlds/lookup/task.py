"""Lookup: a toy task that only a tool can solve."""

from __future__ import annotations

import random
import sys
from string import ascii_lowercase

from rlcomp.arguments import Checked, Fraction, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class Lookup(metaclass=Checked):
    """``"a3="`` asks what a hidden map of letters makes of ``a`` when it is applied three times.

    Every example has a map of its own (column ``map``: what each letter becomes, in order), which
    the prompt does not tell: the tool that is asked by ``<a>`` does
    (:class:`components.worlds.lookup.environment.LookupTool`). Without it an answer is a guess,
    right once in ``letters`` times.

    A demonstration asks before each step with probability ``asked``, and answers by a random letter
    as soon as it does not.

    Args:
        letters: how many there are, at most 26.
        hops: the most times that the map is applied.
        fewest: the fewest; all numbers from it to ``hops`` take turns; column ``hops`` says which.
        asked: how likely a demonstration asks once more.
        examples: how many.
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
        """How many examples there are, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """A letter and a number of hops, which take turns, and a map."""
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
