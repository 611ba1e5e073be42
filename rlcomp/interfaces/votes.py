"""Votes for maj@k: classes of equal answers, and verdicts of a judge that leave no metrics."""

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

# What a judge of answers reads of a row; the rest of a rollout is not copied for it.
JUDGED = ("prompt", "response", "answer", "answer_ends", "columns")

# Of a question: the number of its row or group, and the two answers that may be equal.
Pair = tuple[int, str, str]
Equal = Callable[[Sequence[Pair]], Sequence[bool]]


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
            found = judge(batch.select(*JUDGED, strict=False)[rows])
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


def first_votes(groups: Iterable[Iterable[str]], equal: Equal | None) -> list[dict[str, str]]:
    """Of each group, every vote with the first vote of its class of equal ones.

    A vote joins the first class whose first vote it is equal to. In rounds, so that few questions
    are asked where there are few classes: in each, the first vote without a class founds one, and
    those that are left are compared with it.

    Args:
        groups: the votes of each, equal if they are the same text.
        equal: of pairs of different texts in a group (its number, the first vote of a class, the
            other), which are equal, too. None: no others are.

    Examples:
        >>> def same(pairs):
        ...     return [first.lower() == other.lower() for _, first, other in pairs]
        >>> first_votes([["a", "b", "a", "A"], ["B"]], same)
        [{'a': 'a', 'A': 'a', 'b': 'b'}, {'B': 'B'}]
    """
    left = [[*dict.fromkeys(votes)] for votes in groups]
    if equal is None:
        return [{vote: vote for vote in votes} for votes in left]
    found: list[dict[str, str]] = [{} for _ in left]
    while any(left):
        founders = [votes[0] if votes else "" for votes in left]
        asked = [
            (group, founders[group], other)
            for group, votes in enumerate(left)
            for other in votes[1:]
        ]
        joined = {pair for pair, same in zip(asked, _answered(equal, asked), strict=True) if same}
        for group, (first, votes) in enumerate(zip(founders, left, strict=True)):
            own = [v for v in votes if v == first or (group, first, v) in joined]
            found[group] |= dict.fromkeys(own, first)
            left[group] = [vote for vote in votes if vote not in found[group]]
    return found


def _answered(equal: Equal, asked: Sequence[Pair]) -> Sequence[bool]:
    return equal(asked) if asked else []


def class_sizes(groups: Sequence[Sequence[str]], equal: Equal | None) -> list[list[int]]:
    """Of each group, the sizes of the classes of equal votes, as :func:`first_votes` makes them.

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
    """Rows in which of two answers the first stands as the gold one and the second as the response.

    Args:
        rows: of the problems: their prompts and columns.
        pairs: the number of a row, and two answers.

    Returns:
        ``[N]`` rows, one a pair, with what a judge of texts reads; ``answer_ends`` of the whole
        answer, where the rows have any.
    """
    numbers, gold, given = zip(*pairs, strict=True)
    made = rows.select(*JUDGED, strict=False)[torch.tensor(numbers)]
    device = rows["response"].device
    made["answer"], made["response"] = (encode_texts(texts).to(device) for texts in (gold, given))
    if "answer_ends" in rows.keys():
        made["answer_ends"] = _whole(made["answer"])
    return made


def _whole(answers: Tensor) -> Tensor:
    """Marks the last byte of each answer: no part of it counts as an answer by itself."""
    written = answers != TEXT_END
    last = written.sum(1, keepdim=True) - 1
    return written & (torch.arange(answers.shape[1], device=answers.device) == last)


def same_answers(judge: Component, rows: TensorDict, pairs: Sequence[Pair]) -> list[bool]:
    """Whether a judge takes the second answer of each pair as right if the first is the gold one.

    Args:
        judge: reads texts, and writes ``correct`` and ``reward_valid``.
        rows: of the problems.
        pairs: the number of a row, and two answers.
    """
    asked = as_gold(rows, pairs)
    every = torch.ones(len(asked), dtype=torch.bool, device=asked["response"].device)
    right: list[bool] = verdicts(judge, asked, every)[0].tolist()
    return right
