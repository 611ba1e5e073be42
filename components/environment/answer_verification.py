"""Environments in which a verifier judges answers: two attempts, and a prover-verifier game."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rlcomp.arguments import Checked, NonEmptyText, NonNegativeFloat, Unbuilt
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.reward import TextReward
from rlcomp.interfaces.task import Example
from rlcomp.interfaces.verdicts import AnswerVerifier, read_verdict, verdict_options


class SecondAttempt(metaclass=Checked):
    """Environment that judges a first answer, replies, and takes a second answer.

    ``r_1`` and ``r_2`` are 1 if the first and the second attempt are right, else 0. The rewards of
    the turns are ``r_1`` and ``alpha (r_2 - r_1)``. The run's reward adds ``r_2`` to the last turn,
    so that with ``advantage=turn_return`` the second attempt has the reward
    ``r_2 + alpha (r_2 - r_1)``. With ``advantage.gamma=0`` the credit of each attempt is its own
    reward; with ``gamma=1`` and ``alpha > 1`` a wrong first attempt has the larger return.

    Facts of episodes with two attempts, 1 or 0: ``first_right``, ``second_right``; ``helped``
    (wrong, then right), ``hurt`` (right, then wrong), ``stayed_right``, ``stayed_wrong``; and
    ``changed``, whether the texts differ.

    Args:
        verifier: reward that scores single texts, the same as the run's.
        improvement: ``alpha``.
        tells: message after the first attempt. ``verdict``: ``right`` or ``wrong``. ``nothing``:
            ``again``, without the verdict.
        right: the message after a right first attempt.
        wrong: the message after a wrong first attempt.
        again: the message with ``tells: nothing``.
        closing: text after the message.
        stop: text that ends an attempt, removed from the first one only; None: only the stop token
            ends an attempt.

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


class SolverVerifier(metaclass=Checked):
    """Match in which seat 0 answers the prompt and seat 1 accepts or rejects the answer.

    The verdict is the option at the end of the verifier's turn, after any reasoning. ``z`` is 1 for
    a right answer, else 0; ``v`` is 1 for an accepted answer, else 0. The payoff of the verifier is
    ``1 - |v - z|``. The payoff of the solver is ``z`` or, with ``paid_by="verdict"``, ``v``. If the
    verifier's turn ends with neither option, ``v`` is 0 and so is the payoff of the verifier.

    Facts of a match, 1 or 0: ``right``, ``accepted``, ``judged`` (there is a verdict),
    ``verdict_right``; for wrong answers also ``accepted_wrong``.

    Args:
        verifier: reward that scores single texts and so computes ``z``.
        paid_by: payoff of the solver. ``truth``: ``z``. ``verdict``: ``v``, which may be 1
            for a wrong answer.
        accept: text of the verdict that the answer is right.
        reject: text of the verdict that it is wrong.
        asks: text between the answer and the verdict.
        stop: text that ends a turn and is not part of it; None: only the stop token ends it.

    Raises:
        ConfigError: the verifier is no reward that scores single texts, or an option ends with
            space or with the other option, or contains the stop text.

    Source:
        Anil et al. 2021 (prover-verifier games), arXiv:2108.12099; Zhang et al. 2024,
        arXiv:2408.15240 (verdicts after reasoning).
    """

    def __init__(
        self,
        *,
        verifier: TextReward | Unbuilt,
        paid_by: Literal["truth", "verdict"] = "truth",
        accept: NonEmptyText = "y",
        reject: NonEmptyText = "n",
        asks: NonEmptyText = "?",
        stop: NonEmptyText | None = None,
    ) -> None:
        self.options = verdict_options("environment", accept, reject, stop)
        self.verifier = AnswerVerifier(verifier, "environment.verifier")
        self.paid_by = paid_by
        self.asks = asks
        self.stop = stop
        self.stops = (stop,) if stop else ()
        self.right: bool | None = None
        self.match_facts: dict[str, float] = {}

    def reset(self, example: Example, seed: int) -> Turn:
        """Store the example; the solver moves first. ``seed`` is ignored."""
        del seed
        self.example = example
        return Turn(seat=0)

    def step(self, action: str) -> Turn:
        """Return the answer to the verifier, or the payoffs of both seats after the verdict."""
        text = action.removesuffix(self.stop) if self.stop else action
        if self.right is None:
            self.right = self.verifier.is_right(self.example, text)
            return Turn(observation=text, closing=self.asks, seat=1)
        verdict = read_verdict(text, self.options)
        accepted = verdict == 0  # the index of the accepting option
        agrees = verdict is not None and accepted == self.right
        self.match_facts = {
            "right": float(self.right),
            "accepted": float(accepted),
            "judged": float(verdict is not None),
            "verdict_right": float(agrees),
        } | ({} if self.right else {"accepted_wrong": float(accepted)})
        solver = self.right if self.paid_by == "truth" else accepted
        return Turn(done=True, payoffs=(float(solver), float(agrees)))

    def facts(self) -> Mapping[str, float]:
        """Return the facts of the match; no facts before the verdict."""
        return self.match_facts

    def close(self) -> None:
        """No-op."""
