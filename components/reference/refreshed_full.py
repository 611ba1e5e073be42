"""Refreshed reference policy with full next-token distributions."""

from __future__ import annotations

from components.reference.frozen_full import FrozenFull
from components.reference.refreshed import Refreshed
from rlcomp.arguments import PositiveInt, Probability
from rlcomp.interfaces.policy import FullDistributionPolicy


class RefreshedFull(Refreshed, FrozenFull):
    """Reference that follows the policy slowly, with full distributions (mean teacher).

    ``theta_ref <- alpha * theta + (1 - alpha) * theta_ref`` every ``period`` batches, with
    ``alpha`` = ``mix``.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there.

    Writes ``ref_log_probs`` ``[B, T]`` and ``ref_log_distribution`` ``[B, T, V]``, nats, without
    gradient.

    Args:
        policy: the model that it follows.
        period: batches between two refreshments.
        mix: share of the policy; 1 copies the policy.

    Source:
        Tarvainen & Valpola 2017 (mean teacher), arXiv:1703.01780.
    """

    writes = ("ref_log_probs", "ref_log_distribution")

    def __init__(
        self, *, policy: FullDistributionPolicy, period: PositiveInt = 1, mix: Probability = 0.01
    ) -> None:
        super().__init__(policy=policy, period=period, mix=mix)
