"""Self-correction environment: an attempt, a message of the verifier, a second attempt."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from rlcomp.arguments import Checked, NonEmptyText, NonNegativeFloat, Unbuilt
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.reward import TextReward
from rlcomp.interfaces.task import Example
from rlcomp.workers.call import load


class SecondAttempt(metaclass=Checked):
    """Judges a first answer, says so, and takes a second one, which ends the episode.

    ``r_1`` and ``r_2`` are 1 where an attempt is right, else 0. The first turn is paid ``r_1``, the
    second one ``alpha (r_2 - r_1)``: what it improved. The run's reward judges the last turn, so
    that with ``advantage=turn_return`` the second attempt earns ``r_2 + alpha (r_2 - r_1)``.

    With ``advantage.gamma=0`` each attempt is credited with its own. With ``gamma=1`` the bonus
    costs a first attempt that is right ``alpha``: failing first pays where ``alpha > 1``.

    Facts of episodes with two attempts, 1 or 0: ``first_right``, ``second_right``; ``helped``
    (wrong, then right), ``hurt`` (right, then wrong), ``stayed_right``, ``stayed_wrong``; and
    ``changed``, whether the texts differ.

    Args:
        verifier: a reward that scores single texts; the one that the run trains on.
        improvement: ``alpha``.
        tells: the ``verdict``; or ``nothing`` but ``again``: then the policy has to see by itself
            what is wrong.
        right: the message to a right first attempt.
        wrong: that to a wrong one.
        again: the message where no verdict is told.
        closing: stands behind the message.
        stop: text that ends an attempt and is not part of it; null: only the stop token does.

    Raises:
        ConfigError: the verifier is no text reward that scores by itself.

    Source:
        Kumar et al. 2024 (SCoRe), arXiv:2409.12917: two attempts, the bonus of the second stage;
        there no verdict is told.
    """

    def __init__(
        self,
        *,
        verifier: TextReward | Unbuilt,
        improvement: NonNegativeFloat = 1.0,
        tells: Literal["verdict", "nothing"] = "verdict",
        right: NonEmptyText = "Right.",
        wrong: NonEmptyText = "Wrong.",
        again: NonEmptyText = "Check again.",
        closing: str = "\n",
        stop: NonEmptyText | None = None,
    ) -> None:
        made: Any = (
            load(verifier.target, verifier.arguments) if isinstance(verifier, Unbuilt) else verifier
        )
        if not isinstance(made, TextReward) or type(made).forward is not TextReward.forward:
            raise ConfigError(
                f"environment.verifier is a {type(made).__name__}: must be a reward that scores "
                "single texts by itself, such as /reward@environment.verifier: exact_match"
            )
        self.verifier = made
        self.improvement = improvement
        self.tells = tells
        self.messages = {True: right, False: wrong}
        self.again = again
        self.closing = closing
        self.stop = stop
        self.stops = (stop,) if stop else ()
        self.attempts: list[str] = []
        self.verdicts: list[bool] = []

    def reset(self, example: Example, seed: int) -> Turn:
        """Take the example; nothing is said."""
        del seed
        self.example = example
        return Turn()

    def step(self, action: str) -> Turn:
        """Judge an attempt: the first one is answered, the second one ends the episode."""
        if self.stop and not self.attempts:
            action = action.removesuffix(self.stop)
        right = self._judged(action)
        self.attempts.append(action)
        self.verdicts.append(right)
        if len(self.verdicts) == 1:
            message = self.messages[right] if self.tells == "verdict" else self.again
            return Turn(observation=message, closing=self.closing, reward=float(right))
        first, second = self.verdicts
        return Turn(reward=self.improvement * (second - first), done=True)

    def _judged(self, response: str) -> bool:
        """Whether an attempt is right."""
        row = {"prompt": self.example.prompt, "response": response, "answer": self.example.answer}
        score = self.verifier.score_row({**self.example.columns, **row})
        if not isinstance(score, (int, float)) or math.isnan(score):
            raise DataError(
                f"environment.verifier gave {score!r:.60} for {response!r:.60}: must be a number; "
                "a verifier of named parts or without a verdict cannot tell right from wrong"
            )
        return self.verifier.is_correct(float(score))

    def facts(self) -> Mapping[str, float]:
        """What became of the first attempt, once there are two."""
        if len(self.verdicts) < 2:
            return {}
        first, second = self.verdicts
        return {
            "first_right": float(first),
            "second_right": float(second),
            "helped": float(second and not first),
            "hurt": float(first and not second),
            "stayed_right": float(first and second),
            "stayed_wrong": float(not first and not second),
            "changed": float(self.attempts[0] != self.attempts[1]),
        }

    def close(self) -> None:
        """Nothing is held."""
