"""Environment whose tool applies a hidden map to a letter."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from string import ascii_lowercase

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
