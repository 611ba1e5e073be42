"""Answer verifier: a reward that decides if a single text is right."""

from __future__ import annotations

import math
from typing import Any

from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.reward import TextReward
from rlcomp.interfaces.task import Example
from rlcomp.workers.call import load


class AnswerVerifier:
    """Verifier of responses by a reward that scores single texts.

    Args:
        reward: scores single texts; the training reward of the run.
        path: config path of the setting, for errors.

    Raises:
        ConfigError: the object is no reward that scores single texts by itself.
    """

    def __init__(self, reward: TextReward | Unbuilt, path: str) -> None:
        part: Any = load(reward.target, reward.arguments) if isinstance(reward, Unbuilt) else reward
        if not isinstance(part, TextReward) or type(part).forward is not TextReward.forward:
            raise ConfigError(
                f"{path} is a {type(part).__name__}: must be a reward that scores single texts by "
                f"itself, such as /reward@{path}: exact_match"
            )
        self.reward = part
        self.path = path

    def is_right(self, example: Example, response: str) -> bool:
        """Judge a response.

        Raises:
            DataError: the reward returns no number.
        """
        row = {"prompt": example.prompt, "response": response, "answer": example.answer}
        score = self.reward.score_row({**example.columns, **row})
        if not isinstance(score, (int, float)) or math.isnan(score):
            raise DataError(
                f"{self.path} gave {score!r:.60} for {response!r:.60}: must be a number; "
                "a part of named parts or without a verdict cannot tell right from wrong"
            )
        return self.reward.is_correct(float(score))
