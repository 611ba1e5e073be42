"""Group advantage of trees of episodes: a row is weighted by its share of an episode."""

from __future__ import annotations

from typing import Literal

from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.branching import share_centred, share_std
from rlcomp.interfaces.advantage import broadcast
from rlcomp.interfaces.trees import roots


class BranchShare(Component):
    """Group advantage in which a row is weighted by its share of an independent episode.

    ``A_i = (R_i - sum_j s_j R_j / S) / (std + eps)``, ``S = sum_j s_j``, with ``s`` =
    ``branch_share`` and ``std^2 = sum_j s_j (R_j - mean)^2 / (S - 1)``. Without branches that is
    GRPO's. The loss has to weigh rows by ``s`` as well (``attribution=share`` sets both).

    With ``baseline=others`` the mean leaves the row's own tree out. With ``norm=none`` as well,
    the expected gradient is exact for every branching rule and a fixed number of trees.

    Reads ``reward``, ``reward_valid``, ``group_id``, ``trajectory_id``, ``branch_parent``,
    ``branch_share`` ``[B]``, ``response_mask`` ``[B, T]``. Writes ``advantage`` ``[B, T]``: 0 in
    groups of equal rewards and for invalid rewards.

    Args:
        baseline: ``group``, the mean over all trees of the group; or ``others``.
        norm: ``std``, or ``none``.
        epsilon: added to the standard deviation, in reward units.

    Source:
        The group baseline of Shao et al. 2024, arXiv:2402.03300, eq. 3, over the trees of Dong et
        al. 2025 (ARPO), arXiv:2507.19849.
    """

    reads = (
        "reward",
        "reward_valid",
        "group_id",
        "trajectory_id",
        "branch_parent",
        "branch_share",
        "response_mask",
    )
    optional = ("token_reward",)
    writes = ("advantage",)
    min_group_size = 2

    def __init__(
        self,
        *,
        baseline: Literal["group", "others"] = "group",
        norm: Literal["std", "none"] = "std",
        epsilon: PositiveFloat = 1e-6,
    ) -> None:
        super().__init__()
        self.others = baseline == "others"
        self.epsilon = epsilon if norm == "std" else None

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        reward, share = batch["reward"], batch["branch_share"]
        group, valid = batch["group_id"], batch["reward_valid"]
        root = roots(batch["trajectory_id"], batch["branch_parent"])
        advantage = share_centred(reward, share, root, group, valid, others=self.others)
        if self.epsilon is not None:
            advantage = advantage / (share_std(reward, share, group, valid) + self.epsilon)
        return broadcast(batch, advantage)
