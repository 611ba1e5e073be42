"""Lookup tool, which applies a hidden map to a letter."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from string import ascii_lowercase

from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example

ASKED = re.compile(r"<(.)>")


class LookupTool:
    """Environment that answers ``<a>`` with the example's ``map`` of ``a``, such as ``c|``.

    A turn that does not end in such a question is the answer and ends the episode. If a turn has
    several questions, the last one counts. Other text between the brackets gets ``?|``.

    The state of a turn (``anchor``) is the question with the known part of the map in the order of
    the letters: ``a2= ab bc``.

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
        """Store the example's map; the first observation is empty."""
        del seed
        self.map = str(example.columns["map"])
        self.question = example.prompt
        return Turn(anchor=example.prompt)

    def step(self, action: str) -> Turn:
        """Answer a question or end the episode."""
        if not action.endswith(">"):
            return Turn(done=True)
        self.questions += 1
        questions = ASKED.findall(action)
        letters = dict(zip(ascii_lowercase, self.map, strict=False))
        answers = {letter: letters[letter] for letter in questions[-1:] if letter in letters}
        self.known = {**self.known, **answers}  # a new dict, because a fork has its own
        state = " ".join([self.question, *sorted(a + b for a, b in self.known.items())])
        return Turn(observation=f"{''.join(answers.values()) or '?'}|", anchor=state)

    def facts(self) -> Mapping[str, float]:
        """Return ``questions``, the number of questions."""
        return {"questions": float(self.questions)}

    def fork(self) -> LookupTool:
        """Return a copy with the same state."""
        return copy.copy(self)

    def close(self) -> None:
        """No-op: it holds nothing."""
