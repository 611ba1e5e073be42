"""Solver and verifier: an answer, and a verdict on it by another player."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Literal

from rlcomp.arguments import Checked, NonEmptyText
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class SolverVerifier(metaclass=Checked):
    """Seat 0 answers the prompt; seat 1 is shown the answer and says whether it is right.

    Seat 1 is paid 1 for a verdict that agrees with the gold answer, else 0. Seat 0 is paid 1 for an
    answer that seat 1 accepts (``paid_by="verdict"``: it never sees the gold answer) or that is
    right (``"answer"``).

    Facts: ``right``, ``accepted`` and ``agreed``, 1 or 0.

    Args:
        paid_by: what the solver is paid for.
        accept: text of the verdict that the answer is right.
        refuse: that it is wrong.
        ask: stands between the answer and the verdict.

    Source:
        Kirchner et al. 2024 (prover-verifier games), arXiv:2407.13692, section 3.

    Examples:
        >>> game = SolverVerifier()
        >>> _ = game.reset(Example("2+2=", "4", ""), seed=0)
        >>> game.step("5").observation, game.step("n").payoffs
        ('5?', (0.0, 1.0))
    """

    def __init__(
        self,
        *,
        paid_by: Literal["verdict", "answer"] = "verdict",
        accept: NonEmptyText = "y",
        refuse: NonEmptyText = "n",
        ask: str = "?",
    ) -> None:
        if accept == refuse:
            raise ConfigError(f"environment.accept and .refuse are both {accept!r}: must differ")
        self.paid_by = paid_by
        self.accept = accept
        self.refuse = refuse
        self.ask = ask
        self.stops = (accept, refuse)
        self.gold = ""
        self.answered: str | None = None
        self.told: dict[str, float] = {}

    def reset(self, example: Example, seed: int) -> Turn:
        """Take the example; nothing is said."""
        del seed
        self.gold = example.answer
        return Turn(seat=0)

    def step(self, action: str) -> Turn:
        """Show the answer to the verifier; after its verdict, pay."""
        if self.answered is None:
            self.answered = action
            return Turn(observation=action + self.ask, seat=1)
        right, accepted = self.answered == self.gold, action == self.accept
        agreed = action == (self.accept if right else self.refuse)
        self.told = {"right": float(right), "accepted": float(accepted), "agreed": float(agreed)}
        solver = accepted if self.paid_by == "verdict" else right
        return Turn(done=True, payoffs=(float(solver), float(agreed)))

    def facts(self) -> Mapping[str, float]:
        """What became of the answer, once there is a verdict."""
        return self.told

    def fork(self) -> SolverVerifier:
        """Another one at the same place."""
        return copy.copy(self)

    def close(self) -> None:
        """Nothing is held."""
