"""Fixed KL coefficient."""

from __future__ import annotations

from rlcomp.arguments import NonNegativeFloat
from rlcomp.interfaces.kl_controller import KLController


class FixedKL(KLController):
    """Constant coefficient of the KL penalty.

    Args:
        kl_coef: beta, in reward units per nat; 0 only records the KL.

    Source:
        Shao et al. 2024, arXiv:2402.03300, eq. 3.
    """

    def __init__(self, *, kl_coef: NonNegativeFloat = 0.001) -> None:
        super().__init__(kl_coef=kl_coef)
