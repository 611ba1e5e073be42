"""Prover-verifier game: a solver answers, a verifier judges the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rlcomp.arguments import Checked, NonEmptyText, Unbuilt
from rlcomp.interfaces.answer_verifier import AnswerVerifier, read_verdict, verdict_options
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.reward import TextReward
from rlcomp.interfaces.task import Example


class SolverVerifier(metaclass=Checked):
    """Match in which seat 0 answers the prompt and seat 1 accepts or rejects the answer.

    The verdict is the option at the end of the verifier's turn; any reasoning may precede it. With
    ``z = 1`` for a right answer and ``v = 1`` for an accepted one, the verifier is paid
    ``1 - |v - z|``, and the solver ``z`` or, with ``paid_by="verdict"``, ``v``. A turn that ends
    with neither option is paid 0 and does not accept.

    Facts of a match, 1 or 0: ``right``, ``accepted``, ``judged`` (there is a verdict),
    ``verdict_right``; for wrong answers also ``accepted_wrong``.

    Args:
        verifier: a reward that scores single texts and gives the truth.
        paid_by: ``truth`` or ``verdict`` pays the solver; a wrong answer can win the verdict.
        accept: text of the verdict that the answer is right.
        reject: text of the verdict that it is wrong.
        asks: text between the answer and the verdict.
        stop: text that ends a turn and is not part of it; null: only the stop token ends it.

    Raises:
        ConfigError: the verifier is no text reward that scores by itself, or an option ends with
            the other or holds the stop text.

    Source:
        Anil et al. 2021 (prover-verifier games), arXiv:2108.12099; Zhang et al. 2024,
        arXiv:2408.15240 (verdicts after a reasoning).
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
        self.told: dict[str, float] = {}

    def reset(self, example: Example, seed: int) -> Turn:
        """Store the example; the solver moves first."""
        del seed
        self.example = example
        return Turn(seat=0)

    def step(self, action: str) -> Turn:
        """Show the answer to the verifier; after its verdict, pay both seats."""
        text = action.removesuffix(self.stop) if self.stop else action
        if self.right is None:
            self.right = self.verifier.is_right(self.example, text)
            return Turn(observation=text, closing=self.asks, seat=1)
        verdict = read_verdict(text, self.options)
        accepted = verdict == 0
        agrees = verdict is not None and accepted == self.right
        self.told = {
            "right": float(self.right),
            "accepted": float(accepted),
            "judged": float(verdict is not None),
            "verdict_right": float(agrees),
        } | ({} if self.right else {"accepted_wrong": float(accepted)})
        solver = self.right if self.paid_by == "truth" else accepted
        return Turn(done=True, payoffs=(float(solver), float(agrees)))

    def facts(self) -> Mapping[str, float]:
        """Return the facts of the answer and the verdict; none before both are there."""
        return self.told

    def close(self) -> None:
        """No-op: it holds nothing."""
