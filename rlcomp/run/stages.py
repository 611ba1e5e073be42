"""Stage combinators: sequence, repeat, every, branch, refill (dynamic sampling), no-op."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import nn

from rlcomp.arguments import PositiveInt
from rlcomp.batch import cat
from rlcomp.component import Component
from rlcomp.errors import FlowError
from rlcomp.functional.group_accuracy import group_accuracy
from rlcomp.metrics import record


def run_stages(stages: Iterable[nn.Module], batch: TensorDict) -> TensorDict:
    """Pass a batch through stages in order."""
    for stage in stages:
        batch = stage(batch)
    return batch


def empty_batch() -> TensorDict:
    """What the first stage of a step receives."""
    return TensorDict({}, batch_size=[])


class Nothing(Component):
    """No-op stage for empty slots. Every optional group has a ``none.yaml`` with it."""

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the batch unchanged."""
        return batch


class Sequence(Component):
    """Stages one after the other.

    Args:
        stages: components or foreign TensorDict modules; in yaml, names of nodes.
    """

    runs = ("stages",)

    def __init__(self, *, stages: list[TensorDictModuleBase]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Run every stage once."""
        return run_stages(self.stages, batch)


class Repeat(Sequence):
    """The same stages several times: PPO's epochs over one batch.

    Args:
        times: how often.
        stages: what is repeated.
    """

    def __init__(self, *, times: PositiveInt, stages: list[TensorDictModuleBase]) -> None:
        super().__init__(stages=stages)
        self.times = times

    def forward(self, batch: TensorDict) -> TensorDict:
        """Run all stages ``times`` times."""
        for _ in range(self.times):
            batch = run_stages(self.stages, batch)
        return batch


class Every(Sequence):
    """Stages that run on every k-th call only.

    They run beside the flow, on a copy of the batch.

    Args:
        k: the stages run on calls k, 2k, 3k, ...
        stages: what runs then.
    """

    calls: torch.Tensor
    contained = True

    def __init__(self, *, k: PositiveInt, stages: list[TensorDictModuleBase]) -> None:
        super().__init__(stages=stages)
        self.k = k
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Count the call; run the stages beside the main flow when it is due."""
        self.calls += 1
        if int(self.calls) % self.k == 0:
            run_stages(self.stages, batch.copy())
        return batch


class Branch(Sequence):
    """Side branch: stages run on a copy of the batch; their outputs are discarded.

    Args:
        stages: what runs on a shallow copy.
    """

    contained = True

    def forward(self, batch: TensorDict) -> TensorDict:
        """Run the stages on a copy and hand on the original."""
        run_stages(self.stages, batch.copy())
        return batch


class Refill(Sequence):
    """Dynamic sampling (DAPO): run stages repeatedly until enough rows are collected.

    Surplus rows of the last round are dropped. Records ``refill/tries``,
    ``refill/kept_fraction`` of the rows made and, where answers are judged, the shares of them in
    groups without a wrong and without a right answer, ``refill/all_right`` and
    ``refill/all_wrong``.

    Args:
        rows: how many rows the batch must have, whole groups only; null: as many as the first round
            has before one of its stages throws some away. Where groups differ in size, the last one
            may bring a few more.
        stages: make rows (and throw some away); the first of them starts a new batch.
        max_tries: give up after so many rounds.

    Raises:
        FlowError: too few rows after ``max_tries`` rounds, or ``rows`` would cut a group in two
            where all are of one size.

    Source:
        Yu et al. 2025, arXiv:2503.14476, section 3.2.
    """

    fresh = True

    def __init__(
        self,
        *,
        rows: PositiveInt | None = None,
        stages: list[TensorDictModuleBase],
        max_tries: PositiveInt = 10,
    ) -> None:
        super().__init__(stages=stages)
        self.rows = rows
        self.max_tries = max_tries

    def forward(self, batch: TensorDict) -> TensorDict:
        """A new batch of ``rows`` rows."""
        kept: list[TensorDict] = []
        made: list[TensorDict] = []
        for tries in range(1, self.max_tries + 1):
            found, most = self._round(batch.copy())
            kept += [found] if found.shape[0] else []
            made.append(most)
            rows = self.rows or made[0].shape[0]
            if kept and sum(part.shape[0] for part in kept) >= rows:
                record("refill/tries", tries)
                _shares(kept, made)
                return _cut(cat(kept), rows)
        shares = ", ".join(f"{name} {share:.0%}" for name, share in _shares(kept, made).items())
        raise FlowError(
            f"Refill: {sum(part.shape[0] for part in kept)} of {rows} rows after "
            f"max_tries={self.max_tries} rounds ({shares}); raise max_tries, lower rows or loosen "
            "the filter"
        )

    def _round(self, batch: TensorDict) -> tuple[TensorDict, TensorDict]:
        """One round: the rows it keeps, and its widest intermediate batch for statistics."""
        most = batch
        for stage in self.stages:
            batch = stage(batch)
            if not most.batch_size or batch.shape[0] >= most.shape[0]:
                most = batch
        return batch, most.select("correct", "reward_valid", "group_id", strict=False)


def _shares(kept: list[TensorDict], made: list[TensorDict]) -> dict[str, float]:
    """Shares of the generated rows: kept, and in all-correct or all-wrong groups."""
    total = sum(part.shape[0] for part in made)
    counts = {"kept_fraction": sum(part.shape[0] for part in kept)}
    for part in made if all(len(part.keys()) == 3 for part in made) else ():
        valid = part["reward_valid"]
        accuracy = group_accuracy(part["correct"], part["group_id"], valid)
        for name, verdict in (("all_right", 1.0), ("all_wrong", 0.0)):
            counts[name] = counts.get(name, 0) + int(((accuracy == verdict) & valid).sum())
    shares = {name: count / total for name, count in counts.items()}
    for name, share in shares.items():
        record(f"refill/{name}", share)
    return shares


def _cut(batch: TensorDict, rows: int) -> TensorDict:
    if "group_id" not in batch.keys():
        return batch[:rows]
    groups = batch["group_id"]
    begun = torch.isin(groups, groups[:rows])
    if int(begun.sum()) > rows and len(groups.unique(return_counts=True)[1].unique()) == 1:
        raise FlowError(f"Refill: rows={rows} cuts a group in two; use a multiple of group_size")
    return batch[begun]
