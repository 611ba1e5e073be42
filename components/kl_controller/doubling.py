"""A price of KL that is doubled or halved."""

from __future__ import annotations

from rlcomp.arguments import PositiveFloat
from rlcomp.functional.kl_coefficient import Unit, doubled_kl_coef
from rlcomp.interfaces.kl_controller import KLController


class DoublingKL(KLController):
    """Twice the coefficient above 1.5 times the target, half of it below ``target / 1.5``.

    Args:
        kl_coef: beta at first, in reward units per nat.
        target: nats, per ``unit``.
        unit: ``"sequence"``: per response; ``"token"``: mean over responses of the mean per token.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, section 4.
    """

    def __init__(self, *, kl_coef: PositiveFloat, target: PositiveFloat, unit: Unit) -> None:
        super().__init__(kl_coef=kl_coef)
        self.target = target
        self.unit = unit

    def observe(self, kl: float, num_sequences: int) -> None:
        """Double, halve or leave it."""
        del num_sequences
        self.kl_coef.fill_(doubled_kl_coef(self.coef(), kl, target=self.target))
