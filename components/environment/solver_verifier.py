"""Environment of a prover-verifier game: a solver answers, and a verifier judges the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rlcomp.arguments import Checked, NonEmptyText, Unbuilt
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.reward import TextReward
from rlcomp.interfaces.task import Example
from rlcomp.interfaces.verdicts import AnswerVerifier, read_verdict, verdict_options


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
        ConfigError: the verifier is no reward that scores single texts, or an option ends with the
            other option or contains the stop text.

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
        accepted = verdict == 0
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
