"""Potential-based shaping of token rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, Probability
from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.functional.process_reward import potential_shaping
from rlcomp.keys import Key, OwnKey
from rlcomp.metrics import record


class Potential(Component):
    """Potential-based shaping: ``r_t <- r_t + c (gamma Phi(s_{t+1}) - Phi(s_t))``.

    The sum over every answer is ``-c Phi`` of its prompt. So the best policy and the order within a
    group stay the same, and only credit moves to the tokens that raise the potential. This does
    not hold if ``gamma`` differs from the return's, or with a critic's value after a truncated
    answer (``advantage.bootstrap_truncated``), where Phi is 0 too.

    Runs the potential. Reads ``response_mask`` ``[B, T]``, and ``token_reward`` if it is there.
    Writes ``token_reward`` ``[B, T]``. Records ``reward/potential_step``, the mean absolute ``F``
    of a token.

    Args:
        potential: the potential; writes ``potential`` ``[B, T]``, Phi of the state before the
            token.
        coef: c, weight of the shaping.
        gamma: discount per token of the response, the same as the return's.

    Source:
        Ng, Harada, Russell 1999, "Policy invariance under reward transformations", theorem 1.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "potential": ("B T", "float", "Phi of the state before the token, in reward units"),
    }
    reads = ("response_mask",)
    optional = ("token_reward",)
    writes = ("token_reward",)
    must_reach = ("token_reward",)
    runs = ("potential",)
    contained = True

    def __init__(
        self, *, potential: Component, coef: NonNegativeFloat = 1.0, gamma: Probability = 1.0
    ) -> None:
        super().__init__()
        self.potential = potential
        self.coef = coef
        self.gamma = gamma

    def forward(self, batch: TensorDict) -> TensorDict:
        """Add the shaping to the token rewards."""
        mask = batch["response_mask"]
        phi = self.potential(batch.copy())["potential"].detach()
        reward = self.coef * potential_shaping(phi, mask, self.gamma)
        record("reward/potential_step", reward.abs(), where=mask)
        if "token_reward" in batch.keys():
            reward = reward + masked(batch["token_reward"].detach(), mask)
        batch["token_reward"] = reward
        return batch
