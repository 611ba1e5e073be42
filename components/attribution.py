"""ARPO's hard attribution: rows that share a token share the mean of their advantages."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.branching import hard_attribution
from rlcomp.interfaces.advantage import write_advantage


class HardAttribution(Component):
    """ARPO's hard attribution.

    ``A_it = (1 / d) sum_{j in D} A_jt`` over the ``d`` rows ``D`` of the group with the same tokens
    up to ``t``, observations included. Without this stage the attribution is soft: a token that
    ``d`` rows share has ``d`` terms in the loss, with the same sum. Both have the same gradient if
    all rows have equal weights (``loss/reduction=token_mean``) and no token is clipped.

    Reads ``advantage``, ``tokens``, ``response_mask`` ``[B, T]``, ``reward_valid``, ``group_id``
    ``[B]``. Writes ``advantage`` ``[B, T]``. Rows without a valid reward are in no mean.

    Source:
        Dong et al. 2025 (ARPO), arXiv:2507.19849, section 3.3.
    """

    reads = ("advantage", "tokens", "response_mask", "reward_valid", "group_id")
    writes = ("advantage",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Replace the advantage."""
        mask = batch["response_mask"] & batch["reward_valid"][:, None]
        advantage = hard_attribution(batch["advantage"], mask, batch["tokens"], batch["group_id"])
        return write_advantage(batch, advantage)
