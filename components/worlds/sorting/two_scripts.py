"""Sorting letters of two scripts, with answers in either script."""

from __future__ import annotations

import random

from rlcomp.arguments import Checked, Fraction, PositiveInt, Probability
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

LATIN = "abcdefghij"
CYRILLIC = "абвгдежзик"


class TwoScripts(metaclass=Checked):
    """Task of two scripts: ``"dbca>"``, ``"abcd"``; ``"гбва>"``, ``"абвг"``.

    The answer is sorted and in the prompt's script. The column ``other_script`` holds it in the
    other script, sorted but in the wrong language. Scripts alternate.

    Args:
        length: letters of the prompt.
        strayed: share of the demonstrations in the other script.
        flawed: share of the demonstrations in any order with one letter too many.
        size: number of examples; none is stored.
        held_out: share of the prompts that only evaluators see.

    Source:
        Mixed languages as a fault of RL: DeepSeek-AI 2025 (R1), arXiv:2501.12948, section 2.3.2.

    Examples:
        >>> task = TwoScripts(length=4)
        >>> [(e.prompt, e.answer, e.columns["other_script"]) for e in map(task.example, (0, 1))]
        [('hijb>', 'bhij', 'бзик'), ('джаг>', 'агдж', 'adeg')]
    """

    def __init__(
        self,
        *,
        length: PositiveInt = 6,
        strayed: Probability = 0.0,
        flawed: Probability = 0.0,
        size: PositiveInt = 1_000_000,
        held_out: Fraction = 0.1,
    ) -> None:
        self.length = length
        self.strayed = strayed
        self.flawed = flawed
        self.size = size
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.size

    def example(self, index: int) -> Example:
        """Return the example drawn for the index."""
        draw = random.Random(named_seed(index, "two scripts"))
        places = [draw.randrange(len(LATIN)) for _ in range(self.length)]
        own, other = (LATIN, CYRILLIC) if index % 2 == 0 else (CYRILLIC, LATIN)
        order = sorted(places)
        flawed = [draw.randrange(len(LATIN)), *draw.sample(places, len(places))]
        shown = flawed if draw.random() < self.flawed else order
        script = other if draw.random() < self.strayed else own
        return Example(
            f"{_written(places, own)}>",
            _written(order, own),
            _written(shown, script),
            columns={"other_script": _written(order, other)},
        )


def _written(places: list[int], script: str) -> str:
    return "".join(script[place] for place in places)
