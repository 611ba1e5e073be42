"""Votes for maj@k: classes of equal answers, and verdicts of a judge without its metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.batch import encode_texts
from rlcomp.component import Component
from rlcomp.keys import TEXT_END
from rlcomp.metrics import recording

# Entries of a row that a judge of answers reads; the other entries are not copied for it.
JUDGED = ("prompt", "response", "answer", "answer_ends", "columns")

# A question: the index of its row or group, and the two answers that may be equal.
Pair = tuple[int, str, str]
Equal = Callable[[Sequence[Pair]], Sequence[bool]]


def verdicts(judge: Component, batch: TensorDict, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return a judge's verdicts on some rows of a batch; the others are not judged.

    Args:
        judge: reads texts, and writes ``correct`` and ``reward_valid``; its metrics are dropped.
        batch: ``B`` rows with ``prompt``, ``response`` and ``answer``.
        rows: rows to judge, bool, shape ``[B]``.

    Returns:
        Right, and judged; bool, shape ``[B]`` each.
    """
    right, judged = torch.zeros_like(rows), torch.zeros_like(rows)
    if bool(rows.any()):
        with recording():
            output = judge(batch.select(*JUDGED, strict=False)[rows])
        judged[rows] = output["reward_valid"]
        right[rows] = output["correct"] & output["reward_valid"]
    return right, judged


def repeated_verdicts(
    judge: Component, batch: TensorDict, rows: Tensor, times: int
) -> tuple[Tensor, Tensor]:
    """Count how often a judge accepts and rejects some rows of a batch; abstentions are neither.

    Args:
        judge: as for :func:`verdicts`; called ``times`` times.
        batch: ``B`` rows.
        rows: rows to judge, bool, shape ``[B]``.
        times: number of verdicts, at least one.

    Returns:
        Accepted and rejected, int64, shape ``[B]`` each; 0 in the other rows.
    """
    results = [verdicts(judge, batch, rows) for _ in range(times)]
    yes = torch.stack([right for right, _ in results]).sum(0)
    return yes, torch.stack([judged for _, judged in results]).sum(0) - yes


def first_votes(groups: Iterable[Iterable[str]], equal: Equal | None) -> list[dict[str, str]]:
    """Map, for each group, every vote to the first vote of its class of equal votes.

    A vote joins the first class whose first vote it equals. This needs few questions if there are
    few
    classes: in each round, the first vote without a class founds one, and the votes without a class
        are compared with it.

    Args:
        groups: the votes of each group; votes of the same text are equal.
        equal: decides which pairs of different texts in a group (its index, the first vote of a
            class, the other) are equal as well. None: no others are.

    Examples:
        >>> def same(pairs):
        ...     return [first.lower() == other.lower() for _, first, other in pairs]
        >>> first_votes([["a", "b", "a", "A"], ["B"]], same)
        [{'a': 'a', 'A': 'a', 'b': 'b'}, {'B': 'B'}]
    """
    left = [[*dict.fromkeys(votes)] for votes in groups]
    if equal is None:
        return [{vote: vote for vote in votes} for votes in left]
    founder_of: list[dict[str, str]] = [{} for _ in left]
    while any(left):
        founders = [votes[0] if votes else "" for votes in left]
        questions = [
            (group, founders[group], other)
            for group, votes in enumerate(left)
            for other in votes[1:]
        ]
        joined = {
            pair for pair, same in zip(questions, _answered(equal, questions), strict=True) if same
        }
        for group, (first, votes) in enumerate(zip(founders, left, strict=True)):
            own = [v for v in votes if v == first or (group, first, v) in joined]
            founder_of[group] |= dict.fromkeys(own, first)
            left[group] = [vote for vote in votes if vote not in founder_of[group]]
    return founder_of


def _answered(equal: Equal, questions: Sequence[Pair]) -> Sequence[bool]:
    return equal(questions) if questions else []


def class_sizes(groups: Sequence[Sequence[str]], equal: Equal | None) -> list[list[int]]:
    """Return for each group the sizes of the classes of equal votes of :func:`first_votes`.

    Examples:
        >>> class_sizes([["a", "b", "a"], []], None)
        [[2, 1], []]
    """
    firsts = first_votes(groups, equal)
    return [
        [*Counter(first[vote] for vote in votes).values()]
        for votes, first in zip(groups, firsts, strict=True)
    ]


def as_gold(rows: TensorDict, pairs: Sequence[Pair]) -> TensorDict:
    """Return rows in which the first of two answers is the gold one and the second the response.

    Args:
        rows: prompts and columns of the problems.
        pairs: the index of a row, and two answers.

    Returns:
        ``[N]`` rows, one a pair, with the entries that a judge of texts reads; ``answer_ends``
        covers the whole answer, if the rows have any.
    """
    numbers, gold, responses = zip(*pairs, strict=True)
    questions = rows.select(*JUDGED, strict=False)[torch.tensor(numbers)]
    device = rows["response"].device
    questions["answer"], questions["response"] = (
        encode_texts(texts).to(device) for texts in (gold, responses)
    )
    if "answer_ends" in rows.keys():
        questions["answer_ends"] = _whole(questions["answer"])
    return questions


def _whole(answers: Tensor) -> Tensor:
    """Mark the last byte of each answer: no part of it counts as an answer by itself."""
    written = answers != TEXT_END
    last = written.sum(1, keepdim=True) - 1
    return written & (torch.arange(answers.shape[1], device=answers.device) == last)


def same_answers(judge: Component, rows: TensorDict, pairs: Sequence[Pair]) -> list[bool]:
    """Test if a judge accepts the second answer of each pair with the first as the gold one.

    Args:
        judge: reads texts, and writes ``correct`` and ``reward_valid``.
        rows: rows of the problems.
        pairs: the index of a row, and two answers.
    """
    questions = as_gold(rows, pairs)
    every = torch.ones(len(questions), dtype=torch.bool, device=questions["response"].device)
    right: list[bool] = verdicts(judge, questions, every)[0].tolist()
    return right
