"""Answers of the arms of a sweep to the same prompts, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlcomp.report.groups import Group
from rlcomp.report.runs import Run
from rlcomp.report.samples import read_samples

# What a page shows of them: a browser has to hold it, and a reader to read it.
MOST_PROMPTS = 20
MOST_CHARACTERS = 300_000
_OF_A_TEXT = 4_000


@dataclass(frozen=True)
class Said:
    """What one arm answered; a second answer to the same prompt is left out."""

    group: int
    response: str
    correct: bool | None
    reward: float | None


@dataclass(frozen=True)
class Compared:
    """A prompt that several arms answered."""

    prompt: str
    answer: str | None
    said: Sequence[Said]

    @property
    def alike(self) -> tuple[bool, bool]:
        """Whether all arms are right, or all wrong; whether all said the same."""
        judged, texts = ({one.correct for one in self.said}, {one.response for one in self.said})
        return len(judged) == 1, len(texts) == 1


def cut(text: str) -> str:
    """A text at a length that a page can hold; says how much is missing."""
    left = len(text) - _OF_A_TEXT
    return text if left <= 0 else f"{text[:_OF_A_TEXT]} … ({left:,} characters more)"


def side_by_side(groups: Sequence[Group]) -> list[Compared]:
    """Last answers to the prompts that at least two arms were given, where these differ first.

    Of each arm one run speaks, of the first seed that all arms with finished runs share: held-out
    prompts are those of the seed.
    """
    chosen = _of_one_seed(groups)
    if len(chosen) < 2:
        return []
    answers = {index: _last_answers(run) for index, run in chosen.items()}
    first = dict.fromkeys(prompt for rows in answers.values() for prompt in rows)
    found = [
        _compared(prompt, rows)
        for prompt in first
        if len(rows := {i: own[prompt] for i, own in answers.items() if prompt in own}) > 1
    ]
    return _within(sorted(found, key=lambda one: one.alike))


def _of_one_seed(groups: Sequence[Group]) -> dict[int, Run]:
    """A run an arm, by the place of its group."""
    runs = {
        index: {run.seed or "": run for run in group.finished}
        for index, group in enumerate(groups)
        if group.finished
    }
    if not runs:
        return {}
    known = list(runs.values())
    common = [seed for seed in known[0] if all(seed in one for one in known)]
    return {index: own[common[0]] for index, own in runs.items()} if common else {}


def _last_answers(run: Run) -> dict[str, Mapping[str, Any]]:
    """The newest answer to every prompt; of a rollout's several the first."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in read_samples(run.directory):
        before = found.get(row["prompt"])
        if before is None or before["total"] < row["total"]:
            found[row["prompt"]] = row
    return found


def _compared(prompt: str, rows: Mapping[int, Mapping[str, Any]]) -> Compared:
    answer = next((row["answer"] for row in rows.values() if row.get("answer") is not None), None)
    return Compared(
        cut(prompt),
        None if answer is None else cut(answer),
        [
            Said(index, cut(row["response"]), row.get("correct"), row.get("reward"))
            for index, row in rows.items()
        ],
    )


def _within(found: Sequence[Compared]) -> list[Compared]:
    """As many as a page can hold; one at least."""
    kept, characters = list[Compared](), 0
    for one in found[:MOST_PROMPTS]:
        characters += (
            len(one.prompt) + len(one.answer or "") + sum(len(s.response) for s in one.said)
        )
        if kept and characters > MOST_CHARACTERS:
            break
        kept.append(one)
    return kept
