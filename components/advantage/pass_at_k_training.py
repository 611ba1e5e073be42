"""Pass@k training: the standardised reward of subsets of k, shared by their responses."""

from __future__ import annotations

from typing import Annotated

from tensordict import TensorDict

from rlcomp.arguments import Ge
from rlcomp.component import Component
from rlcomp.functional.best_of_k import group_best_of_k, pass_at_k_training_advantage
from rlcomp.functional.group_accuracy import varied
from rlcomp.interfaces.advantage import broadcast
from rlcomp.metrics import record


class PassAtKTraining(Component):
    """Pass@k training: GRPO's advantage of subsets of k responses, rewarded by their best.

    ``A_i = (mean_{|I| = k, i in I} max_I R - mean_I max_I R) / std_I(max_I R)`` over all
    ``C(n, k)`` subsets ``I`` of a group's n responses, in closed form.

    A response gets less blame if the subsets that hold it succeed through others. Unlike PKPO
    (``advantage: pkpo``) it blames failures, and divides by the std over the subsets.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 where all subsets have the same best (more than ``n - k`` right
    answers), in groups of fewer than k valid rewards, and for invalid rewards. Records the
    objective (the groups' mean best of k) and ``advantage/certain``: among the responses of
    groups that vary, the share with advantage 0 because all subsets have the same best.

    Args:
        k: size of a subset; at most ``group_size``.

    Source:
        Chen et al. 2025, arXiv:2508.10751 (analytical derivation).
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward",)
    min_group_size = 2
    min_group_size_from = "k"

    def __init__(self, *, k: Annotated[int, Ge(2)] = 4) -> None:
        super().__init__()
        self.k = k
        self.min_group_size = k

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        rows = batch["reward"], batch["group_id"], batch["reward_valid"]
        best = group_best_of_k(*rows, self.k)
        record("advantage/best_of_k", best, where=~best.isnan())
        advantage = pass_at_k_training_advantage(*rows, self.k)
        record("advantage/certain", advantage == 0, where=varied(*rows) & batch["reward_valid"])
        return broadcast(batch, advantage)
