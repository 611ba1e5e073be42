"""Loss weight for trees of episodes: a row's share of an independent episode."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.functional.masked import masked
from rlcomp.interfaces.loss import Part


class BranchShareWeight(Part):
    """Weight of a row by its share of an independent episode.

    ``c_i = s_i n / sum_j s_j`` over the ``n`` rows with a response in the optimiser step, ``s`` =
    ``branch_share``: a mean over rows becomes a mean over trees.

    Each branching replaces one continuation by the mean of several. With these weights and a fixed
    number of trees, the expected gradient equals that of independent episodes for every branching
    rule. Without them rows from places with many branches weigh too much.

    Reads ``branch_share`` ``[B]``, ``response_mask`` ``[B, T]``. Writes ``token_weight`` ``[B,
    T]``.

    Source:
        Trees of Dong et al. 2025 (ARPO), arXiv:2507.19849; the weights are those of splitting in
        Monte Carlo (Kahn and Harris 1951).
    """

    keys = {
        "tree_weight": ("B", "float", "weight of the row by its share, mean 1 in the whole step")
    }
    equation = "c_t = s n / sum_j s_j, s = branch_share, n rows"
    reads = ("branch_share", "response_mask")
    writes = ("token_weight",)
    step_keys = ("tree_weight",)
    needs_forward = False
    changes_on_policy_gradient = True  # it drops no token, but it changes the gradient

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return the factor of each row, ``[B]``."""
        counted = batch["response_mask"].any(1)
        share = masked(batch["branch_share"], counted)
        total = share.sum()
        scale = counted.sum() / total.clamp(min=1e-12)
        return batch.select().set("tree_weight", share * scale)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Broadcast the factors to tokens."""
        mask = batch["response_mask"]
        weight = self.prepared(batch)["tree_weight"][:, None].expand(mask.shape)
        batch["token_weight"] = masked(weight, mask)
        return batch
