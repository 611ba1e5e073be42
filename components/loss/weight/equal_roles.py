"""Those who pose questions and those who answer them share a step equally."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.functional.masked import masked
from rlcomp.functional.role_balance import equal_shares
from rlcomp.interfaces.loss import Part


class EqualRoles(Part):
    """Weights with which both roles have half of the optimiser step's weight each.

    The weight of a role is the sum of ``loss_weight`` over its tokens, whatever the reduction made
    it; both together weigh what they did. Other weights do not count. A role that has the step to
    itself keeps weight 1.

    Reads ``poser`` ``[B]``, ``loss_weight``, ``response_mask`` ``[B, T]``. Writes ``token_weight``
    ``[B, T]``.

    Source:
        PretrainZero, arXiv:2512.03442: the batches of both roles, joined with equal weight.
    """

    reads = ("poser", "loss_weight", "response_mask")
    writes = ("token_weight",)
    prepares = ("role_weight",)
    from_model = False
    filters = True  # it takes nothing out, but the gradient is not the plain one

    def prepare(self, batch: TensorDict) -> TensorDict:
        """The factor of each row's role, ``[B]``."""
        share = masked(batch["loss_weight"], batch["response_mask"]).sum(1)
        return batch.select().set("role_weight", equal_shares(share, batch["poser"]))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the factors, token by token."""
        mask = batch["response_mask"]
        weight = self.prepared(batch)["role_weight"][:, None].expand(mask.shape)
        batch["token_weight"] = masked(weight, mask)
        return batch
