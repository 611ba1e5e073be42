"""Recorded rollouts of a run by step and prompt, token by token."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from rlcomp.report.answers import cut

# A long record shows only its newest rollouts, so that a page stays below 3 MB.
MOST_BYTES = 1_200_000
_BYTES_PER_TOKEN = 150  # bytes of markup
_MAX_TOKENS = 2_000


@dataclass(frozen=True)
class TokenSpan:
    """Token of an answer; ``shades`` are its numbers between -1 and 1, for the colour."""

    text: str
    trained: bool
    shades: Mapping[str, float]
    tooltip: str


@dataclass(frozen=True)
class AnswerPiece:
    """Turn of the policy or text of an environment; a plain answer is one piece without a title."""

    title: str
    from_environment: bool
    tokens: Sequence[TokenSpan]


@dataclass(frozen=True)
class DisplayedAnswer:
    """Answer; without pieces if only its text was saved."""

    response: str
    pieces: Sequence[AnswerPiece]
    reward: float | None
    parts: Mapping[str, float | None]
    facts: Mapping[str, float | None]
    correct: bool | None
    truncated: bool


@dataclass(frozen=True)
class PromptSamples:
    """Prompt with its answers.

    ``pieces`` are parts of the right answer. A response that ends after any of them is right.
    """

    prompt: str
    answer: str | None
    pieces: Sequence[str]
    answers: Sequence[DisplayedAnswer]


@dataclass(frozen=True)
class StepSamples:
    """Samples of one step; ``kind`` is ``rollouts`` (with tokens) or ``evaluation``."""

    title: str
    kind: str
    prompts: Sequence[PromptSamples]


def group_samples(samples: Sequence[Mapping[str, Any]]) -> tuple[list[StepSamples], int]:
    """Group the samples of a run by step and prompt, the newest steps first.

    Returns:
        The steps, and the number of older samples that are left out.
    """
    newest = sorted(samples, key=lambda row: -row["total"])
    sizes = accumulate(map(_size, newest))
    count = max(1, sum(size <= MOST_BYTES for size in sizes))
    by_step: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for row in newest[:count]:
        kind = "rollouts" if "tokens" in row else "evaluation"
        by_step.setdefault((row["total"], kind), []).append(row)
    scales = _scales(samples)
    return [_step(key, rows, scales) for key, rows in by_step.items()], len(newest[count:])


def _size(row: Mapping[str, Any]) -> int:
    """Estimate the bytes of a sample on the page."""
    tokens = _BYTES_PER_TOKEN * min(len(row.get("tokens", ())), _MAX_TOKENS)
    return tokens + len(cut(row["prompt"])) + len(cut(row["response"]))


def _step(
    key: tuple[int, str], rows: Sequence[Mapping[str, Any]], scales: Mapping[str, float]
) -> StepSamples:
    (total, kind), first = key, rows[0]
    position = f"step {total} ({first.get('phase', '')} {first.get('step', '')})"
    return StepSamples(f"{position}: {kind}", kind, _prompts(rows, scales))


def _prompts(rows: Sequence[Mapping[str, Any]], scales: Mapping[str, float]) -> list[PromptSamples]:
    by_group: dict[object, list[Mapping[str, Any]]] = {}
    for number, row in enumerate(rows):
        by_group.setdefault(row.get("group_id", f"row {number}"), []).append(row)
    return [
        PromptSamples(
            group_rows[0]["prompt"],
            group_rows[0].get("answer"),
            group_rows[0].get("pieces", ()),
            [_answer(row, scales) for row in group_rows],
        )
        for group_rows in by_group.values()
    ]


def _answer(row: Mapping[str, Any], scales: Mapping[str, float]) -> DisplayedAnswer:
    count = min(len(row.get("tokens", ())), _MAX_TOKENS)
    numbers = {name: row.get(name) or [None] * count for name in _SHADES}
    tokens = [
        _token(
            row["tokens"][index],
            bool(row["trained"][index]),
            {name: column[index] for name, column in numbers.items()},
            scales,
        )
        for index in range(count)
    ]
    if omitted := len(row.get("tokens", ())) - count:
        tokens.append(TokenSpan(f" … ({omitted:,} tokens more)", False, {}, "left out"))
    return DisplayedAnswer(
        row["response"],
        _pieces(row, tokens),
        row.get("reward"),
        row.get("rewards") or {},
        row.get("facts") or {},
        row.get("correct"),
        bool(row.get("truncated")),
    )


def _pieces(row: Mapping[str, Any], tokens: Sequence[TokenSpan]) -> list[AnswerPiece]:
    """Split the tokens by turns if the answer belongs to an episode."""
    turns = list(row.get("turn") or ())[: len(tokens)]
    if not turns:
        return [AnswerPiece("", False, tokens)] if tokens else []
    turns += [turns[-1]] * (len(tokens) - len(turns))  # the note on omitted tokens
    starts = [0, *(n for n in range(1, len(turns)) if turns[n] != turns[n - 1])]
    spans = zip(starts, [*starts[1:], len(turns)], strict=True)
    return [
        AnswerPiece(
            _title(row, turns[start], range(start, end)), turns[start] < 0, tokens[start:end]
        )
        for start, end in spans
    ]


def _title(row: Mapping[str, Any], turn: int, positions: range) -> str:
    """Write the title of a turn: its number, reward and mean advantage."""
    if turn < 0:
        return "environment"
    words = [f"turn {turn + 1}"]
    for name, reduce in (("turn_reward", sum), ("advantage", _mean)):
        column = row.get(name) or ()
        values = [column[n] for n in positions if n < len(column) and column[n] is not None]
        if values and (name == "advantage" or any(values)):
            words.append(f"{name.removeprefix('turn_')} {reduce(values):.3g}")
    return ", ".join(words)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _token(
    text: str, trained: bool, numbers: Mapping[str, float | None], scales: Mapping[str, float]
) -> TokenSpan:
    if not trained:
        return TokenSpan(text, False, {}, "masked: not trained on")
    recorded = {name: number for name, number in numbers.items() if number is not None}
    shades = {
        name: round(max(-1.0, min(1.0, _SHADES[name](number) / scales[name])), 3)
        for name, number in recorded.items()
    }
    return TokenSpan(
        text, True, shades, ", ".join(f"{name} {n:.4g}" for name, n in recorded.items())
    )


# Numbers shown as colours, as functions of the recorded ones; 0 has no colour.
_SHADES: dict[str, Callable[[float], float]] = {
    "advantage": float,
    "ratio": lambda ratio: math.log(max(ratio, 1e-9)),
    "entropy": float,
}


def _scales(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the largest size of each number: one scale of colours for the whole page."""
    sizes_of = dict.fromkeys(_SHADES, 0.0)
    for row in rows:
        for name, shade in _SHADES.items():
            pairs = zip(row.get(name) or (), row.get("trained", ()), strict=False)
            sizes = (
                abs(shade(number))
                for number, is_trained in pairs
                if is_trained and number is not None
            )
            sizes_of[name] = max([sizes_of[name], *sizes])
    return {name: size or 1.0 for name, size in sizes_of.items()}
