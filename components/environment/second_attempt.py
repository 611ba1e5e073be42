"""Self-correction environment: an attempt, a message of the verifier, a second attempt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rlcomp.arguments import Checked, NonEmptyText, NonNegativeFloat, Unbuilt
from rlcomp.interfaces.answer_verifier import AnswerVerifier
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.reward import TextReward
from rlcomp.interfaces.task import Example


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
        """Take the example; nothing is said."""
        del seed
        self.example = example
        return Turn()

    def step(self, action: str) -> Turn:
        """Judge an attempt: the first one is answered, the second one ends the episode."""
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
