"""Advantages for pass@k.

A dense ``token_reward``, if any, adds its reward-to-go to the advantage of every valid row.
"""

from __future__ import annotations

from typing import Annotated

from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import Ge, PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.best_of import group_best_of_k, pass_at_k_training_advantage, pkpo_advantage
from rlcomp.functional.group_statistics import Groups, varying_groups
from rlcomp.interfaces.advantage import broadcast
from rlcomp.metrics import record


class PassAtK(Component):
    """Pass@k advantage: leave-one-out gradient of the expected best of k responses.

    ``A_i = (1 / C(n, k)) sum_{|I| = k, i in I} (max_I R - max_{I - i} R) / (std_g(R) + eps)``:
    the mean gain of response i over the best of k of the group's n, over all subsets.

    With ``k = n`` (null) a single best response gets ``R_(1) - R_(2)`` and all other responses get
    0; with two best responses all advantages are 0. With ``k < n`` (PKPO) a best response has a
    positive advantage if at most ``n - k`` other responses are as good; the fewer they are, the
    larger it is. Without the std, ``sum_i A_i grad log pi(y_i)`` is the unbiased gradient of the
    expected best of k; the mean over responses is 1 / n of this gradient.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one or of fewer than k
    valid rewards, and for invalid rewards. Records the objective ``advantage/best_of_k``, the mean
    best of k; and ``advantage/tied_best``, the mean advantage of responses that share the best
    reward of a group with unequal rewards (0 with k = n).

    Args:
        k: number of responses of which the best counts; at most ``group_size``. Null: all responses
            of a group.
        epsilon: eps, in reward units; null: no division by the std.

    Source:
        Walder & Karkhanis 2025 (PKPO), arXiv:2505.15201, eq. 33; k = n: Tang et al. 2025,
        arXiv:2503.19595. The division is verl's.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward",)
    min_group_size = 2
    min_group_size_from = "k"

    def __init__(
        self,
        *,
        k: Annotated[int, Ge(2)] | None = None,
        epsilon: PositiveFloat | None = 1e-6,
    ) -> None:
        super().__init__()
        self.k = k
        self.epsilon = epsilon
        self.min_group_size = k or 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        rows = batch["reward"], batch["group_id"], batch["reward_valid"]
        best = group_best_of_k(*rows, self.k)
        record("advantage/best_of_k", best, where=~best.isnan())
        advantage = pkpo_advantage(*rows, self.k, self.epsilon)
        record("advantage/tied_best", advantage, where=_tied_best(*rows))
        return broadcast(batch, advantage)


def _tied_best(reward: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Return the mask of best responses that are not the only best of their group, ``[B]``."""
    groups = Groups(reward, group_id, valid)
    best = groups.comparable & (groups.reward == groups.highest(groups.valid))
    return (best & (groups.total(best.float()) > 1)).to(reward.device)


class PassAtKTraining(Component):
    """Pass@k training: GRPO's advantage of subsets of k responses, rewarded by their best.

    ``A_i = (mean_{|I| = k, i in I} max_I R - mean_I max_I R) / std_I(max_I R)`` over all
    ``C(n, k)`` subsets ``I`` of a group's n responses, in closed form.

    A wrong response has a smaller penalty if other responses of its subsets are right. PKPO
    (``advantage: pkpo``) never penalises a response and divides by the std over responses.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups whose subsets all have the same best reward (more than
    ``n - k`` right answers), in groups of fewer than k valid rewards, and for invalid rewards.
    Records the objective ``advantage/best_of_k``, the mean best of k; and ``advantage/certain``:
    among the responses of groups with unequal rewards, the share with advantage 0.

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
        record(
            "advantage/certain", advantage == 0, where=varying_groups(*rows) & batch["reward_valid"]
        )
        return broadcast(batch, advantage)
