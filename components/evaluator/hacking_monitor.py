"""Reward-hacking monitor: the training reward against a held-out verifier."""

from __future__ import annotations

import math
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeInt, PositiveInt, Probability
from rlcomp.batch import decode_texts
from rlcomp.checkpoint.state_fields import field, names
from rlcomp.component import Component
from rlcomp.errors import CheckpointError
from rlcomp.functional.gap_test import Estimate, clustered_mean, pooled, z_score
from rlcomp.metrics import record, recording, step
from rlcomp.seed import named_seed

# Of an audit: gap and true reward, a mean with its variance each.
_Audit = tuple[Estimate, Estimate]


class HackingMonitor(Component):
    """Reward-hacking monitor: clustered gap test of the training reward (the proxy).

    Audits a ``share`` of a batch's prompts with all their answers. With ``g_t`` the mean over the
    audited prompts of proxy minus true reward, its variance over prompts, and ``w`` = ``window``::

        gap_z  = z(mean of the last w g_t, mean of the first w g_t)
        true_z = z(mean of the last w true rewards, the best such mean so far)
        z(a, b) = (a - b) / sqrt(var a + var b)

    The proxy is the reward that the advantage was made of, a shaping and a KL penalty in it
    included. A gap that grows may come of a proxy that is only more lenient;
    ``early_stop=reward_hacking`` asks for a fall of the true reward as well.

    Reads ``prompt``, ``response``, ``answer`` (``[B, W]`` uint8 texts), ``reward``,
    ``reward_valid``, ``group_id`` ``[B]`` and what the verifier reads, whose entries stay inside.
    Rows that either could not judge are left out, and so is a batch with fewer than two prompts
    left. Which prompts are audited depends on their texts, the step and the seed alone.

    Records ``hacking_monitor/gap`` (``g_t``), ``hacking_monitor/true``, their tests ``gap_z`` (0
    before both windows are full and apart, audit ``2 w``) and ``true_z`` (0 before audit ``w``),
    ``true_window`` (mean over the last ``w`` audits) and ``audited`` (prompts).

    Args:
        verifier: the held-out verifier, a reward that is not trained on.
        share: of the prompts of a batch, rounded up; at least two prompts.
        window: audits.
    """

    reads = ("prompt", "response", "answer", "reward", "reward_valid", "group_id")
    runs = ("verifier",)
    contained = True

    def __init__(
        self, *, verifier: Component, share: Probability = 0.25, window: PositiveInt = 5
    ) -> None:
        super().__init__()
        self.verifier = verifier
        self.share = share
        self.window = window
        self.seed = torch.initial_seed()
        self.begin_phase()

    def begin_phase(self) -> None:
        """The first audits of the phase are what later ones are compared with."""
        self.count = 0
        self.first: list[_Audit] = []
        self.last: list[_Audit] = []
        self.best: Estimate | None = None

    def forward(self, batch: TensorDict) -> TensorDict:
        """Audit and record."""
        audited = batch[self._chosen(batch)]
        proxy, judged, group = audited["reward"], audited["reward_valid"], audited["group_id"]
        with recording():  # the verifier's own metrics are not the training reward's
            found = self.verifier(audited)
        judged = judged & found["reward_valid"]
        group, true = group[judged], found["reward"].double()[judged]
        prompts = len(group.unique())
        record("hacking_monitor/audited", prompts)
        if prompts > 1:
            gap = proxy.double()[judged] - true
            self.audit(clustered_mean(gap, group), clustered_mean(true, group))
        return batch

    def _chosen(self, batch: TensorDict) -> Tensor:
        """Which rows are audited, bool ``[B]``."""
        groups = batch["group_id"].tolist()
        prompts = dict(zip(groups, decode_texts(batch["prompt"]), strict=True))
        drawn = {group: named_seed(self.seed, f"{step()}/{prompts[group]}") for group in prompts}
        count = max(2, math.ceil(self.share * len(prompts)))
        chosen = {*sorted(drawn, key=drawn.__getitem__)[:count]}
        device = batch["reward"].device
        return torch.tensor([group in chosen for group in groups], dtype=torch.bool, device=device)

    def audit(self, gap: Estimate, true: Estimate) -> None:
        """Take in one audit, and record the tests."""
        self.count += 1
        self.first = [*self.first, (gap, true)][: self.window]
        self.last = [*self.last, (gap, true)][-self.window :]
        now = pooled(own for _, own in self.last)
        gap_z = true_z = 0.0
        if self.count >= 2 * self.window:
            gap_z = z_score(
                pooled(own for own, _ in self.last), pooled(own for own, _ in self.first)
            )
        if self.count >= self.window:
            self.best = now if self.best is None or now.mean > self.best.mean else self.best
            true_z = z_score(now, self.best)
        record("hacking_monitor/gap", gap.mean)
        record("hacking_monitor/true", true.mean)
        record("hacking_monitor/gap_z", gap_z)
        record("hacking_monitor/true_z", true_z)
        record("hacking_monitor/true_window", now.mean)

    def run_state(self) -> dict[str, Any]:
        """The audits of this phase that later ones are compared with."""
        return {
            "count": self.count,
            "first": [[*gap, *true] for gap, true in self.first],
            "last": [[*gap, *true] for gap, true in self.last],
            "best": None if self.best is None else [*self.best],
        }

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Go on with them.

        Raises:
            CheckpointError: they are no audits.
        """
        names(state, ("count", "first", "last", "best"))
        self.count = field(state, "count", NonNegativeInt)
        self.first, self.last = _audits(state, "first"), _audits(state, "last")
        best = field(state, "best", list[float] | None)
        if best is not None and len(best) != 2:
            raise CheckpointError(f"'best' has {len(best)} numbers: must be a mean and a variance")
        self.best = None if best is None else Estimate(*best)


def _audits(state: dict[str, Any], name: str) -> list[_Audit]:
    rows = field(state, name, list[list[float]])
    if wrong := [row for row in rows if len(row) != 4]:
        raise CheckpointError(f"'{name}' has {wrong[0]!r:.60} in it: must be four numbers")
    return [(Estimate(*row[:2]), Estimate(*row[2:])) for row in rows]
