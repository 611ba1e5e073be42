"""PretrainZero: equal total loss weight for proposer and predictor rows."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.functional.masked import masked
from rlcomp.functional.role_balance import equal_shares
from rlcomp.interfaces.loss import Part


class EqualRoles(Part):
    """Equal total weight for two roles (PretrainZero).

    ``c_i = (W_a + W_b) / (2 W_role(i))`` with ``W_a``, ``W_b`` = sum of ``loss_weight`` over the
    tokens of each role in the optimiser step; ``c_i = 1`` if one role is absent.

    The total stays ``W_a + W_b`` for every reduction. Other weights are not taken into account.

    Reads ``is_proposer`` ``[B]``, ``loss_weight``, ``response_mask`` ``[B, T]``. Writes
    ``token_weight`` ``[B, T]``.

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
