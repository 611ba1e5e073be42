"""Base class of text rewards (verifiers)."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Iterable, Iterator, Mapping

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.batch import decode_columns, decode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError, DataError, ShapeError, add_note
from rlcomp.keys import Key
from rlcomp.metrics import record


class TextReward(Component):
    """A reward computed from prompt, response, gold answer and columns, row by row.

    A subclass defines a ``name`` and :meth:`score`, or :meth:`score_row` if it needs the
    columns of the example (:class:`rlcomp.interfaces.task.Example`): unit tests, a rubric. A
    response that cannot be judged (``None`` or NaN) gets reward 0 and ``reward_valid`` False,
    so that it is not trained on; an exception stops the run, and so does a score that is no number
    or infinite in float32, because a broken verifier must never train a model.

    Reads ``prompt``, ``response``, ``answer`` (``[B, W]`` uint8 texts), and where they are
    there ``columns`` (``{name: [B, W]}`` uint8 JSON texts). Writes ``reward``, float32 ``[B]``,
    ``rewards`` (``{name: [B]}``), ``correct`` and ``reward_valid`` (bool ``[B]``). Records
    ``reward/mean``, ``reward/correct`` (both over valid rows) and ``reward/invalid_fraction``.

    Attributes:
        name: under which the part stands in ``rewards``.
    """

    reads = ("prompt", "response", "answer")
    optional = ("columns",)
    writes = ("reward", "rewards", "correct", "reward_valid")

    name: str

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """The reward of one response, or None where it cannot be judged."""
        raise NotImplementedError

    def score_row(self, row: Mapping[str, object]) -> float | None:
        """The reward of one row: ``prompt``, ``response``, ``answer`` and each column by name.

        A column that the example lacks, or that is null there, is not in the row; neither is one
        that is called as one of the three texts.
        """
        return self.score(*(str(row[key]) for key in TextReward.reads))

    def is_correct(self, score: float) -> bool:
        """Whether a score means that the response is right: 1 or more by default."""
        return score >= 1.0

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row; write the reward entries."""
        rows = text_rows(batch, TextReward.reads)
        scores = [self._checked(number, row) for number, row in enumerate(rows)]
        device = batch["response"].device
        values = [0.0 if s is None else s for s in scores]
        reward = torch.tensor(values, dtype=torch.float32, device=device)
        valid = torch.tensor([s is not None for s in scores], dtype=torch.bool, device=device)
        correct = [s is not None and self.is_correct(s) for s in scores]
        right = torch.tensor(correct, dtype=torch.bool, device=device)
        return write_reward(batch, reward, {self.name: reward}, right, valid)

    def _checked(self, number: int, row: Mapping[str, object]) -> float | None:
        with row_named(number, row):
            score = self.score_row(row)
        return checked_score(type(self).__name__, f"{row['response']!r:.62}", score)


@contextlib.contextmanager
def row_named(number: int, row: Mapping[str, object]) -> Iterator[None]:
    """Context in which an exception gets a note with the row it was raised on.

    Args:
        number: of the row in its batch, from 0.
        row: its ``prompt`` and ``response`` are shown, cut short and without control characters.
    """
    try:
        yield
    except BaseException as error:
        shown = ", ".join(f"{key} {row[key]!r:.122}" for key in ("prompt", "response"))
        add_note(error, f"row {number}: {shown}")
        raise


def checked_score(owner: str, what: str, score: object) -> float | None:
    """A score as float32 holds it; None where it cannot be judged (None, NaN).

    Args:
        owner: the reward, for messages.
        what: it scored, for messages.
        score: what it returned.

    Raises:
        ConfigError: the score is no number.
        DataError: it is infinite, or becomes so in float32 (beyond 3.4e38).

    Examples:
        >>> checked_score("Mine", "'4'", True), checked_score("Mine", "''", float("nan"))
        (1.0, None)
    """
    if score is None:
        return None
    number = _number(score)
    if number is None:
        if inspect.iscoroutine(score):
            score.close()  # else Python warns that nobody awaited it
        raise ConfigError(
            f"{owner} scored {what} with {_shown(score)}, a {type(score).__name__}: must be "
            "a number, or None where it cannot be judged"
        )
    if math.isinf(torch.tensor(number, dtype=torch.float32).item()):
        raise DataError(
            f"{owner} scored {what} with {_shown(score)}, which is infinite in float32: "
            "return a finite number, or None where it cannot be judged"
        )
    return None if math.isnan(number) else number


def _number(score: object) -> float | None:
    """A score as a float; None for what is no number, and for texts, which float() would read."""
    if isinstance(score, (str, bytes, bytearray)):
        return None
    try:
        return float(score)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf
    except (TypeError, ValueError, RuntimeError):  # of a tensor of several numbers
        return None


def _shown(score: object) -> str:
    try:
        return repr(score)[:60]
    except ValueError:  # an integer of thousands of digits
        return "a number of thousands of digits"


def text_rows(batch: TensorDict, keys: Iterable[Key]) -> list[dict[str, object]]:
    """Each row of a batch by name: the columns of its example, and its texts of these keys."""
    rows = decode_columns(batch)
    for key in keys:
        for row, text in zip(rows, decode_texts(batch[key]), strict=True):
            row[key] = text
    return rows


def write_reward(
    batch: TensorDict,
    reward: Tensor,
    rewards: Mapping[str, Tensor],
    correct: Tensor,
    valid: Tensor,
) -> TensorDict:
    """Write the four reward entries into a batch and record them.

    Args:
        batch: gets the entries.
        reward: shape ``[B]``; ignored where not valid.
        rewards: each named part, shape ``[B]``.
        correct: bool, shape ``[B]``.
        valid: bool, shape ``[B]``: which rows could be judged.

    Returns:
        The batch.

    Raises:
        ShapeError: an entry has another shape than ``[B]``.
    """
    verdicts = [("correct", correct), ("reward_valid", valid)]
    for name, entry in [("reward", reward), *rewards.items(), *verdicts]:
        if entry.shape != batch.batch_size:
            raise ShapeError(
                f"'{name}' of the reward has shape {list(entry.shape)}, but the batch has "
                f"{list(batch.batch_size)} rows: write one value a row"
            )
    correct, valid = correct.bool(), valid.bool()
    batch["reward"] = torch.where(valid, reward, torch.zeros_like(reward))
    batch["rewards"] = TensorDict(dict(rewards), batch_size=batch.batch_size)
    batch["correct"] = correct & valid
    batch["reward_valid"] = valid
    record("reward/mean", batch["reward"], where=valid)
    record("reward/correct", batch["correct"].float(), where=valid)
    record("reward/invalid_fraction", (~valid).float())
    return batch
