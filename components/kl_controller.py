"""Controllers of the KL coefficient."""

from __future__ import annotations

from typing import Annotated, Literal

from rlcomp.arguments import Interval, NonNegativeFloat, PositiveFloat
from rlcomp.functional.kl_coefficient import Unit, adaptive_kl_coef, doubling_kl_coef, interpolate
from rlcomp.interfaces.kl_controller import KLController
from rlcomp.metrics import progress


class FixedKL(KLController):
    """Constant coefficient of the KL penalty.

    Args:
        kl_coef: beta, in reward units per nat; 0 only records the KL.

    Source:
        Shao et al. 2024, arXiv:2402.03300, eq. 3.
    """

    def __init__(self, *, kl_coef: NonNegativeFloat = 0.001) -> None:
        super().__init__(kl_coef=kl_coef)


class AdaptiveKL(KLController):
    """Adaptive KL controller (Ziegler et al. 2019), proportional in log space.

    ``beta <- beta * (1 + clip(KL / target - 1, -0.2, 0.2) * min(n / horizon, 1))`` with ``n``
    responses in the batch. A KL that is not finite, or is below 1e-4 of the target, leaves beta as
    it is.

    Args:
        kl_coef: initial beta, in reward units per nat.
        target: target of the measured KL, nats per ``unit``.
        unit: unit of the measured KL. ``"sequence"``: nats per response; ``"token"``: nats per
            token, first averaged over the tokens of each response.
        horizon: time constant of the update, in responses.

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
        """Update beta so that the KL approaches the target."""
        coef = adaptive_kl_coef(
            self.coef(),
            kl,
            target=self.target,
            horizon=self.horizon,
            num_sequences=num_sequences,
        )
        self.kl_coef.fill_(coef)


class DoublingKL(KLController):
    """Doubling KL controller (PPO's adaptive KL penalty).

    ``beta <- 2 beta`` if ``KL > 1.5 target``, ``beta <- beta / 2`` if ``KL < target / 1.5``, within
    [1e-8, 1e8]. A KL that is not finite, or is below 1e-4 of the target, leaves beta as it is.

    Args:
        kl_coef: initial beta, in reward units per nat.
        target: target of the measured KL, nats per ``unit``.
        unit: unit of the measured KL. ``"sequence"``: nats per response; ``"token"``: nats per
            token, first averaged over the tokens of each response.

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


PhaseShare = Annotated[float, Interval(gt=0, le=1)]


class ScheduledKL(KLController):
    """KL coefficient on a linear or cosine schedule.

    ``beta`` goes from ``start * kl_coef`` to ``end * kl_coef`` over the first share ``over`` of the
    phase, and then stays constant.

    Args:
        kl_coef: the scale, in reward units per nat.
        start: initial beta, in units of ``kl_coef``.
        end: final beta, in units of ``kl_coef``.
        shape: ``linear`` or ``cosine``, the curve between ``start`` and ``end``.
        over: share of the phase after which beta is ``end * kl_coef``.

    Source:
        Loshchilov & Hutter 2016, arXiv:1608.03983, eq. 5 (the cosine).
    """

    def __init__(
        self,
        *,
        kl_coef: NonNegativeFloat = 0.001,
        start: NonNegativeFloat = 1.0,
        end: NonNegativeFloat = 0.0,
        shape: Literal["linear", "cosine"] = "linear",
        over: PhaseShare = 1.0,
    ) -> None:
        super().__init__(kl_coef=kl_coef)
        self.start = start
        self.end = end
        self.shape: Literal["linear", "cosine"] = shape
        self.over = over

    def coef(self) -> float:
        """Return the coefficient at this point of the phase."""
        share = interpolate(self.start, self.end, progress() / self.over, self.shape)
        return float(self.kl_coef) * share
