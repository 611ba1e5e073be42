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

    The sum over an answer is ``-c Phi`` of its prompt, whatever it says: the best policy stays the
    best, the order of a group too, and only credit moves to the tokens that raise the potential.
    With ``gamma`` other than the return's that is lost, and so it is where a critic's value stands
    behind a truncated answer (``advantage.bootstrap_truncated``): Phi is 0 there, too.

    Runs the potential. Reads ``response_mask`` ``[B, T]``, and ``token_reward`` where it is there.
    Writes ``token_reward`` ``[B, T]``. Records ``reward/potential_step``, the mean absolute ``F``
    of a token.

    Args:
        potential: writes ``potential`` ``[B, T]``, Phi of the state before the token.
        coef: c.
        gamma: discount per token of the response: the return's.

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
        """Add to the rewards of the tokens."""
        mask = batch["response_mask"]
        phi = self.potential(batch.copy())["potential"].detach()
        reward = self.coef * potential_shaping(phi, mask, self.gamma)
        record("reward/potential_step", reward.abs(), where=mask)
        if "token_reward" in batch.keys():
            reward = reward + masked(batch["token_reward"].detach(), mask)
        batch["token_reward"] = reward
        return batch
