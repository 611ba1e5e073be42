"""Stores of collected answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveInt
from rlcomp.batch import cat, trim
from rlcomp.checkpoint.state_fields import count_field, field
from rlcomp.component import Component
from rlcomp.errors import CheckpointError
from rlcomp.functional.reduction import unit_mean
from rlcomp.keys import TEXT_END, Key, OwnKey
from rlcomp.metrics import record

Choice = Literal["correct", "best_of_group", "all"]


class CollectedAnswers(Component):
    """Store of sampled and judged rows for a later phase (rejection sampling).

    ``choose: correct`` keeps every right answer, ``best_of_group`` each prompt's valid answer with
    the highest reward (the first of several), ``all`` every judged answer. A store is emptied
    when a phase that fills it begins. It is part of the checkpoint.
    :class:`~components.store.replay.AnswerReplay` draws from it.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, ``prompt``, ``response``
    (``[B, W]`` texts), ``reward``, ``reward_valid``, ``correct`` and ``group_id`` ``[B]``; gold
    answers and ids of examples if they are there. Writes nothing.

    Records ``collected/kept_fraction``, the share of the batch's rows that it keeps, and
    ``collected/rows``, the number of its rows.

    Args:
        choose: choice of the rows.
        distinct: whether equal answers (tokens) to the same prompt are kept only once.
        limit: most rows; later ones are left out. None for no limit.
        emptied: whether a phase that fills it begins with an empty store.

    Source:
        Yuan et al. 2023 (rejection-sampling fine-tuning), arXiv:2308.01825.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "tokens",
        "attention_mask",
        "response_mask",
        "prompt",
        "response",
        "reward",
        "reward_valid",
        "correct",
        "group_id",
    )
    optional: ClassVar[tuple[str, ...]] = ("answer", "answer_ends", "example_id")
    unit_rows: ClassVar[int] = 1  # rows of a unit, which are kept and drawn together
    name: ClassVar[str] = "collected"  # prefix of its metrics

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
        self.shown = 0
        self._parts: list[TensorDict] = []
        self._known: set[bytes] = set()

    def begin_phase(self) -> None:
        """Empty the store if ``emptied`` says so."""
        if self.emptied:
            self._hold([], 0)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Store the chosen rows."""
        rows = batch.select(*self.reads, *self.optional, strict=False)
        candidates = rows[self._chosen(batch)].to("cpu")
        new = self._new(candidates)
        room = None if self.limit is None else max(self.limit - len(self), 0)
        stored = candidates[new[: room if room is None else room - room % self.unit_rows]]
        if stored.shape[0]:
            self._parts.append(trim(stored).clone())
        self.shown += batch.shape[0]
        record(f"{self.name}/kept_fraction", stored.shape[0] / max(batch.shape[0], 1))
        record(f"{self.name}/rows", len(self))
        return batch

    def _chosen(self, batch: TensorDict) -> Tensor:
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

    def _new(self, rows: TensorDict) -> Tensor:
        """Return the places of the rows that are not stored yet."""
        places: list[int] = []
        for start in range(0, rows.shape[0], self.unit_rows):
            unit = range(start, start + self.unit_rows)
            key = b"\xfe".join(_answer(rows[place]) for place in unit)
            if not self.distinct or key not in self._known:
                places.extend(unit)
                self._known.add(key)
        return torch.tensor(places, dtype=torch.int64)

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
        return {"shown": self.shown, "rows": rows}

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the rows.

        Raises:
            CheckpointError: the rows are malformed.
        """
        shown, rows = count_field(state, "shown"), field(state, "rows", dict)
        self._hold([self._restored(rows)] if rows else [], shown)

    def _hold(self, parts: list[TensorDict], shown: int) -> None:
        self._parts, self.shown, self._known = parts, shown, set()
        for part in parts:
            self._new(part)

    def _restored(self, rows: dict[str, Any]) -> TensorDict:
        lacking = {*self.reads} - rows.keys()
        extra = rows.keys() - {*self.reads, *self.optional}
        if lacking or extra:
            raise CheckpointError(f"rows has other keys: {sorted(lacking | extra)}")
        if not all(isinstance(entry, Tensor) and entry.ndim for entry in rows.values()):
            raise CheckpointError("rows holds what is no tensor")
        return TensorDict(rows, batch_size=[len(rows["tokens"])])


def _answer(row: TensorDict) -> bytes:
    """Return the identity of an answer, its prompt and its tokens, as bytes."""
    ids: list[int] = row["tokens"][row["attention_mask"]].tolist()
    text: list[int] = row["prompt"][row["prompt"] != TEXT_END].tolist()
    return bytes(text) + b"\xff" + ",".join(map(str, ids)).encode()


class CollectedPairs(CollectedAnswers):
    """Store of sampled, judged and paired answers for a later phase.

    Works like :class:`CollectedAnswers` with two rows as a unit: two pairs are equal if both
    answers are equal. A pair is left out if an answer has no valid reward.

    Reads what :class:`CollectedAnswers` reads, and ``chosen`` ``[B]``: rows 2k and 2k + 1 are a
    pair; ``label_noise`` ``[B]`` if a judge has written it. Writes nothing.

    Records ``collected_pairs/kept_fraction``, the share of the batch's rows that it keeps, and
    ``collected_pairs/rows``, two per pair.

    Args:
        distinct: whether equal pairs are kept only once.
        limit: most rows, two per pair; None for no limit.
        emptied: whether a phase that fills it begins with an empty store.

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

    def _chosen(self, batch: TensorDict) -> Tensor:
        return unit_mean(batch["reward_valid"], self.unit_rows) > 0
