"""Lookup tool: what a hidden map makes of a letter."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from string import ascii_lowercase

from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example

ASKED = re.compile(r"<(.)>")


class LookupTool:
    """Answers ``<a>`` with what the example's ``map`` makes of ``a``, as in ``c|``.

    A turn that does not end in such a question is the answer, and ends the episode; of a turn with
    several questions the last one counts. Anything else between the brackets gets ``?|``.

    The state that a turn is decided in (``anchor``) is the question with all that is known of the
    map, in the order of the letters: ``a2= ab bc``.

    Examples:
        >>> tool = LookupTool()
        >>> _ = tool.reset(Example("a1=", "c", "", columns={"map": "cab"}), seed=0)
        >>> tool.step("<a>").observation, tool.step("<z>").observation, tool.step("c").done
        ('c|', '?|', True)
    """

    stops = (">",)

    def __init__(self) -> None:
        self.map = ""
        self.question = ""
        self.questions = 0
        self.known = dict[str, str]()

    def reset(self, example: Example, seed: int) -> Turn:
        """Take the example's map; nothing is said."""
        del seed
        self.map = str(example.columns["map"])
        self.question = example.prompt
        return Turn(anchor=example.prompt)

    def step(self, action: str) -> Turn:
        """Answer a question, or end."""
        if not action.endswith(">"):
            return Turn(done=True)
        self.questions += 1
        asked = ASKED.findall(action)
        letters = dict(zip(ascii_lowercase, self.map, strict=False))
        told = {letter: letters[letter] for letter in asked[-1:] if letter in letters}
        self.known = {**self.known, **told}  # a new one: a fork has its own
        state = " ".join([self.question, *sorted(a + b for a, b in self.known.items())])
        return Turn(observation=f"{''.join(told.values()) or '?'}|", anchor=state)

    def facts(self) -> Mapping[str, float]:
        """How often it was asked: ``questions``."""
        return {"questions": float(self.questions)}

    def fork(self) -> LookupTool:
        """Another one that was asked as often."""
        return copy.copy(self)

    def close(self) -> None:
        """Nothing is held."""
