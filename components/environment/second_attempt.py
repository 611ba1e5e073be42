"""Environment of two attempts with a message of the verifier between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rlcomp.arguments import Checked, NonEmptyText, NonNegativeFloat, Unbuilt
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.reward import TextReward
from rlcomp.interfaces.task import Example
from rlcomp.interfaces.verdicts import AnswerVerifier


class SecondAttempt(metaclass=Checked):
    """Environment that judges a first answer, replies, and takes a second answer.

    ``r_1`` and ``r_2`` are 1 if the first and the second attempt are right, else 0. The reward of
    the first turn is ``r_1``, the reward of the second turn ``alpha (r_2 - r_1)``. The run's reward
    judges the last turn and adds ``r_2``, so that with ``advantage=turn_return`` the second attempt
    has the reward ``r_2 + alpha (r_2 - r_1)``.

    With ``advantage.gamma=0`` the credit of each attempt is its own reward. With ``gamma=1`` a
    right first attempt loses the bonus ``alpha``, so that a wrong first attempt has a larger return
    if ``alpha > 1``.

    Facts of episodes with two attempts, 1 or 0: ``first_right``, ``second_right``; ``helped``
    (wrong, then right), ``hurt`` (right, then wrong), ``stayed_right``, ``stayed_wrong``; and
    ``changed``, whether the texts differ.

    Args:
        verifier: reward that scores single texts, the same as the run's.
        improvement: ``alpha``.
        tells: message after the first attempt. ``verdict``: ``right`` or ``wrong``. ``nothing``:
            ``again``, so that the policy must find a mistake by itself.
        right: the message after a right first attempt.
        wrong: the message after a wrong first attempt.
        again: the message with ``tells: nothing``.
        closing: text after the message.
        stop: text that ends an attempt and is not part of it; None: only the stop token ends it.

    Raises:
        ConfigError: the verifier is no reward that scores single texts.

    Source:
        Kumar et al. 2024 (SCoRe), arXiv:2409.12917, two attempts and the bonus of stage II. SCoRe
        has no verdict.
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
        self.verifier = AnswerVerifier(verifier, "environment.verifier")
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
        """Store the example and return an empty observation; ``seed`` is ignored."""
        del seed
        self.example = example
        return Turn()

    def step(self, action: str) -> Turn:
        """Judge an attempt; return a message after the first one, or end the episode."""
        if self.stop and not self.attempts:
            action = action.removesuffix(self.stop)
        right = self.verifier.is_right(self.example, action)
        self.attempts.append(action)
        self.verdicts.append(right)
        if len(self.verdicts) == 1:
            message = self.messages[right] if self.tells == "verdict" else self.again
            return Turn(observation=message, closing=self.closing, reward=float(right))
        first, second = self.verdicts
        return Turn(reward=self.improvement * (second - first), done=True)

    def facts(self) -> Mapping[str, float]:
        """Return the facts of both attempts; no facts after a single attempt."""
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
        """No-op."""
