"""Doubling KL controller (PPO's adaptive KL penalty)."""

from __future__ import annotations

from rlcomp.arguments import PositiveFloat
from rlcomp.functional.kl_coefficient import Unit, doubling_kl_coef
from rlcomp.interfaces.kl_controller import KLController


class DoublingKL(KLController):
    """Doubling KL controller (PPO's adaptive KL penalty).

    ``beta <- 2 beta`` if ``KL > 1.5 target``, ``beta <- beta / 2`` if ``KL < target / 1.5``.

    Args:
        kl_coef: initial beta, in reward units per nat.
        target: nats, per ``unit``.
        unit: ``"sequence"``: per response; ``"token"``: mean over responses of the mean per token.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, section 4.
    """

    def __init__(
        self, *, kl_coef: PositiveFloat = 1.0, target: PositiveFloat = 0.01, unit: Unit = "token"
    ) -> None:
        super().__init__(kl_coef=kl_coef)
        self.target = target
        self.unit = unit

    def observe(self, kl: float, num_sequences: int) -> None:
        """Double, halve or keep beta."""
        del num_sequences
        self.kl_coef.fill_(doubling_kl_coef(self.coef(), kl, target=self.target))
