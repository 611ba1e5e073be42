"""Top-entropy token filter (the 80/20 rule)."""

from __future__ import annotations

from typing import Annotated

from tensordict import TensorDict

from rlcomp.arguments import Interval
from rlcomp.functional.importance import upper_quantile
from rlcomp.functional.masked import masked
from rlcomp.functional.ratio_distance import ROUNDING
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class TopEntropy(Part):
    """Top-entropy token filter (the 80/20 rule): train on high-entropy tokens only.

    ``c_t = 1[H_t >= Q_{1 - rho}(H)]`` with ``rho`` = ``fraction`` and the quantile over all
    response tokens of the optimiser step.

    Dropped tokens stay in the denominator of the loss.

    Reads ``entropy``, ``response_mask`` ``[B, T]``. Writes ``token_weight`` ``[B, T]``.

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
