"""Weights of rows and tokens.

Filters record the share of dropped tokens, ``weight/dropped_<filter>``.
"""

from __future__ import annotations

from typing import Annotated

import torch
from tensordict import TensorDict

from rlcomp.arguments import Interval
from rlcomp.functional.group_statistics import equal_shares
from rlcomp.functional.importance import upper_quantile
from rlcomp.functional.ratio import ROUNDING
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.loss import LossPart
from rlcomp.metrics import record


class BranchShareWeight(LossPart):
    """Weight of the rows of a tree, so that each tree counts as one episode.

    ``c_i = s_i n / sum_j s_j`` over the ``n`` rows with a response in the optimiser step, ``s`` =
    ``branch_share``: a mean over rows becomes a mean over trees.

    Each branching replaces one continuation by the mean of several. With these weights and a fixed
    number of trees, the expected gradient equals the gradient of independent episodes for every
    branching rule. Without the weights, rows from states with many branches weigh too much.

    Reads ``branch_share`` ``[B]``, ``response_mask`` ``[B, T]``. Writes ``token_weight``
    ``[B, T]``. Prepares ``tree_weight`` ``[B]``.

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
        has_response = batch["response_mask"].any(1)
        share = masked(batch["branch_share"], has_response)
        total = share.sum()
        scale = has_response.sum() / total.clamp(min=1e-12)  # 0 / 0 if no row has a response
        return batch.select().set("tree_weight", share * scale)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Broadcast the factors to tokens."""
        mask = batch["response_mask"]
        weight = self.prepared(batch)["tree_weight"][:, None].expand(mask.shape)
        batch["token_weight"] = masked(weight, mask)
        return batch


class EqualRoleWeight(LossPart):
    """Equal total weight for two roles (PretrainZero).

    ``c_i = (W_a + W_b) / (2 W_role(i))`` with ``W_a``, ``W_b`` = sum of ``loss_weight`` over the
    tokens of each role in the optimiser step; ``c_i = 1`` if one role is absent.

    The total stays ``W_a + W_b`` for every reduction. ``W`` ignores other weights of the loss.

    Reads ``is_proposer`` ``[B]``, ``loss_weight``, ``response_mask`` ``[B, T]``. Writes
    ``token_weight`` ``[B, T]``. Prepares ``role_weight`` ``[B]``.

    Source:
        PretrainZero, arXiv:2512.03442: the batches of both roles, joined with equal weight.
    """

    keys = {
        "role_weight": (
            "B",
            "float",
            "factor that makes two roles weigh the same in the whole step",
        ),
        "is_proposer": ("B", "bool", "the row poses a question; the others answer one"),
    }
    equation = "c_t = (W_a + W_b) / (2 W_role), W = sum of w_t over a role"
    reads = ("is_proposer", "loss_weight", "response_mask")
    writes = ("token_weight",)
    step_keys = ("role_weight",)
    needs_forward = False
    changes_on_policy_gradient = True  # it drops no token, but it changes the gradient

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return the factor of each row's role, ``[B]``."""
        share = masked(batch["loss_weight"], batch["response_mask"]).sum(1)
        return batch.select().set("role_weight", equal_shares(share, batch["is_proposer"]))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Broadcast the factors to tokens."""
        mask = batch["response_mask"]
        weight = self.prepared(batch)["role_weight"][:, None].expand(mask.shape)
        batch["token_weight"] = masked(weight, mask)
        return batch


class OverlongMask(LossPart):
    """DAPO's overlong filtering.

    ``c_it = 0`` if response ``i`` is truncated, else 1.

    Truncated responses stay in the denominator of the loss and in the statistics of their group.

    Reads ``truncated`` ``[B]``, ``response_mask`` ``[B, T]``. Writes ``token_weight`` ``[B, T]``.

    Source:
        Yu et al. 2025 (DAPO), arXiv:2503.14476, section 3.4 (overlong filtering).
    """

    equation = "c_t = 0 if the response is truncated, else 1"
    reads = ("truncated", "response_mask")
    writes = ("token_weight",)
    changes_on_policy_gradient = True

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write 1 for the tokens of complete answers, else 0."""
        mask, cut = batch["response_mask"], batch["truncated"][:, None]
        record("weight/dropped_overlong", cut.expand_as(mask), where=mask)
        batch["token_weight"] = (mask & ~cut).to(torch.get_default_dtype())
        return batch


class TopEntropy(LossPart):
    """Top-entropy token filter (the 80/20 rule): train on high-entropy tokens only.

    ``c_t = 1[H_t >= Q_{1 - rho}(H)]`` with ``rho`` = ``fraction`` and the quantile over all
    response tokens of the optimiser step.

    Dropped tokens stay in the denominator of the loss.

    Reads ``entropy``, ``response_mask`` ``[B, T]``. Writes ``token_weight`` ``[B, T]``. Prepares
    ``entropy_floor`` ``[B]``.

    Args:
        fraction: rho, share of the tokens to keep; 1 keeps all.

    Source:
        Wang et al. 2025, "Beyond the 80/20 rule", arXiv:2506.01939, eq. 5.
    """

    equation = "c_t = 1[H_t >= Q(H)], Q keeps a share {fraction} of the tokens"
    reads = ("entropy", "response_mask")
    writes = ("token_weight",)
    keys = {
        "entropy_floor": (
            "B",
            "float",
            "least entropy of a trained token, for the whole step, nats",
        )
    }
    step_keys = ("entropy_floor",)
    changes_on_policy_gradient = True

    def __init__(self, *, fraction: Annotated[float, Interval(gt=0, le=1)] = 0.2) -> None:
        super().__init__()
        self.fraction = fraction

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return the entropy threshold in nats, ``[B]``, the same for all rows."""
        mask = batch["response_mask"]
        # Responses with a common prefix have ties there up to rounding; all ties are kept.
        floor = upper_quantile(batch["entropy"], mask, self.fraction) - ROUNDING
        return batch.select().set("entropy_floor", floor.expand(len(mask)))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write 1 for tokens of high entropy, else 0."""
        mask, entropy = batch["response_mask"], batch["entropy"].detach()
        keep = entropy >= self.prepared(batch)["entropy_floor"][:, None]
        record("weight/dropped_top_entropy", ~keep, where=mask)
        batch["token_weight"] = masked(keep.to(entropy.dtype), mask)
        return batch
