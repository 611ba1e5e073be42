"""Verifiers of an answer, and their verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.reward import TextReward
from rlcomp.interfaces.task import Example
from rlcomp.workers.function_call import load


def verdict_options(
    part: str, accept: str, reject: str, stop: str | None = None
) -> tuple[str, str]:
    """Return both options, the accepting one first.

    Args:
        part: owner of the options, for the message.
        accept: text that accepts an answer.
        reject: text that rejects it.
        stop: text that ends a turn and is not part of it.

    Raises:
        ConfigError: one option ends with the other, so that a text could end with both; an option
            ends with space, which is ignored; or an option contains the stop text.
    """
    for name, option in (("accept", accept), ("reject", reject)):
        if option != option.rstrip():
            raise ConfigError(f"{part}.{name} is {option!r}: must not end with space")
        if stop and stop in option:
            raise ConfigError(
                f"{part}.stop is {stop!r}, but {part}.{name}={option!r} contains it, and the turn "
                "would end within the verdict: change one"
            )
    if accept.endswith(reject) or reject.endswith(accept):
        raise ConfigError(
            f"{part}: accept is {accept!r} and reject is {reject!r}: a text could end with both, "
            "since one ends with the other: change one"
        )
    return accept, reject


def read_verdict(text: str, options: Sequence[str]) -> int | None:
    """Return the index of the option that a text ends with; None for no verdict.

    Trailing space is ignored. A word that ends with an option counts as the option: ``nobody`` ends
    with ``y``. For a model that writes words, use whole sentences or marked options (``<accept>``).

    Examples:
        >>> read_verdict("1+2=3 y ", ("y", "n")), read_verdict("yes?", ("y", "n"))
        (0, None)
    """
    matches = [index for index, option in enumerate(options) if text.rstrip().endswith(option)]
    return matches[0] if matches else None


class AnswerVerifier:
    """Verifier of responses by a reward that scores single texts.

    Args:
        reward: scores single texts; the training reward of the run.
        path: config path of the setting, for errors.

    Raises:
        ConfigError: the object is not a reward that scores single texts by itself.
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
        """Return True if the reward accepts a response to the prompt of an example.

        Raises:
            DataError: the reward returns something other than a number.
        """
        row = {"prompt": example.prompt, "response": response, "answer": example.answer}
        score = self.reward.score_row({**example.columns, **row})
        if not isinstance(score, (int, float)) or math.isnan(score):
            raise DataError(
                f"{self.path} returned {score!r:.60} for {response!r:.60}: must be a number; use a "
                "reward that has no named parts and gives a verdict on every text"
            )
        return self.reward.is_correct(float(score))
