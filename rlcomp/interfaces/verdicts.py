"""Verdicts on answers: their texts, verifiers by a reward, and votes for maj@k by a judge."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import Unbuilt
from rlcomp.batch import encode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.reward import TextReward
from rlcomp.interfaces.task import Example
from rlcomp.keys import TEXT_END
from rlcomp.metrics import recording
from rlcomp.workers.function_call import load

# Entries that a judge of answers reads.
JUDGE_KEYS = ("prompt", "response", "answer", "answer_ends", "columns")

# A question: the index of its row or group, and the two answers that may be equal.
Pair = tuple[int, str, str]
Equal = Callable[[Sequence[Pair]], Sequence[bool]]


def verdict_options(
    part: str, accept: str, reject: str, stop: str | None = None
) -> tuple[str, str]:
    """Check the two options of a verdict; return both, the accepting option first.

    Args:
        part: owner of the options, for the message.
        accept: text that accepts an answer.
        reject: text that rejects it.
        stop: text that ends a turn and is not part of it.

    Raises:
        ConfigError: one option ends with the other, so that a text could end with both; an option
            ends with space, which is ignored; or an option contains the stop text.
    """
    for name, option in (("accept", accept), ("reject", reject)):
        if option != option.rstrip():
            raise ConfigError(f"{part}.{name} is {option!r}: must not end with space")
        if stop and stop in option:
            raise ConfigError(
                f"{part}.stop is {stop!r}, but {part}.{name}={option!r} contains it, and the turn "
                "would end within the verdict: change one"
            )
    if accept.endswith(reject) or reject.endswith(accept):
        raise ConfigError(
            f"{part}: accept is {accept!r} and reject is {reject!r}: a text could end with both, "
            "since one ends with the other: change one"
        )
    return accept, reject


def read_verdict(text: str, options: Sequence[str]) -> int | None:
    """Return the index of the option that a text ends with; None for no verdict.

    Trailing space is ignored. A word that ends with an option counts as the option: ``nobody`` ends
    with ``y``. For a model that writes words, use whole sentences or marked options (``<accept>``).

    Examples:
        >>> read_verdict("1+2=3 y ", ("y", "n")), read_verdict("yes?", ("y", "n"))
        (0, None)
    """
    matches = [index for index, option in enumerate(options) if text.rstrip().endswith(option)]
    return matches[0] if matches else None


class AnswerVerifier:
    """Verifier of responses by a reward that scores single texts.

    Args:
        reward: scores single texts; an unbuilt reward is built here.
        path: config path of the setting, for errors.

    Raises:
        ConfigError: the object is not a reward that scores single texts by itself.
    """

    def __init__(self, reward: TextReward | Unbuilt, path: str) -> None:
        part: Any = load(reward.target, reward.arguments) if isinstance(reward, Unbuilt) else reward
        # A reward with its own ``forward`` reads more of the batch than the texts of a row.
        if not isinstance(part, TextReward) or type(part).forward is not TextReward.forward:
            raise ConfigError(
                f"{path} is a {type(part).__name__}: must be a reward that scores single texts by "
                f"itself, such as /reward@{path}: exact_match"
            )
        self.reward = part
        self.path = path

    def is_right(self, example: Example, response: str) -> bool:
        """Return True if the reward accepts a response to the prompt of an example.

        Raises:
            DataError: the reward returns something other than a number, or NaN.
        """
        row = {"prompt": example.prompt, "response": response, "answer": example.answer}
        columns = {name: value for name, value in example.columns.items() if value is not None}
        score = self.reward.score_row({**columns, **row})
        if not isinstance(score, (int, float)) or math.isnan(score):
            raise DataError(
                f"{self.path} returned {score!r:.60} for {response!r:.60}: must be a number; use a "
                "reward that has no named parts and gives a verdict on every text"
            )
        return self.reward.is_correct(float(score))


def verdicts(judge: Component, batch: TensorDict, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return a judge's verdicts on the selected rows of a batch.

    Args:
        judge: reads texts, and writes ``correct`` and ``reward_valid``. Its metrics are not
            recorded.
        batch: ``B`` rows with the entries that the judge reads, of ``JUDGE_KEYS``.
        rows: rows to judge, bool, shape ``[B]``.

    Returns:
        Mask of the rows that the judge accepts, and mask of the rows with a verdict; bool, shape
        ``[B]`` each.
    """
    right, judged = torch.zeros_like(rows), torch.zeros_like(rows)
    if bool(rows.any()):
        with recording():
            output = judge(batch.select(*JUDGE_KEYS, strict=False)[rows])
        judged[rows] = output["reward_valid"]
        right[rows] = output["correct"] & output["reward_valid"]
    return right, judged


def repeated_verdicts(
    judge: Component, batch: TensorDict, rows: Tensor, times: int
) -> tuple[Tensor, Tensor]:
    """Count how often a judge accepts and rejects each selected row; abstentions do not count.

    Args:
        judge: reads texts, and writes ``correct`` and ``reward_valid``; called ``times`` times.
        batch: ``B`` rows with the entries that the judge reads, of ``JUDGE_KEYS``.
        rows: rows to judge, bool, shape ``[B]``.
        times: number of verdicts, at least one.

    Returns:
        Numbers of acceptances and of rejections, int64, shape ``[B]`` each; 0 in the other rows.
    """
    results = [verdicts(judge, batch, rows) for _ in range(times)]
    accepted = torch.stack([right for right, _ in results]).sum(0)
    return accepted, torch.stack([judged for _, judged in results]).sum(0) - accepted


def first_votes(groups: Iterable[Iterable[str]], equal: Equal | None) -> list[dict[str, str]]:
    """Return for each group a map from every vote to the first vote of its class of equal votes.

    In each round the first vote without a class founds a new class, and all other votes without a
    class are compared with it. Few classes therefore need few comparisons.

    Args:
        groups: votes of each group; votes with the same text are equal.
        equal: function that decides which pairs of different texts are equal. A pair is the index
            of the group, the first vote of a class, and another vote. None: different texts differ.

    Examples:
        >>> def same(pairs):
        ...     return [first.lower() == other.lower() for _, first, other in pairs]
        >>> first_votes([["a", "b", "a", "A"], ["B"]], same)
        [{'a': 'a', 'A': 'a', 'b': 'b'}, {'B': 'B'}]
    """
    unassigned = [[*dict.fromkeys(votes)] for votes in groups]
    if equal is None:
        return [{vote: vote for vote in votes} for votes in unassigned]
    founder_of: list[dict[str, str]] = [{} for _ in unassigned]
    while any(unassigned):
        founders = [votes[0] if votes else "" for votes in unassigned]
        pairs = [
            (group, founders[group], other)
            for group, votes in enumerate(unassigned)
            for other in votes[1:]
        ]
        answers = equal(pairs) if pairs else []
        equal_pairs = {pair for pair, same in zip(pairs, answers, strict=True) if same}
        for group, (founder, votes) in enumerate(zip(founders, unassigned, strict=True)):
            members = [v for v in votes if v == founder or (group, founder, v) in equal_pairs]
            founder_of[group] |= dict.fromkeys(members, founder)
            unassigned[group] = [vote for vote in votes if vote not in founder_of[group]]
    return founder_of


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


def comparison_rows(rows: TensorDict, pairs: Sequence[Pair]) -> TensorDict:
    """Return a row for each pair of answers: the first is the gold answer, the second the response.

    Args:
        rows: prompts and columns of the problems.
        pairs: the index of a row, and two answers; at least one pair.

    Returns:
        ``[N]`` rows, one per pair, with the entries that a judge of texts reads; ``answer_ends``
        covers the whole answer, if the rows have any.
    """
    indices, gold, responses = zip(*pairs, strict=True)
    questions = rows.select(*JUDGE_KEYS, strict=False)[torch.tensor(indices)]
    device = rows["response"].device
    questions["answer"], questions["response"] = (
        encode_texts(texts).to(device) for texts in (gold, responses)
    )
    if "answer_ends" in rows.keys():
        questions["answer_ends"] = _last_byte_mask(questions["answer"])
    return questions


def _last_byte_mask(answers: Tensor) -> Tensor:
    """Return the mask of the last byte of each answer: only a whole answer counts as an answer."""
    is_text = answers != TEXT_END
    last = is_text.sum(1, keepdim=True) - 1
    return is_text & (torch.arange(answers.shape[1], device=answers.device) == last)


def same_answers(judge: Component, rows: TensorDict, pairs: Sequence[Pair]) -> list[bool]:
    """Return for each pair True if a judge accepts its second answer with the first as gold.

    Args:
        judge: reads texts, and writes ``correct`` and ``reward_valid``.
        rows: rows of the problems.
        pairs: the index of a row, and two answers; at least one pair. A pair without a verdict is
            False.
    """
    questions = comparison_rows(rows, pairs)
    all_rows = torch.ones(len(questions), dtype=torch.bool, device=questions["response"].device)
    right: list[bool] = verdicts(judge, questions, all_rows)[0].tolist()
    return right
