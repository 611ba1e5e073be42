"""Early check that a response can be as long as the answer that it is compared with."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlcomp.config.plan import Plan
from rlcomp.config.reader import Node
from rlcomp.errors import RlcompWarning
from rlcomp.run.check_columns import tasks_with_rewards

# Number of examples to read, and the share of long answers that gives a warning.
_EXAMPLES_READ = 50
_LONG_SHARE = 0.5
_PATTERN = r"task.answer_pattern='####\s*(.+?)\s*$'"


def warn_unreachable(plan: Plan, built: Mapping[str, object]) -> None:
    r"""Warn if most answers are compared whole and are longer than responses may be.

    Args:
        plan: plan of the run.
        built: nodes by path; without a tokenizer there is no warning.
    """
    tokenizer: Any = built.get("tokenizer")
    limit = _max_response_tokens(plan)
    if limit is None or not hasattr(tokenizer, "encode"):
        return
    texts = set[str]()
    for tasks, rewards in tasks_with_rewards(plan):
        for reward in filter(_compares_whole, rewards):
            for task in tasks:
                answers = [*_answers(built.get(task.path))]
                texts |= _warnings(task.path, reward.path, answers, tokenizer, limit)
    for text in sorted(texts):
        warnings.warn(text, RlcompWarning, stacklevel=2)


def _warnings(
    task: str,
    reward: str,
    answers: Sequence[str],
    tokenizer: Any,  # noqa: ANN401
    limit: int,
) -> set[str]:
    lengths = [len(tokenizer.encode(answer, add_special_tokens=False)) for answer in answers]
    long = [answer for answer, length in zip(answers, lengths, strict=True) if length > limit]
    if not answers or len(long) < _LONG_SHARE * len(answers):
        return set()
    with_marks = sum("####" in answer for answer in long) > len(long) / 2
    first = f'"{_PATTERN.replace("task.", f"{task}.", 1)}" or ' if with_marks else ""
    return {
        f"{task}: {len(long)} of its first {len(answers)} answers are longer than "
        f"max_new_tokens={limit}, and {reward}=exact_match compares them whole, so that no "
        f"response to these can be right (the first is {long[0][:60]!r}): set {first}"
        f"{reward}=last_number, or max_new_tokens={max(lengths) + 1}"
    }


def _compares_whole(node: Node) -> bool:
    is_exact_match = node.target.endswith("answer.ExactMatch")
    return (
        is_exact_match
        and node.arguments.get("where") == "whole"
        and not node.arguments.get("column")
    )


def _max_response_tokens(plan: Plan) -> int | None:
    """Return the longest response of a stage, in tokens."""
    stages = (stage for phase in plan.phases.values() for stage in phase.all_stages())
    nodes = (stage for stage in stages if isinstance(stage, Node))
    limits = (node.arguments.get("max_new_tokens") for node in nodes)
    return next((limit for limit in limits if isinstance(limit, int)), None)


def _answers(task: object) -> Iterator[str]:
    if hasattr(task, "__len__") and hasattr(task, "example"):
        for index in range(min(len(task), _EXAMPLES_READ)):
            answer = getattr(task.example(index), "answer", None)
            if isinstance(answer, str):
                yield answer
