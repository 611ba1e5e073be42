"""Adaptive KL controller (Ziegler et al. 2019)."""

from __future__ import annotations

from rlcomp.arguments import PositiveFloat
from rlcomp.functional.kl_coefficient import Unit, adaptive_kl_coef
from rlcomp.interfaces.kl_controller import KLController


class AdaptiveKL(KLController):
    """Adaptive KL controller (Ziegler et al. 2019), proportional in log space.

    ``beta <- beta * (1 + clip(KL / target - 1, -0.2, 0.2) * n / horizon)`` with ``n`` responses in
    the batch.

    Args:
        kl_coef: initial beta, in reward units per nat.
        target: nats, per ``unit``.
        unit: ``"sequence"``: per response; ``"token"``: mean over responses of the mean per token.
        horizon: time constant, in responses.

    Source:
        Ziegler et al. 2019, arXiv:1909.08593, section 2.2.
    """

    def __init__(
        self,
        *,
        kl_coef: PositiveFloat = 0.2,
        target: PositiveFloat = 6.0,
        unit: Unit = "sequence",
        horizon: PositiveFloat = 10000,
    ) -> None:
        super().__init__(kl_coef=kl_coef)
        self.target = target
        self.unit = unit
        self.horizon = horizon

    def observe(self, kl: float, num_sequences: int) -> None:
        """Move beta so that the KL approaches the target."""
        moved = adaptive_kl_coef(
            self.coef(),
            kl,
            target=self.target,
            horizon=self.horizon,
            num_sequences=num_sequences,
        )
        self.kl_coef.fill_(moved)
