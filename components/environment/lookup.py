"""Lookup tool: what a hidden map makes of a letter."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from string import ascii_lowercase

from rlcomp.arguments import Checked, NonNegativeFloat
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example

_ASKED = re.compile(r"<(.)>")


class LookupTool(metaclass=Checked):
    """Answers ``<a>`` with what the example's ``map`` makes of ``a``, as in ``c|``.

    A turn that does not end in such a question is the answer, and ends the episode; of a turn with
    several questions the last one counts. Anything else between the brackets gets ``?|``.

    The state that a turn is decided in (``anchor``) is the question with all that is known of the
    map, in the order of the letters: ``a2= ab bc``.

    Args:
        useful: what the questions that an answer needs are paid together, each once, as a share of
            the reward of a right answer; a reward of each turn. With 0 only the answer counts.

    Examples:
        >>> tool = LookupTool()
        >>> _ = tool.reset(Example("a1=", "c", "", columns={"map": "cab"}), seed=0)
        >>> tool.step("<a>").observation, tool.step("<z>").observation, tool.step("c").done
        ('c|', '?|', True)
    """

    stops = (">",)

    def __init__(self, *, useful: NonNegativeFloat = 0.0) -> None:
        self.useful = useful
        self.way: list[str] = []
        self.map = ""
        self.question = ""
        self.questions = 0
        self.reached = 0
        self.known = dict[str, str]()

    def reset(self, example: Example, seed: int) -> Turn:
        """Take the example's map; nothing is said."""
        del seed
        self.map = str(example.columns["map"])
        self.question = example.prompt
        self.way = self._way(example)
        return Turn(anchor=example.prompt)

    def step(self, action: str) -> Turn:
        """Answer a question, or end."""
        if not action.endswith(">"):
            return Turn(done=True)
        self.questions += 1
        asked = _ASKED.findall(action)
        letters = dict(zip(ascii_lowercase, self.map, strict=False))
        told = {letter: letters[letter] for letter in asked[-1:] if letter in letters}
        self.known = {**self.known, **told}  # a new one: a fork has its own
        state = " ".join([self.question, *sorted(a + b for a, b in self.known.items())])
        observation = f"{''.join(told.values()) or '?'}|"
        return Turn(observation=observation, anchor=state, reward=self._paid(asked[-1:]))

    def _way(self, example: Example) -> list[str]:
        """The letters that have to be asked, in order; none where questions are not paid."""
        if not self.useful:
            return []
        letter, way = example.prompt[0], list[str]()
        for _ in range(int(str(example.columns["hops"]))):
            way.append(letter)
            letter = self.map[ascii_lowercase.index(letter)]
        return way

    def _paid(self, asked: list[str]) -> float:
        """Of a question: its part if it is the next that the answer needs."""
        if not self.way or asked != self.way[self.reached : self.reached + 1]:
            return 0.0
        self.reached += 1
        return self.useful / len(self.way)

    def facts(self) -> Mapping[str, float]:
        """How often it was asked: ``questions``."""
        return {"questions": float(self.questions)}

    def fork(self) -> LookupTool:
        """Another one that was asked as often."""
        return copy.copy(self)

    def close(self) -> None:
        """Nothing is held."""
