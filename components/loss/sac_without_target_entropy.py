"""Soft actor-critic with critics of the return without entropy."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.objectives import SACLoss


class SACWithoutTargetEntropy(SACLoss):  # type: ignore[misc]
    """torchrl's SAC with ``y = r + gamma (1 - terminated) min_i Q'_i(s', a')``, ``a' ~ pi``.

    The policy still gets its entropy bonus. A bonus in the target would reward long episodes, under
    a sparse reward more than reaching the goal.

    Source:
        Ball et al. 2023, arXiv:2302.02948, section 4.4 (``backup_entropy``); Luo et al. 2024,
        arXiv:2401.16013.
    """

    equation = "y = r + gamma (1 - terminated) min_i Q'_i(s', a'), a' ~ pi"
    _in_target = False

    @property
    def _alpha(self) -> Tensor:
        """The temperature, set to 0 for the target because torchrl has no switch for it."""
        alpha: Tensor = super()._alpha
        return torch.zeros_like(alpha) if self._in_target else alpha

    def _compute_target_v2(self, tensordict: TensorDict) -> Tensor:
        self._in_target = True
        target: Tensor = super()._compute_target_v2(tensordict)
        self._in_target = False
        return target
