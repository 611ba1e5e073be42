"""Non-linear utility of the expected returns (SER)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rlcomp.arguments import Fraction
from rlcomp.errors import ConfigError, NumericalError
from rlcomp.pareto.aggregator import Objectives
from rlcomp.pareto.expected_returns import ExpectedReturns


class Expected(ExpectedReturns):
    """Utility of the expected returns (SER).

    ``max g(J_1, ..., J_K)`` with weights ``w_k = dg/dJ_k``.

    A non-linear ``g`` of the rewards of each response would be another problem (ESR). J are running
    means over batches. Until every objective has data, the weights are 1/K.

    Args:
        function: g, from a tensor ``[K]`` in the order of the objectives to a number.
        decay: decay of the running means J.

    Raises:
        ConfigError: g returns no single number, or one that does not depend on J.
        NumericalError: dg/dJ is not finite.

    Source:
        Roijers et al. 2013, arXiv:1402.0590, section 3.2 (SER and ESR).
    """

    def __init__(self, *, function: Callable[[Tensor], Tensor], decay: Fraction = 0.9) -> None:
        super().__init__(decay=decay)
        self.function = function

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return ``dg/dJ`` at the current expected returns."""
        returns, _ = self.expected(objectives)
        if bool(returns.isnan().any()):
            return torch.full_like(returns, 1 / len(returns))
        with torch.enable_grad():
            at = returns.requires_grad_()
            value = self.function(at)
            if value.ndim or not value.requires_grad:
                raise ConfigError(
                    f"Expected: function gives {value!r}: it must be one number that depends on "
                    "the expected returns"
                )
            (gradient,) = torch.autograd.grad(value, at)
        if not bool(gradient.isfinite().all()):
            where = dict(zip(objectives.names, returns.tolist(), strict=True))
            raise NumericalError(f"Expected: the gradient of function is not finite at {where}")
        return gradient
