"""Task of sorting letters of two scripts, with answers in the prompt's script."""

from __future__ import annotations

import random

from rlcomp.arguments import Checked, Fraction, PositiveInt, Probability
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

LATIN = "abcdefghij"
CYRILLIC = "абвгдежзик"


class TwoScripts(metaclass=Checked):
    """Task of two scripts: ``"dbca>"`` has the answer ``"abcd"``, ``"гбва>"`` ``"абвг"``.

    The answer is sorted and in the prompt's script; the scripts of the prompts alternate. The
    column ``other_script`` holds the answer in the other script, as an answer in a wrong language.

    Args:
        length: letters of the prompt.
        strayed: share of the demonstrations in the other script.
        flawed: share of the demonstrations in random order with an additional letter in front.
        size: number of examples.
        held_out: share of the prompts that only evaluators see.

    Source:
        After DeepSeek-AI 2025 (R1), arXiv:2501.12948, section 2.3.2 (RL mixes languages).

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
        letters = [draw.randrange(len(LATIN)) for _ in range(self.length)]
        script, other_script = (LATIN, CYRILLIC) if index % 2 == 0 else (CYRILLIC, LATIN)
        ordered = sorted(letters)
        flawed = [draw.randrange(len(LATIN)), *draw.sample(letters, len(letters))]
        demonstration = flawed if draw.random() < self.flawed else ordered
        demonstration_script = other_script if draw.random() < self.strayed else script
        return Example(
            f"{_write(letters, script)}>",
            _write(ordered, script),
            _write(demonstration, demonstration_script),
            columns={"other_script": _write(ordered, other_script)},
        )


def _write(letters: list[int], script: str) -> str:
    """Return the letters with these numbers in a script."""
    return "".join(script[letter] for letter in letters)
