"""Answers of the arms of a sweep to the same prompts, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlcomp.report.groups import Group
from rlcomp.report.runs import Run
from rlcomp.report.samples import read_samples

# Limits of a page, so that a browser can hold it and a reader can read it.
MOST_PROMPTS = 20
MOST_CHARACTERS = 300_000
_OF_A_TEXT = 4_000


@dataclass(frozen=True)
class Said:
    """Answer of one arm; a second answer to the same prompt is left out."""

    group: int
    response: str
    correct: bool | None
    reward: float | None


@dataclass(frozen=True)
class Compared:
    """Prompt with the answers of several arms."""

    prompt: str
    answer: str | None
    said: Sequence[Said]

    @property
    def alike(self) -> tuple[bool, bool]:
        """Test if all arms are equally right or wrong, and if all texts are equal."""
        judged, texts = ({one.correct for one in self.said}, {one.response for one in self.said})
        return len(judged) == 1, len(texts) == 1


def cut(text: str) -> str:
    """Cut a text to a length for a page; say how much is missing."""
    left = len(text) - _OF_A_TEXT
    return text if left <= 0 else f"{text[:_OF_A_TEXT]} … ({left:,} characters more)"


def side_by_side(groups: Sequence[Group]) -> list[Compared]:
    """Compare the last answers to prompts that at least two arms were given; differences first.

    Each arm is represented by one run, of the first seed that all arms with finished runs share,
    since the held-out prompts depend on the seed.
    """
    chosen = _of_one_seed(groups)
    if len(chosen) < 2:
        return []
    answers = {index: _last_answers(run) for index, run in chosen.items()}
    first = dict.fromkeys(prompt for rows in answers.values() for prompt in rows)
    prompts = [
        _compared(prompt, rows)
        for prompt in first
        if len(rows := {i: own[prompt] for i, own in answers.items() if prompt in own}) > 1
    ]
    return _within(sorted(prompts, key=lambda one: one.alike))


def _of_one_seed(groups: Sequence[Group]) -> dict[int, Run]:
    """Return one run for each arm, by the index of its group."""
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
    """Return the newest answer to every prompt; of several in a rollout the first."""
    newest: dict[str, Mapping[str, Any]] = {}
    for row in read_samples(run.directory):
        before = newest.get(row["prompt"])
        if before is None or before["total"] < row["total"]:
            newest[row["prompt"]] = row
    return newest


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


def _within(prompts: Sequence[Compared]) -> list[Compared]:
    """Keep as many as a page can hold, at least one."""
    shown, characters = list[Compared](), 0
    for one in prompts[:MOST_PROMPTS]:
        characters += (
            len(one.prompt) + len(one.answer or "") + sum(len(s.response) for s in one.said)
        )
        if shown and characters > MOST_CHARACTERS:
            break
        shown.append(one)
    return shown
