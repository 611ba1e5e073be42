"""A price of KL that stays."""

from __future__ import annotations

from rlcomp.arguments import NonNegativeFloat
from rlcomp.interfaces.kl_controller import KLController


class FixedKL(KLController):
    """The same coefficient from the first step to the last.

    Args:
        kl_coef: beta, in reward units per nat; 0 keeps the metric only.

    Source:
        Shao et al. 2024, arXiv:2402.03300, eq. 3.
    """

    def __init__(self, *, kl_coef: NonNegativeFloat) -> None:
        super().__init__(kl_coef=kl_coef)
