"""Base class of text rewards (verifiers)."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Protocol, runtime_checkable

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.batch import decode_columns, decode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError, ShapeError, add_note
from rlcomp.interfaces.scores import Score, Scores
from rlcomp.interfaces.turns import first_row_mask
from rlcomp.keys import TEXT_END, Key
from rlcomp.metrics import record


@runtime_checkable
class NeedsColumns(Protocol):
    """Interface of rewards that need columns of the task.

    Attributes:
        column_remedy: remedy if the task lacks a column.
    """

    column_remedy: ClassVar[str]

    @property
    def needed_columns(self) -> frozenset[str]:
        """Return the names of the columns, which are checked when a run starts."""
        ...


@runtime_checkable
class SupportsTrial(Protocol):
    """Interface of rewards that score a few made-up responses before a run starts."""

    @property
    def function_name(self) -> str:
        """Return the dotted path or the name of the user's function, for messages."""
        ...

    def trial(self, batch: TensorDict) -> str | None:
        """Score rows without metrics; return the fault if no row could be scored, else None."""
        ...


class TextReward(Component):
    """A reward computed from prompt, response, gold answer and columns, row by row.

    A subclass defines a ``name`` and :meth:`score`, or :meth:`score_row` if it needs the columns of
    the example (:class:`rlcomp.interfaces.task.Example`), such as unit tests or a rubric. A
    response that cannot be judged (score ``None`` or NaN) gets reward 0 and ``reward_valid`` False,
    and no loss uses it. An exception, a score that is not a number and a score that is infinite in
    float32 stop the run, since a broken verifier must not train a model. A score may be a mapping
    of named parts, ``R = sum_k w_k R_k``. A row that lacks a part of other rows is invalid, unless
    the weight of the part is 0.

    Reads ``prompt``, ``response``, ``answer`` (``[B, W]`` uint8 texts), and if present ``columns``
    (``{name: [B, W]}`` uint8 JSON texts), ``episode_error`` ``[B, W]`` (rows whose environment
    failed are invalid) and ``trajectory_id`` ``[B]``. Writes ``reward``, float32 ``[B]``,
    ``rewards`` (``{name: [B]}``), ``correct`` and ``reward_valid`` (bool ``[B]``). Records the
    metrics of :func:`write_reward`, and each named part ``reward/<part>``, over the rows with it.

    Attributes:
        name: name in ``rewards`` of a score without named parts.
        weights: weights of named parts; 1 for parts without an entry.
        correct_by: name of the part that decides if a response is right. None: the reward;
            then only one part may have a weight.
        needs: names of the columns that a score needs.
        column_remedy: remedy in the message if the task lacks one of these columns.
    """

    reads: ClassVar[tuple[Key, ...]] = ("prompt", "response", "answer")
    optional: ClassVar[tuple[Key, ...]] = ("columns", "episode_error", "trajectory_id")
    writes: ClassVar[tuple[Key, ...]] = ("reward", "rewards", "correct", "reward_valid")

    name: str
    weights: Mapping[str, float] = MappingProxyType({})
    correct_by: str | None = None
    needs: ClassVar[tuple[str, ...]] = ()
    column_remedy: ClassVar[str] = "write it into the task's data"

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[str, None] = {}  # every part so far, since a batch may lack one

    @property
    def needed_columns(self) -> frozenset[str]:
        """Return the names of the needed columns, which are checked when a run starts."""
        return frozenset(self.needs)

    @property
    def has_verdict(self) -> bool:
        """Return whether the scores separate right answers from wrong answers."""
        return True

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """Return the reward of one response, or None if it cannot be judged."""
        raise NotImplementedError

    def score_row(self, row: Mapping[str, object]) -> Score:
        """Return the reward of one row, or its named parts.

        The row holds ``prompt``, ``response``, ``answer`` and the columns by name, except null
        columns and columns with the name of one of the three texts.
        """
        return self.score(*(str(row[key]) for key in TextReward.reads))

    def is_correct(self, score: float) -> bool:
        """Return whether a score means a right response; by default, a score of at least 1."""
        return score >= 1.0

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row; write the reward entries."""
        rows = text_rows(batch, TextReward.reads)
        return self.write_scores(batch, rows, self.score_rows(rows, range(len(rows))))

    @property
    def scorer(self) -> str:
        """Return the source of the scores, for messages about them."""
        return type(self).__name__

    def score_rows(
        self, rows: Sequence[Mapping[str, object]], numbers: Sequence[int]
    ) -> Sequence[object]:
        """Return the score of each row, unchecked.

        Args:
            rows: rows as for :meth:`score_row`.
            numbers: index of each row in its batch, for messages.
        """
        scores = []
        for number, row in zip(numbers, rows, strict=True):
            with row_note(number, row):
                scores.append(self.score_row(row))
        return scores

    def write_scores(
        self, batch: TensorDict, rows: Sequence[Mapping[str, object]], scores: Sequence[object]
    ) -> TensorDict:
        """Write the reward entries of scores: a number, named parts or None for each row.

        Raises:
            ConfigError: a score is not a number, ``weights`` or ``correct_by`` names no part, or
                several parts have a weight and ``correct_by`` is missing.
            DataError: a score is infinite in float32.
        """
        responses = [str(row["response"]) for row in rows]
        parts = Scores(self.scorer, self.name, responses, scores, earlier=self._parts)
        self._parts |= parts.batch_names
        weighted_parts = [name for name, weight in self.weights.items() if weight]
        parts.check_named([*weighted_parts, *([self.correct_by] if self.correct_by else [])])
        if self.correct_by is None:
            parts.check_one_decides(self.weights)
        totals = parts.totals(self.weights)
        valid = [total is not None for total in totals]
        deciding = totals if self.correct_by is None else parts.values(self.correct_by)
        correct = [ok and self.is_correct(s or 0.0) for ok, s in zip(valid, deciding, strict=True)]
        device = batch["response"].device

        def tensor(values: Sequence[float | None], missing: float) -> Tensor:
            numbers = [missing if value is None else value for value in values]
            return torch.tensor(numbers, dtype=torch.float32, device=device)

        missing = math.nan if parts.has_parts else 0.0
        rewards = {name: tensor(parts.values(name), missing) for name in parts.names}
        for name in parts.names if parts.has_parts else ():
            present = [value is not None for value in parts.values(name)]
            where = torch.tensor(present, dtype=torch.bool, device=device)
            record(f"reward/{name}", rewards[name], where=where)
        right = torch.tensor(correct, dtype=torch.bool, device=device)
        judged = torch.tensor(valid, dtype=torch.bool, device=device)
        total = tensor(totals, 0.0)
        return write_reward(batch, total, rewards, right, judged, decides=self.has_verdict)


def name_without_verdict(reward: nn.Module) -> str | None:
    """Return the name of a reward whose ``has_verdict`` is False; None for any other reward."""
    if getattr(reward, "has_verdict", True):
        return None
    kind = type(reward).__name__
    return str(getattr(reward, "name", re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()))


def check_decides(reward: Component, path: str) -> None:
    """Check that a reward decides what is correct, for parts that count right answers.

    Args:
        reward: the checked reward.
        path: its config path, for the message.

    Raises:
        ConfigError: the reward does not decide.
    """
    if (name := name_without_verdict(reward)) is not None:
        raise ConfigError(
            f"{path} is a {type(reward).__name__}, which does not decide what is correct, but "
            f"right answers are counted here: set {path} to a verifier; for a function of your "
            f"own whose value of at least 1 means right, set {path}.correct_by={name}"
        )


@contextlib.contextmanager
def row_note(number: int, row: Mapping[str, object]) -> Iterator[None]:
    """Add a note that describes a row to exceptions of the context.

    Args:
        number: index of the row in its batch, from 0.
        row: row whose ``prompt`` and ``response`` the note shows, shortened and escaped.
    """
    try:
        yield
    except BaseException as error:
        shown = ", ".join(f"{key} {row[key]!r:.122}" for key in ("prompt", "response"))
        add_note(error, f"row {number}: {shown}")
        raise


def text_rows(batch: TensorDict, keys: Iterable[Key]) -> list[dict[str, object]]:
    """Return for each row its columns and the texts of some keys, by name."""
    rows = decode_columns(batch)
    for key in keys:
        for row, text in zip(rows, decode_texts(batch[key]), strict=True):
            row[key] = text
    return rows


def without_failed(batch: TensorDict, valid: Tensor) -> Tensor:
    """Return the valid rows whose environment did not fail (``episode_error``), ``[B]``, bool."""
    if "episode_error" not in batch.keys():
        return valid
    remaining: Tensor = valid & (batch["episode_error"][:, 0] == TEXT_END)  # empty text
    return remaining


def shuffle_rewards(batch: TensorDict, scored: TensorDict, generator: torch.Generator) -> None:
    """Write ``reward``, ``rewards`` and ``correct`` of ``scored`` into the batch, permuted.

    The permutation is over the valid rows; ``scored`` may be the batch itself.
    """
    rows = scored["reward_valid"].nonzero()[:, 0]
    order = torch.randperm(len(rows), generator=generator).to(rows.device)
    source = torch.arange(scored.shape[0], device=rows.device)
    source[rows] = rows[order]
    for key in ("reward", "rewards", "correct"):
        batch[key] = scored[key][source]


def write_reward(
    batch: TensorDict,
    reward: Tensor,
    rewards: Mapping[str, Tensor],
    correct: Tensor,
    valid: Tensor,
    *,
    decides: bool = True,
) -> TensorDict:
    """Write the four reward entries and return the batch.

    Records ``reward/mean``, ``reward/correct`` (both over valid rows; the second with ``decides``)
    and ``reward/invalid_fraction``; an episode counts once, in any number of rows.

    Args:
        batch: gets the entries.
        reward: shape ``[B]``; ignored where not valid.
        rewards: each named part, shape ``[B]``.
        correct: bool, shape ``[B]``.
        valid: bool, shape ``[B]``: rows that could be judged. Episodes whose environment failed
            (``episode_error``) are never valid.
        decides: whether the reward separates right answers from wrong answers.

    Raises:
        ShapeError: an entry's shape is not ``[B]``.
    """
    verdicts = [("correct", correct), ("reward_valid", valid)]
    for name, entry in [("reward", reward), *rewards.items(), *verdicts]:
        if entry.shape != batch.batch_size:
            raise ShapeError(
                f"'{name}' of the reward has shape {list(entry.shape)}, but the batch has "
                f"{list(batch.batch_size)} rows: write one value a row"
            )
    correct, valid = correct.bool(), without_failed(batch, valid.bool())
    batch["reward"] = torch.where(valid, reward, torch.zeros_like(reward))
    batch["rewards"] = TensorDict(dict(rewards), batch_size=batch.batch_size)
    batch["correct"] = correct & valid
    batch["reward_valid"] = valid
    episodes = first_row_mask(batch).to(valid.device)
    record("reward/mean", batch["reward"], where=valid & episodes)
    if decides:
        record("reward/correct", batch["correct"].float(), where=valid & episodes)
    record("reward/invalid_fraction", (~valid).float(), where=episodes)
    return batch
