"""Distilled advantage: log-ratio of teacher and policy at the sampled token."""

from __future__ import annotations

from typing import Literal

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.distillation import distilled_advantage
from rlcomp.interfaces.advantage import write_advantage
from rlcomp.metrics import record


class Distilled(Component):
    """Distilled advantage: on-policy distillation with the policy gradient.

    ``A_t = c * (log pi_T(a_t) - log pi(a_t))``, or with ``horizon: sequence`` its sum from the
    token on; added to another estimator's advantage, if one is given.

    ``sequence`` gives the gradient of ``KL(pi(y) || pi_T(y))`` in expectation, with the noise of
    all later tokens. ``token`` gives the gradient of the next-token KL at the sampled prefixes
    (``loss=distil`` computes it without sampling noise); it is biased for the KL of responses.

    Reads ``response_mask``, ``rollout_log_probs``, ``ref_log_probs`` ``[B, T]``, and
    ``reward_valid`` ``[B]`` if it is there. Writes ``advantage`` ``[B, T]``, nats. Records
    ``advantage/distilled``, the mean of ``log pi_T(a_t) - log pi(a_t)`` before it is cut, nats a
    token, and ``advantage/distilled_clipped``, the share of tokens at which it was.

    Args:
        horizon: ``token`` credits a token with its own term; ``sequence`` with all later ones too.
        clip: bound of one token's difference, nats; null for none.
        coef: c, weight of the teacher beside the other advantage.
        advantage: the estimator whose advantage it is added to; null for the teacher alone.

    Source:
        Gu et al. 2023 (MiniLLM), arXiv:2306.08543, eq. 2; Lu & Thinking Machines Lab 2025,
        "On-Policy Distillation".
    """

    reads = ("response_mask", "rollout_log_probs", "ref_log_probs")
    optional = ("reward_valid",)
    writes = ("advantage",)
    runs = ("advantage",)

    def __init__(
        self,
        *,
        horizon: Literal["token", "sequence"] = "token",
        clip: PositiveFloat | None = 10.0,
        coef: NonNegativeFloat = 1.0,
        advantage: Component | None = None,
    ) -> None:
        super().__init__()
        self.horizon = horizon
        self.clip = clip
        self.coef = coef
        self.advantage = advantage

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        mask, own = batch["response_mask"], batch["rollout_log_probs"]
        theirs = batch["ref_log_probs"]
        record("advantage/distilled", theirs - own, where=mask)
        if self.clip is not None:
            record("advantage/distilled_clipped", (theirs - own).abs() > self.clip, where=mask)
        to_go = self.horizon == "sequence"
        distilled = self.coef * distilled_advantage(own, theirs, mask, to_go, self.clip)
        if self.advantage is not None:
            batch = self.advantage(batch)
            distilled = distilled + batch["advantage"]
        return write_advantage(batch, distilled)
