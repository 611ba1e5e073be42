"""Lookup tool with a turn reward for needed questions."""

from __future__ import annotations

from dataclasses import replace
from string import ascii_lowercase

from components.worlds.lookup.environment import ASKED, LookupTool
from rlcomp.arguments import Checked, PositiveFloat
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class PaidLookupTool(LookupTool, metaclass=Checked):
    """Environment like ``LookupTool`` that pays for needed questions.

    See :class:`components.worlds.lookup.environment.LookupTool`. With N steps from the letter of
    the prompt to the answer, a question for the next letter on the path pays ``useful / N``, once
    for each letter; other questions pay 0.

    Args:
        useful: total pay of all needed questions, in units of the reward of an answer.

    Examples:
        >>> tool = PaidLookupTool(useful=1.0)
        >>> _ = tool.reset(Example("a2=", "c", "", columns={"map": "bca", "hops": 2}), seed=0)
        >>> [tool.step(question).reward for question in ("<a>", "<a>", "<b>")]
        [0.5, 0.0, 0.5]
    """

    def __init__(self, *, useful: PositiveFloat = 1.0) -> None:
        super().__init__()
        self.useful = useful
        self.way: list[str] = []
        self.reached = 0

    def reset(self, example: Example, seed: int) -> Turn:
        """Store the example's map and the needed letters."""
        turn = super().reset(example, seed)
        letter, self.way = example.prompt[0], []
        for _ in range(int(str(example.columns["hops"]))):
            self.way.append(letter)
            letter = self.map[ascii_lowercase.index(letter)]
        self.reached = 0
        return turn

    def step(self, action: str) -> Turn:
        """Answer a question, pay for it if it is the next needed one, or end the episode."""
        turn = super().step(action)
        needed = self.way[self.reached : self.reached + 1]
        if turn.done or not needed or ASKED.findall(action)[-1:] != needed:
            return turn
        self.reached += 1
        return replace(turn, reward=self.useful / len(self.way))
