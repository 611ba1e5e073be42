"""Reward-hacking monitor: the training reward compared with a held-out verifier."""

from __future__ import annotations

import math
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeInt, PositiveInt, Probability
from rlcomp.batch import decode_texts
from rlcomp.checkpoint.state_fields import check_fields, field
from rlcomp.component import Component
from rlcomp.errors import CheckpointError
from rlcomp.functional.statistics import Estimate, clustered_mean, pool, z_score
from rlcomp.metrics import record, recording, step
from rlcomp.seed import named_seed

# An audit: gap and true reward, each as its mean over prompts and the variance of this mean.
_Audit = tuple[Estimate, Estimate]


class HackingMonitor(Component):
    """Reward-hacking monitor: clustered gap test of the training reward (the proxy).

    Audits a ``share`` of a batch's prompts with all their answers. With ``g_t`` the mean over the
    audited prompts of proxy minus true reward, its variance over prompts, and ``w`` = ``window``::

        gap_z  = z(mean of the last w g_t, mean of the first w g_t)
        true_z = z(mean of the last w true rewards, the best such mean so far)
        z(a, b) = (a - b) / sqrt(var a + var b)

    The proxy is the reward of the advantage, including a shaping and a KL penalty. The gap may also
    grow because a proxy is more lenient; ``early_stop=reward_hacking`` requires a fall of the true
    reward as well.

    Reads ``prompt``, ``response``, ``answer`` (``[B, W]`` uint8 texts), ``reward``,
    ``reward_valid``, ``group_id`` ``[B]`` and the keys of the verifier. The batch does not get the
    verifier's entries. Rows that proxy or verifier could not judge are left out, and so is a batch
    with fewer than two prompts left. The choice of the audited prompts depends on their texts, the
    step and the seed alone.

    Records ``hacking_monitor/gap`` (``g_t``), ``hacking_monitor/true``, their tests ``gap_z`` (0
    before audit ``2 w``, since the windows overlap) and ``true_z`` (0 before audit
    ``w``), ``true_window`` (mean over the last ``w`` audits) and ``audited`` (prompts).

    Args:
        verifier: the held-out verifier, a reward that is not trained on.
        share: audited share of the prompts of a batch, rounded up; at least two prompts.
        window: number of audits in a window.
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
        """Drop the audits of earlier phases; the first ones of this phase are the baseline."""
        self.count = 0
        self.first: list[_Audit] = []
        self.last: list[_Audit] = []
        self.best: Estimate | None = None

    def forward(self, batch: TensorDict) -> TensorDict:
        """Audit and record."""
        audited = batch[self._audited_rows(batch)]
        proxy, judged, group = audited["reward"], audited["reward_valid"], audited["group_id"]
        with recording():  # drop the verifier's metrics: they would look like the proxy's
            verdicts = self.verifier(audited)
        judged = judged & verdicts["reward_valid"]
        group, true = group[judged], verdicts["reward"].double()[judged]
        prompts = len(group.unique())
        record("hacking_monitor/audited", prompts)
        if prompts > 1:
            gap = proxy.double()[judged] - true
            self.audit(clustered_mean(gap, group), clustered_mean(true, group))
        return batch

    def _audited_rows(self, batch: TensorDict) -> Tensor:
        """Return the mask of the audited rows, bool ``[B]``."""
        groups = batch["group_id"].tolist()
        prompts = dict(zip(groups, decode_texts(batch["prompt"]), strict=True))
        draws = {group: named_seed(self.seed, f"{step()}/{prompts[group]}") for group in prompts}
        count = max(2, math.ceil(self.share * len(prompts)))
        chosen = {*sorted(draws, key=draws.__getitem__)[:count]}
        device = batch["reward"].device
        return torch.tensor([group in chosen for group in groups], dtype=torch.bool, device=device)

    def audit(self, gap: Estimate, true: Estimate) -> None:
        """Add an audit and record the tests."""
        self.count += 1
        self.first = [*self.first, (gap, true)][: self.window]
        self.last = [*self.last, (gap, true)][-self.window :]
        now = pool(true for _, true in self.last)
        gap_z = true_z = 0.0
        if self.count >= 2 * self.window:
            gap_z = z_score(pool(gap for gap, _ in self.last), pool(gap for gap, _ in self.first))
        if self.count >= self.window:
            self.best = now if self.best is None or now.mean > self.best.mean else self.best
            true_z = z_score(now, self.best)
        record("hacking_monitor/gap", gap.mean)
        record("hacking_monitor/true", true.mean)
        record("hacking_monitor/gap_z", gap_z)
        record("hacking_monitor/true_z", true_z)
        record("hacking_monitor/true_window", now.mean)

    def run_state(self) -> dict[str, Any]:
        """Return the audits of this phase that the tests need."""
        return {
            "count": self.count,
            "first": [[*gap, *true] for gap, true in self.first],
            "last": [[*gap, *true] for gap, true in self.last],
            "best": None if self.best is None else [*self.best],
        }

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the audits.

        Raises:
            CheckpointError: the audits are malformed.
        """
        check_fields(state, ("count", "first", "last", "best"))
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
