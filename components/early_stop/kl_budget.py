"""Early stop when the KL to the reference has used up its budget."""

from __future__ import annotations

from typing import Any, Literal

from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText, PositiveFloat, PositiveInt
from rlcomp.checkpoint.state_fields import field
from rlcomp.errors import CheckpointError
from rlcomp.functional.kl import kl_estimate
from rlcomp.interfaces.early_stop import EarlyStop
from rlcomp.metrics import record


class KLBudget(EarlyStop):
    """Early stop when the KL of the policy to its reference exceeds ``budget`` nats.

    ``KL = mean of log pi_old - log pi_ref`` (k1) over the response tokens of a step, or the mean of
    its sums over responses. The phase ends when the mean of the last ``window`` steps is above
    ``budget``.

    Reads ``old_log_probs``, ``ref_log_probs``, ``response_mask`` ``[B, T]``. Records the metrics of
    :class:`EarlyStop` and ``early_stop/kl``, the mean of the window.

    Args:
        metric: the metric that chooses ``best``.
        better: which values are better.
        budget: nats per token or per response, by ``unit``.
        unit: ``"token"`` or ``"sequence"``: the KL is a mean over tokens or over responses.
        window: steps.

    Source:
        Gao et al. 2023, arXiv:2210.10760: the KL as the budget for optimising a proxy.
    """

    reads = ("old_log_probs", "ref_log_probs", "response_mask")

    def __init__(
        self,
        *,
        metric: NonEmptyText = "evaluation/sampled",
        better: Literal["higher", "lower"] = "higher",
        budget: PositiveFloat = 5.0,
        unit: Literal["token", "sequence"] = "sequence",
        window: PositiveInt = 5,
    ) -> None:
        super().__init__(metric=metric, better=better)
        self.budget = budget
        self.unit: Literal["token", "sequence"] = unit
        self.window = window

    def check_seen(self, seen: dict[str, Any]) -> None:
        """Check the KL of the last steps; it may be infinite or NaN."""
        for value in field(seen, "kl", list[object]) if "kl" in seen else ():
            if not isinstance(value, float):
                raise CheckpointError(f"'kl' has {value!r:.60} in it: must be numbers")

    def verdict(self, batch: TensorDict, value: float | None) -> str | None:
        """Measure the KL of the step and compare the mean with the budget."""
        del value
        mask = batch["response_mask"]
        kl = kl_estimate(batch["old_log_probs"], batch["ref_log_probs"], mask, "k1").double()
        count = mask.sum() if self.unit == "token" else mask.any(1).sum()
        steps = [*self.state.get("kl", []), float(kl.sum() / count.clamp(min=1))]
        self.state["kl"] = steps[-self.window :]
        mean = sum(self.state["kl"]) / len(self.state["kl"])
        record("early_stop/kl", mean)
        if len(steps) < self.window or mean <= self.budget:
            return None
        return (
            f"KL budget: {mean:.4g} nats a {self.unit} to the reference, over {self.window} steps; "
            f"the budget is {self.budget:g}"
        )
