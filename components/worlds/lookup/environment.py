"""Environments of a tool that applies a hidden map to a letter."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import replace
from string import ascii_lowercase

from rlcomp.arguments import Checked, PositiveFloat
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example

QUESTION = re.compile(r"<(.)>")


class LookupTool:
    """Environment that answers the question ``<a>`` with the image of ``a``, such as ``c|``.

    The example's column ``map`` holds the images. A turn that does not end in ``>`` is the
    policy's answer and ends the episode. In a turn with several questions only the last one gets an
    answer. A question without a letter of the map gets ``?|``.

    The state of a turn (``anchor``) is the prompt with the letters and images that the policy
    knows, in the order of the letters: ``a2= ab bc``.

    Examples:
        >>> tool = LookupTool()
        >>> _ = tool.reset(Example("a1=", "c", "", columns={"map": "cab"}), seed=0)
        >>> tool.step("<a>").observation, tool.step("<z>").observation, tool.step("c").done
        ('c|', '?|', True)
    """

    stops = (">",)

    def __init__(self) -> None:
        self.map = ""
        self.prompt = ""
        self.questions = 0
        # Image of each letter that the policy has asked for.
        self.known_images = dict[str, str]()

    def reset(self, example: Example, seed: int) -> Turn:
        """Store the example's map and return an empty observation; ``seed`` is ignored."""
        del seed
        self.map = str(example.columns["map"])
        self.prompt = example.prompt
        return Turn(anchor=example.prompt)

    def step(self, action: str) -> Turn:
        """Return the answer to a question, or end the episode."""
        if not action.endswith(">"):
            return Turn(done=True)
        self.questions += 1
        questions = QUESTION.findall(action)
        images = dict(zip(ascii_lowercase, self.map, strict=False))
        answers = {letter: images[letter] for letter in questions[-1:] if letter in images}
        # Not updated in place, because forks share the dict.
        self.known_images = {**self.known_images, **answers}
        pairs = sorted(letter + image for letter, image in self.known_images.items())
        anchor = " ".join([self.prompt, *pairs])
        return Turn(observation=f"{''.join(answers.values()) or '?'}|", anchor=anchor)

    def facts(self) -> Mapping[str, float]:
        """Return the number of turns with a question, ``questions``."""
        return {"questions": float(self.questions)}

    def fork(self) -> LookupTool:
        """Return a copy with the same state."""
        return copy.copy(self)

    def close(self) -> None:
        """No-op."""


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
