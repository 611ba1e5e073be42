"""Votes for maj@k: classes of equal answers, and verdicts of a judge that leave no metrics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import combinations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.batch import encode_texts
from rlcomp.component import Component
from rlcomp.metrics import recording

# What a judge of answers reads of a row; the rest of a rollout is not copied for it.
_JUDGED = ("prompt", "response", "answer", "answer_ends", "columns")


def verdicts(judge: Component, batch: TensorDict, rows: Tensor) -> tuple[Tensor, Tensor]:
    """What a judge says of some rows of a batch; the others are not judged.

    Args:
        judge: reads texts, and writes ``correct`` and ``reward_valid``; its metrics are dropped.
        batch: ``B`` rows with ``prompt``, ``response`` and ``answer``.
        rows: which of them, bool, shape ``[B]``.

    Returns:
        Right, and judged; bool, shape ``[B]``.
    """
    right, judged = torch.zeros_like(rows), torch.zeros_like(rows)
    if bool(rows.any()):
        with recording():
            found = judge(batch.select(*_JUDGED, strict=False)[rows])
        judged[rows] = found["reward_valid"]
        right[rows] = found["correct"] & found["reward_valid"]
    return right, judged


def repeated_verdicts(
    judge: Component, batch: TensorDict, rows: Tensor, times: int
) -> tuple[Tensor, Tensor]:
    """How often a judge says yes and no to some rows of a batch; abstentions are neither.

    Args:
        judge: as for :func:`verdicts`; asked ``times`` times.
        batch: ``B`` rows.
        rows: which of them, bool, shape ``[B]``.
        times: how often, at least once.

    Returns:
        Yes and no, int64, shape ``[B]``; 0 in the other rows.
    """
    given = [verdicts(judge, batch, rows) for _ in range(times)]
    yes = torch.stack([right for right, _ in given]).sum(0)
    return yes, torch.stack([judged for _, judged in given]).sum(0) - yes


def classes(votes: Sequence[str | None], same: Collection[tuple[str, str]]) -> list[list[int]]:
    """Classes of equal votes: the places of each, in the order in which they are first met.

    Args:
        votes: equal if they are the same text; None: no vote.
        same: pairs of different texts that are equal, too; a vote joins the first class whose first
            text it is equal to.

    Examples:
        >>> classes(["a", None, "b", "a", "A"], {("a", "A")})
        [[0, 3, 4], [2]]
    """
    found: dict[str, list[int]] = {}
    for place, vote in enumerate(votes):
        if vote is not None:
            own = (first for first in found if (first, vote) in same)
            found.setdefault(vote if vote in found else next(own, vote), []).append(place)
    return [*found.values()]


def class_sizes(
    votes: Sequence[str], equal: Callable[[Sequence[tuple[str, str]]], Sequence[bool]] | None
) -> list[int]:
    """Sizes of the classes of equal votes.

    Args:
        votes: equal if they are the same text.
        equal: which pairs of different texts are equal, too, as for :func:`classes`. None: no
            others are.

    Examples:
        >>> class_sizes(["a", "b", "a", "A"], lambda pairs: [x.lower() == y for y, x in pairs])
        [3, 1]
    """
    pairs = [*combinations(dict.fromkeys(votes), 2)] if equal is not None else []
    found = equal(pairs) if equal is not None and pairs else []
    same = {pair for pair, is_equal in zip(pairs, found, strict=True) if is_equal}
    return [len(places) for places in classes(votes, same)]


def same_answers(judge: Component, row: TensorDict, pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether a judge takes the second answer of each pair as right if the first is the gold one.

    Args:
        judge: reads texts, and writes ``correct`` and ``reward_valid``.
        row: of the problem, shape ``[1]``: its prompt and columns.
        pairs: two answers each.
    """
    rows = row.exclude("answer_ends")[torch.zeros(len(pairs), dtype=torch.int64)]
    gold, given = zip(*pairs, strict=True)
    device = row["response"].device
    rows["answer"], rows["response"] = (encode_texts(texts).to(device) for texts in (gold, given))
    every = torch.ones(len(pairs), dtype=torch.bool, device=device)
    right: list[bool] = verdicts(judge, rows, every)[0].tolist()
    return right
