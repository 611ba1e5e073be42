"""Stores of answers that one phase collects, and samplers that a later phase draws them with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar, Literal

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveInt
from rlcomp.batch import cat, trim
from rlcomp.checkpoint.state_fields import count_field, field, seed_field
from rlcomp.component import Component
from rlcomp.data.permutation import permutation
from rlcomp.errors import CheckpointError, NoRows
from rlcomp.functional.reduction import unit_mean
from rlcomp.keys import TEXT_END, Key, OwnKey
from rlcomp.metrics import record

Choice = Literal["correct", "best_of_group", "all"]


class CollectedAnswers(Component):
    """Store of sampled and judged rows for a later phase (rejection sampling).

    Of the answers with a valid reward ``choose: correct`` keeps the right ones, ``best_of_group``
    the one with the highest reward of each group (the first of several), ``all`` all of them. The
    store is part of the checkpoint. :class:`AnswerReplay` draws from it.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, ``prompt``, ``response``
    (``[B, W]`` texts), ``reward``, ``reward_valid``, ``correct`` and ``group_id`` ``[B]``; if
    present ``answer`` ``[B, W]``, ``answer_ends`` and ``example_id``. Writes nothing.

    Records ``collected/kept_fraction``, the stored share of the batch's rows, and
    ``collected/rows``, the number of stored rows.

    Args:
        choose: rule of the stored rows.
        distinct: whether equal answers (tokens) to the same prompt are stored only once.
        limit: maximum number of rows; later ones are dropped. None for no limit.
        emptied: whether a phase that fills the store begins with an empty one.

    Source:
        Yuan et al. 2023 (rejection-sampling fine-tuning), arXiv:2308.01825.
    """

    reads: ClassVar[tuple[str, ...]] = (
        *("tokens", "attention_mask", "response_mask", "prompt", "response"),
        *("reward", "reward_valid", "correct", "group_id"),
    )
    optional: ClassVar[tuple[str, ...]] = ("answer", "answer_ends", "example_id")
    unit_rows: ClassVar[int] = 1  # rows that are stored and drawn together
    name: ClassVar[str] = "collected"  # prefix of the metrics

    def __init__(
        self,
        *,
        choose: Choice = "correct",
        distinct: bool = True,
        limit: PositiveInt | None = None,
        emptied: bool = True,
    ) -> None:
        super().__init__()
        self.choose = choose
        self.distinct = distinct
        self.limit = limit
        self.emptied = emptied
        self.num_offered = 0  # rows of all batches, stored or not
        self._parts: list[TensorDict] = []
        self._identities: set[bytes] = set()

    def begin_phase(self) -> None:
        """Empty the store if ``emptied`` is true."""
        if self.emptied:
            self._reset([], 0)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Store the chosen rows."""
        rows = batch.select(*self.reads, *self.optional, strict=False)
        candidates = rows[self._candidate_mask(batch)].to("cpu")
        new = self._new_rows(candidates)
        room = None if self.limit is None else max(self.limit - len(self), 0)
        part = candidates[new[: room if room is None else room - room % self.unit_rows]]
        if part.shape[0]:
            self._parts.append(trim(part).clone())
        self.num_offered += batch.shape[0]
        record(f"{self.name}/kept_fraction", part.shape[0] / max(batch.shape[0], 1))
        record(f"{self.name}/rows", len(self))
        return batch

    def _candidate_mask(self, batch: TensorDict) -> Tensor:
        """Return a mask ``[B]`` of the rows that ``choose`` selects."""
        valid: Tensor = batch["reward_valid"]
        if self.choose == "all":
            return valid
        if self.choose == "correct":
            right: Tensor = valid & batch["correct"]
            return right
        best = torch.zeros_like(valid)
        for group in batch["group_id"][valid].unique():
            rows = (valid & (batch["group_id"] == group)).nonzero().flatten()
            best[rows[batch["reward"][rows].argmax()]] = True
        return best

    def _new_rows(self, rows: TensorDict) -> Tensor:
        """Return the indices of the rows to store (with ``distinct``: new ones); register them."""
        indices: list[int] = []
        for start in range(0, rows.shape[0], self.unit_rows):
            unit = range(start, start + self.unit_rows)
            identity = b"\xfe".join(_identity(rows[index]) for index in unit)  # in no UTF-8 text
            if not self.distinct or identity not in self._identities:
                indices.extend(unit)
                self._identities.add(identity)
        return torch.tensor(indices, dtype=torch.int64)

    def __len__(self) -> int:
        return sum(part.shape[0] for part in self._parts)

    def rows(self) -> TensorDict:
        """Return all stored rows as one batch.

        Raises:
            ShapeError: the store is empty.
        """
        self._parts = [cat(self._parts)]
        return self._parts[0]

    def run_state(self) -> dict[str, Any]:
        """Return the rows, for a checkpoint."""
        rows = self.rows().to_dict() if self._parts else {}
        return {"shown": self.num_offered, "rows": rows}  # shown: offered, stored or not

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the rows.

        Raises:
            CheckpointError: the rows are malformed.
        """
        num_offered, rows = count_field(state, "shown"), field(state, "rows", dict)
        self._reset([self._load_rows(rows)] if rows else [], num_offered)

    def _reset(self, parts: list[TensorDict], num_offered: int) -> None:
        self._parts, self.num_offered, self._identities = parts, num_offered, set()
        for part in parts:
            self._new_rows(part)

    def _load_rows(self, rows: dict[str, Any]) -> TensorDict:
        missing = {*self.reads} - rows.keys()
        extra = rows.keys() - {*self.reads, *self.optional}
        if missing or extra:
            raise CheckpointError(f"rows has other keys: {sorted(missing | extra)}")
        if not all(isinstance(entry, Tensor) and entry.ndim for entry in rows.values()):
            raise CheckpointError(
                "rows has an entry that is not a tensor with a row for each answer"
            )
        return TensorDict(rows, batch_size=[len(rows["tokens"])])


def _identity(row: TensorDict) -> bytes:
    """Return the prompt and the tokens of an answer as bytes."""
    ids: list[int] = row["tokens"][row["attention_mask"]].tolist()
    text: list[int] = row["prompt"][row["prompt"] != TEXT_END].tolist()
    return bytes(text) + b"\xff" + ",".join(map(str, ids)).encode()


class CollectedPairs(CollectedAnswers):
    """Store of sampled, judged and paired answers for a later phase.

    Rows 2k and 2k + 1 are a pair. Two pairs are equal if both answers are equal. A pair is dropped
    if an answer has no valid reward.

    Reads the entries of :class:`CollectedAnswers`, ``chosen`` ``[B]``, and ``label_noise`` ``[B]``
    if a judge has written it. Writes nothing.

    Records ``collected_pairs/kept_fraction``, the stored share of the batch's rows, and
    ``collected_pairs/rows``, two per pair.

    Args:
        distinct: whether equal pairs are stored only once.
        limit: maximum number of rows, two per pair; None for no limit.
        emptied: whether a phase that fills the store begins with an empty one.

    Raises:
        ShapeError: the number of rows is odd.

    Source:
        Llama Team 2024 (Llama 3), arXiv:2407.21783, section 4.2.1: preference data of a round.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "label_noise": ("B", "float", "probability that the label of the row's pair is wrong"),
    }
    reads: ClassVar[tuple[str, ...]] = (*CollectedAnswers.reads, "chosen")
    optional: ClassVar[tuple[str, ...]] = (*CollectedAnswers.optional, "label_noise")
    unit_rows: ClassVar[int] = 2
    name: ClassVar[str] = "collected_pairs"

    def __init__(
        self, *, distinct: bool = True, limit: PositiveInt | None = None, emptied: bool = True
    ) -> None:
        super().__init__(choose="all", distinct=distinct, limit=limit, emptied=emptied)

    def _candidate_mask(self, batch: TensorDict) -> Tensor:
        return unit_mean(batch["reward_valid"], self.unit_rows) > 0  # 0 if a row is invalid


class AnswerReplay(Component):
    """Sampler of rows of a store, in shuffled epochs.

    Reads nothing. Writes the entries of :class:`CollectedAnswers`, as a new batch of
    ``batch_size`` rows. A batch may span two epochs; it repeats rows if the store has fewer rows.

    Args:
        store: a store that an earlier phase has filled.
        batch_size: rows per batch (``B``).

    Raises:
        NoRows: the store is empty.
    """

    reads = ()
    writes: ClassVar[tuple[str, ...]] = (*CollectedAnswers.reads,)
    may_write: ClassVar[tuple[str, ...]] = (*CollectedAnswers.optional,)
    fresh = True
    earlier: ClassVar[tuple[str, ...]] = ("store",)

    store: CollectedAnswers

    def __init__(self, *, store: CollectedAnswers, batch_size: PositiveInt = 128) -> None:
        super().__init__()
        # Not a submodule: a phase that only reads a store must not empty it.
        object.__setattr__(self, "store", store)
        self.batch_size = batch_size
        self.seed, self.epoch, self.cursor = torch.initial_seed(), 0, 0

    def begin_phase(self) -> None:
        """Start an epoch."""
        self.epoch, self.cursor = self.epoch + 1, 0

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the next rows."""
        if not len(self.store):
            raise NoRows(
                f"AnswerReplay: the store is empty: of {self.store.num_offered} rows it kept "
                f"none (choose is {self.store.choose!r}); fill it in an earlier phase, raise that "
                "phase's steps, or set another choose"
            )
        rows, size = self.store.rows(), self.store.unit_rows
        units = islice(self._units(rows.shape[0] // size), self.batch_size)
        indices = [unit * size + row for unit in units for row in range(size)]
        return trim(rows[torch.tensor(indices)])

    def _units(self, count: int) -> Iterator[int]:
        """Yield unit indices without end: the rest of this epoch, then the next epochs."""
        while True:
            order = permutation(count, self.seed, f"epoch {self.epoch}")
            for unit in islice(order, self.cursor, None):
                self.cursor += 1
                yield unit
            self.epoch, self.cursor = self.epoch + 1, 0

    def run_state(self) -> dict[str, int]:
        """Return the position in the epochs."""
        return {"seed": self.seed, "epoch": self.epoch, "cursor": self.cursor}

    def load_run_state(self, state: dict[str, int]) -> None:
        """Continue exactly from a :meth:`run_state`.

        Raises:
            CheckpointError: the state is malformed.
        """
        self.seed = seed_field(state)
        self.epoch, self.cursor = count_field(state, "epoch"), count_field(state, "cursor")


class PairReplay(AnswerReplay):
    """Sampler of pairs of a store, in shuffled epochs.

    Reads nothing. Writes the entries of :class:`CollectedPairs`, as a new batch of
    ``2 * batch_size`` rows: 2k and 2k + 1 are a pair.

    Args:
        store: a store that an earlier phase has filled.
        batch_size: pairs per batch.

    Raises:
        NoRows: the store is empty.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "label_noise": ("B", "float", "probability that the label of the row's pair is wrong"),
    }
    writes: ClassVar[tuple[str, ...]] = (*CollectedPairs.reads,)
    may_write: ClassVar[tuple[str, ...]] = (*CollectedPairs.optional,)

    def __init__(self, *, store: CollectedPairs, batch_size: PositiveInt = 64) -> None:
        super().__init__(store=store, batch_size=batch_size)
