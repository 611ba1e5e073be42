"""BAPO: adaptive clip bounds, searched at every optimiser step."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from tensordict import TensorDict

from rlcomp.arguments import Fraction, Ge, PositiveFloat, Probability
from rlcomp.errors import ConfigError
from rlcomp.functional.clip_bounds import BoundGrid, Bounds, Measure, search_bounds
from rlcomp.functional.importance import fill_unrecorded
from rlcomp.functional.reduction import masked
from rlcomp.functional.surrogate import bounded_surrogate, neutral_outside, outside_bounds
from rlcomp.interfaces.loss import LossPart
from rlcomp.metrics import record


class BAPO(LossPart):
    """BAPO: PPO surrogate with adaptive clip bounds.

    ``l_t = min(r_t A_t, clip(r_t, c_low, c_high) A_t)`` with the first ``(c_low, c_high)`` of the
    search for which ``sum_{A_t > 0} p_t m_t / sum_t p_t m_t >= rho_0``; ``p_t = pi_rollout(a_t)``,
    ``rho_0`` = ``share``, ``m_t`` = contribution of the token (``measure``).

    The search restarts at every optimiser step: first ``c_high`` (ceiling) is raised, then
    ``c_low`` (floor), until the share is reached or both bounds are at their ends. Where the
    sampler recorded no log-prob (NaN), ``p_t`` is the current probability.

    Reads ``log_probs``, ``ratio``, ``advantage``, ``response_mask``, ``rollout_log_probs``
    ``[B, T]``. Writes ``surrogate`` ``[B, T]``. Prepares ``ratio_floor``, ``ratio_ceiling``
    ``[B]``.

    Records under ``trust_region/``: ``clip_fraction_low`` and ``clip_fraction_high``, the shares of
    clipped tokens; and of the search ``ratio_floor`` and ``ratio_ceiling``, its bounds,
    ``positive_share``, the share that they reach, and ``search_steps``.

    Args:
        share: rho_0, target share of tokens with positive advantage in the sum of ``p_t m_t``.
        measure: ``gradient``: ``m_t = r_t |A_t|`` on unclipped tokens; raising either bound
            raises the share. ``value``: ``m_t = |l_t|``, as in the paper. Then raising the floor
            lowers the share, so a search that reaches the ceiling's end also reaches the floor's.
        floor_start: first c_low; in [0, 1).
        floor_end: largest c_low.
        floor_step: increment of c_low.
        ceiling_start: first c_high; at least 1.
        ceiling_end: largest c_high.
        ceiling_step: increment of c_high.

    Raises:
        ConfigError: ``floor_end`` is below ``floor_start``, or ``ceiling_end`` below
            ``ceiling_start``.

    Source:
        Xi et al. 2025 (BAPO), arXiv:2510.18927.
    """

    equation = (
        "l_t = min(r_t A_t, clip(r_t, c_low, c_high) A_t), c_low in [{floor_start}, "
        "{floor_end}], c_high in [{ceiling_start}, {ceiling_end}]: the first with a share of "
        "positive tokens of {share} ({measure})"
    )
    reads = ("log_probs", "ratio", "advantage", "response_mask", "rollout_log_probs")
    writes = ("surrogate",)
    keys = {
        "ratio_floor": ("B", "float", "lower bound of the ratio for the whole optimiser step"),
        "ratio_ceiling": ("B", "float", "upper bound of the ratio for the whole optimiser step"),
    }
    step_keys = ("ratio_floor", "ratio_ceiling")

    def __init__(
        self,
        *,
        share: Probability = 0.4,
        measure: Measure = "gradient",
        floor_start: Fraction = 0.6,
        floor_end: Fraction = 0.9,
        floor_step: PositiveFloat = 0.02,
        ceiling_start: Annotated[float, Ge(1)] = 1.2,
        ceiling_end: Annotated[float, Ge(1)] = 3.0,
        ceiling_step: PositiveFloat = 0.05,
    ) -> None:
        super().__init__()
        for bound, start, end in (
            ("floor", floor_start, floor_end),
            ("ceiling", ceiling_start, ceiling_end),
        ):
            if end < start:
                raise ConfigError(
                    f"{bound}_end is {end}, below {bound}_start = {start}: the search raises the "
                    f"bound; set {bound}_end to at least {start}"
                )
        self.share = share
        self.measure: Measure = measure
        self.floor_start = floor_start
        self.floor_end = floor_end
        self.floor_step = floor_step
        self.ceiling_start = ceiling_start
        self.ceiling_end = ceiling_end
        self.ceiling_step = ceiling_step
        self.bounds = Bounds(floor_start, ceiling_start, math.nan, 0)  # of the last search

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Search the bounds on all rows of the step; write the same ones to every row."""
        mask = batch["response_mask"]
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        rollout_log_probs = fill_unrecorded(batch["rollout_log_probs"], batch["log_probs"])
        weight = masked(masked(rollout_log_probs, mask).exp(), mask)
        floors = BoundGrid(self.floor_start, self.floor_end, self.floor_step)
        ceilings = BoundGrid(self.ceiling_start, self.ceiling_end, self.ceiling_step)
        self.bounds = search_bounds(
            ratio, advantage, weight, self.share, (floors, ceilings), self.measure
        )
        result = batch.select()
        result["ratio_floor"] = ratio.new_full(batch.batch_size, self.bounds.floor)
        result["ratio_ceiling"] = ratio.new_full(batch.batch_size, self.bounds.ceiling)
        return result

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        view, mask = self.prepared(batch), batch["response_mask"]
        floor, ceiling = view["ratio_floor"][:, None], view["ratio_ceiling"][:, None]
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        batch["surrogate"] = bounded_surrogate(ratio, advantage, floor, ceiling)
        low, high = outside_bounds(ratio, advantage, floor, ceiling)
        record("trust_region/clip_fraction_low", low, where=mask)
        record("trust_region/clip_fraction_high", high, where=mask)
        # One observation per row, so that micro-batches do not change the mean.
        record("trust_region/ratio_floor", view["ratio_floor"])
        record("trust_region/ratio_ceiling", view["ratio_ceiling"])
        ones = torch.ones_like(view["ratio_floor"])
        record("trust_region/positive_share", self.bounds.share * ones)
        record("trust_region/search_steps", self.bounds.steps * ones)
        return batch
