"""Prover-verifier game: a solver answers, a verifier says whether the answer is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rlcomp.arguments import Checked, NonEmptyText, Unbuilt
from rlcomp.interfaces.answer_verifier import AnswerVerifier
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.reward import TextReward
from rlcomp.interfaces.task import Example
from rlcomp.interfaces.verdict import said_verdict, verdict_options


class SolverVerifier(metaclass=Checked):
    """Seat 0 answers the prompt; seat 1 reads the answer and accepts or rejects it.

    A verdict is the option that the verifier's turn ends with: reasoning before it is free. With
    ``z = 1`` where the answer is right and ``v = 1`` where it is accepted, the verifier is paid
    ``1 - |v - z|``, and the solver ``z`` or, with ``paid_by="verdict"``, ``v``. A turn that ends
    with neither option is paid 0, and accepts nothing.

    Facts of a match, 1 or 0: ``right``, ``accepted``, ``judged`` (there is a verdict),
    ``verdict_right``; and of wrong answers ``accepted_wrong``.

    Args:
        verifier: a reward that scores single texts: what is true.
        paid_by: the ``truth`` pays the solver; or the ``verdict``, which wrong answers can win.
        accept: text of the verdict that the answer is right.
        reject: that it is wrong.
        asks: stands between the answer and the verdict.
        stop: text that ends a turn and is not part of it; null: only the stop token does.

    Raises:
        ConfigError: the verifier is no text reward that scores by itself, or one option ends with
            the other, or holds the stop text.

    Source:
        Anil et al. 2021 (prover-verifier games), arXiv:2108.12099; Zhang et al. 2024,
        arXiv:2408.15240 (verdicts behind a reasoning).
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
        """Take the example; the solver moves."""
        del seed
        self.example = example
        return Turn(seat=0)

    def step(self, action: str) -> Turn:
        """Take the answer, which the verifier is shown; then the verdict, and pay."""
        said = action.removesuffix(self.stop) if self.stop else action
        if self.right is None:
            self.right = self.verifier.is_right(self.example, said)
            return Turn(observation=said, closing=self.asks, seat=1)
        verdict = said_verdict(said, self.options)
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
        """What became of the answer and of the verdict, once there are both."""
        return self.told

    def close(self) -> None:
        """Nothing is held."""
