"""Answers of the arms of a sweep to the same prompts, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlcomp.report.groups import Group
from rlcomp.report.run_files import read_samples
from rlcomp.report.runs import Run

# Limits of a page, so that a browser can hold it and a reader can read it.
MOST_PROMPTS = 20
MOST_CHARACTERS = 300_000
_MAX_TEXT = 4_000


@dataclass(frozen=True)
class ArmAnswer:
    """Answer of one arm; ``group`` is the index of its group."""

    group: int
    response: str
    correct: bool | None
    reward: float | None


@dataclass(frozen=True)
class PromptComparison:
    """Prompt with the answers of several arms."""

    prompt: str
    answer: str | None
    arm_answers: Sequence[ArmAnswer]

    @property
    def agreement(self) -> tuple[bool, bool]:
        """Return whether all arms are equally right or wrong, and whether all texts are equal."""
        verdicts = {answer.correct for answer in self.arm_answers}
        texts = {answer.response for answer in self.arm_answers}
        return len(verdicts) == 1, len(texts) == 1


def cut(text: str) -> str:
    """Cut a text to 4,000 characters, with a note on the number of omitted ones."""
    omitted = len(text) - _MAX_TEXT
    return text if omitted <= 0 else f"{text[:_MAX_TEXT]} … ({omitted:,} characters more)"


def side_by_side(groups: Sequence[Group]) -> list[PromptComparison]:
    """Compare the last answers of at least two arms to the same prompts; differences first.

    Held-out prompts depend on the seed. So each arm is represented by one run, of the first seed
    that all arms with finished runs share.
    """
    runs_by_group = _runs_of_common_seed(groups)
    if len(runs_by_group) < 2:
        return []
    answers = {index: _last_answers(run) for index, run in runs_by_group.items()}
    prompts_in_order = dict.fromkeys(prompt for rows in answers.values() for prompt in rows)
    rows_by_prompt = {
        prompt: {index: rows[prompt] for index, rows in answers.items() if prompt in rows}
        for prompt in prompts_in_order
    }
    comparisons = [
        _compare(prompt, rows) for prompt, rows in rows_by_prompt.items() if len(rows) > 1
    ]
    return _limit_to_page(sorted(comparisons, key=lambda comparison: comparison.agreement))


def _runs_of_common_seed(groups: Sequence[Group]) -> dict[int, Run]:
    """Return one run for each arm, by the index of its group."""
    runs = {
        index: {run.seed or "": run for run in group.finished}
        for index, group in enumerate(groups)
        if group.finished
    }
    if not runs:
        return {}
    runs_by_seed = list(runs.values())
    common = [seed for seed in runs_by_seed[0] if all(seed in by_seed for by_seed in runs_by_seed)]
    return {index: by_seed[common[0]] for index, by_seed in runs.items()} if common else {}


def _last_answers(run: Run) -> dict[str, Mapping[str, Any]]:
    """Return the answer of the newest step to every prompt; the first one if a step has several."""
    newest: dict[str, Mapping[str, Any]] = {}
    for row in read_samples(run.directory):
        earlier = newest.get(row["prompt"])
        if earlier is None or earlier["total"] < row["total"]:
            newest[row["prompt"]] = row
    return newest


def _compare(prompt: str, rows: Mapping[int, Mapping[str, Any]]) -> PromptComparison:
    answer = next((row["answer"] for row in rows.values() if row.get("answer") is not None), None)
    return PromptComparison(
        cut(prompt),
        None if answer is None else cut(answer),
        [
            ArmAnswer(index, cut(row["response"]), row.get("correct"), row.get("reward"))
            for index, row in rows.items()
        ],
    )


def _limit_to_page(comparisons: Sequence[PromptComparison]) -> list[PromptComparison]:
    """Keep the first comparisons that a page can hold; the very first one always."""
    shown, characters = list[PromptComparison](), 0
    for comparison in comparisons[:MOST_PROMPTS]:
        texts = [comparison.prompt, comparison.answer or ""]
        texts += [answer.response for answer in comparison.arm_answers]
        characters += sum(map(len, texts))
        if shown and characters > MOST_CHARACTERS:
            break
        shown.append(comparison)
    return shown
