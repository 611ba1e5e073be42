"""Stage combinators: sequence, repeat, every, branch, refill (dynamic sampling), no-op."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import nn

from rlcomp.arguments import PositiveInt
from rlcomp.batch import cat
from rlcomp.component import Component
from rlcomp.errors import FlowError, NoRows, RlcompWarning
from rlcomp.metrics import nested_recording, record


def run_stages(stages: Iterable[nn.Module], batch: TensorDict) -> TensorDict:
    """Pass a batch through stages in order."""
    for stage in stages:
        batch = stage(batch)
    return batch


def empty_batch() -> TensorDict:
    """Return the input of the first stage of a step."""
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
        times: number of repetitions.
        stages: the stages to repeat.
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
        stages: the stages to run.
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
        stages: run on a shallow copy.
    """

    contained = True

    def forward(self, batch: TensorDict) -> TensorDict:
        """Run the stages on a copy and return the original."""
        run_stages(self.stages, batch.copy())
        return batch


class Refill(Sequence):
    """Dynamic sampling (DAPO): run stages repeatedly until enough rows are collected.

    Surplus rows of the last round are dropped. If there are too few rows after ``max_tries``
    rounds, the batch consists of these, with a warning. Records ``refill/tries`` and
    ``refill/kept_fraction`` of the generated rows. The filters among the stages record the reasons
    for dropped rows (``filter/...``); the warning quotes them.

    Args:
        rows: number of rows of the batch, whole groups only; null: as many as the first round has
            before one of its stages drops some. If groups differ in size, the batch may have a few
            rows more, to complete the last group.
        stages: generate rows (and may drop some); the first of them starts a new batch.
        max_tries: largest number of rounds.

    Raises:
        NoRows: there are none after ``max_tries`` rounds.
        FlowError: ``rows`` would split a group although all are of one size.

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
        """Return a new batch of the rows of all rounds, without the surplus."""
        collected: list[TensorDict] = []
        sizes: list[int] = []
        with nested_recording() as ledger:
            while len(sizes) < self.max_tries and not self._is_full(collected, sizes):
                rows, largest = self._round(batch.copy())
                collected += [rows] if rows.shape[0] else []
                sizes.append(largest)
        share = _count_rows(collected) / max(sum(sizes), 1)
        if not self._is_full(collected, sizes):
            message = self._shortage_message(
                collected, sizes, {"kept_fraction": share, **ledger.means()}
            )
            if not collected:
                raise NoRows(message)
            warnings.warn(message, RlcompWarning, stacklevel=2)
        record("refill/tries", len(sizes))
        record("refill/kept_fraction", share)
        return _take_rows(cat(collected), self.rows or sizes[0])

    def _round(self, batch: TensorDict) -> tuple[TensorDict, int]:
        """Run one round; return the remaining rows, and the largest number of rows in the round."""
        largest = 0
        for stage in self.stages:
            batch = stage(batch)
            largest = max(largest, batch.shape[0] if batch.batch_size else 0)
        return batch, largest

    def _is_full(self, collected: list[TensorDict], sizes: list[int]) -> bool:
        return bool(collected) and _count_rows(collected) >= (self.rows or sizes[0])

    def _shortage_message(
        self, collected: list[TensorDict], sizes: list[int], means: dict[str, float]
    ) -> str:
        parts = [
            f"{name} {mean:.0%}" if 0 <= mean <= 1 else f"{name} {mean:.3g}"
            for name, mean in means.items()
            if name == "kept_fraction" or name.startswith("filter/")
        ]
        return (
            f"Refill: {_count_rows(collected)} of {self.rows or sizes[0]} rows after "
            f"max_tries={self.max_tries} rounds ({', '.join(parts)}); raise max_tries, lower rows "
            "or loosen the filter"
        )


def _count_rows(batches: list[TensorDict]) -> int:
    return sum(batch.shape[0] for batch in batches)


def _take_rows(batch: TensorDict, rows: int) -> TensorDict:
    """Return the first rows of a batch, and the other rows of their groups."""
    if "group_id" not in batch.keys():
        return batch[:rows]
    groups = batch["group_id"]
    in_groups = torch.isin(groups, groups[:rows])
    # Groups of one size can be cut only by a wrong number of rows.
    if int(in_groups.sum()) > rows and len(groups.unique(return_counts=True)[1].unique()) == 1:
        raise FlowError(f"Refill: rows={rows} cuts a group in two; use a multiple of group_size")
    return batch[in_groups]
