"""Step scores as token rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat
from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.keys import Key, OwnKey
from rlcomp.metrics import record


class StepRewards(Component):
    """Step rewards: ``r_t <- r_t + c p_k``, the score of step k at the token that ends it.

    A sum of positive scores grows with the number of steps. Use it with ``advantage=process``,
    which standardises them, or if this is intended; ``shaping=potential`` pays differences.

    Reads ``step_score``, ``step_end`` ``[B, T]``, and ``token_reward`` if it is there. Writes
    ``token_reward`` ``[B, T]``.

    Args:
        coef: c, weight of the scores, in reward units.

    Source:
        Shao et al. 2024, arXiv:2402.03300, section 4.1.3.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "step_score": (
            "B T",
            "float",
            "p_k: probability that the step which ends with the token is right",
            {"example": "probability"},
        ),
    }
    reads = ("step_score", "step_end", "response_mask")
    optional = ("token_reward",)
    writes = ("token_reward",)
    must_reach = ("token_reward",)

    def __init__(self, *, coef: NonNegativeFloat = 1.0) -> None:
        super().__init__()
        self.coef = coef

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the rewards of the tokens."""
        mask = batch["response_mask"]
        reward = self.coef * masked(batch["step_score"].detach(), batch["step_end"] & mask)
        record("reward/step", reward, where=batch["step_end"] & mask)
        if "token_reward" in batch.keys():
            reward = reward + masked(batch["token_reward"].detach(), mask)
        batch["token_reward"] = reward
        return batch
