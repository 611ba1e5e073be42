"""Environment of the lookup tool with a reward for each useful question."""

from __future__ import annotations

from dataclasses import replace
from string import ascii_lowercase

from components.worlds.lookup.environment import QUESTION, LookupTool
from rlcomp.arguments import Checked, PositiveFloat
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class PaidLookupTool(LookupTool, metaclass=Checked):
    """Environment of the lookup tool whose turns with a useful question have a reward.

    See :class:`components.worlds.lookup.environment.LookupTool`. The path from the letter of the
    prompt to the answer has N steps. A question for the next letter of the path has the reward
    ``useful / N``, once for each letter. All other questions have the reward 0.

    Args:
        useful: sum of the rewards of all useful questions, in units of the reward of an answer.

    Examples:
        >>> tool = PaidLookupTool(useful=1.0)
        >>> _ = tool.reset(Example("a2=", "c", "", columns={"map": "bca", "hops": 2}), seed=0)
        >>> [tool.step(question).reward for question in ("<a>", "<a>", "<b>")]
        [0.5, 0.0, 0.5]
    """

    def __init__(self, *, useful: PositiveFloat = 1.0) -> None:
        super().__init__()
        self.useful = useful
        self.path: list[str] = []
        self.useful_questions = 0

    def reset(self, example: Example, seed: int) -> Turn:
        """Store the example's map and the letters of the path."""
        turn = super().reset(example, seed)
        letter, self.path = example.prompt[0], []
        for _ in range(int(str(example.columns["hops"]))):
            self.path.append(letter)
            letter = self.map[ascii_lowercase.index(letter)]
        self.useful_questions = 0
        return turn

    def step(self, action: str) -> Turn:
        """Return the answer to a question with its reward, or end the episode."""
        turn = super().step(action)
        next_letter = self.path[self.useful_questions : self.useful_questions + 1]
        if turn.done or not next_letter or QUESTION.findall(action)[-1:] != next_letter:
            return turn
        self.useful_questions += 1
        return replace(turn, reward=self.useful / len(self.path))
