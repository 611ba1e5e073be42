"""Early checks of tasks: columns that rewards need, and answers longer than responses."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from torch import nn

from rlcomp.config.build import builds_model
from rlcomp.config.plan import Plan, below
from rlcomp.config.reader import Node
from rlcomp.errors import ConfigErrors, RlcompWarning, nearest
from rlcomp.interfaces.reward import NeedsColumns, SupportsTrial, TextReward
from rlcomp.interfaces.task import Example

# Our names for arguments of rewards in verl and OpenRLHF.
_OUR_ARGUMENT_NAMES = {
    "solution_str": "response",
    "solution": "response",
    "completion": "response",
    "queries": "prompt",
    "question": "prompt",
    "ground_truth": "answer",
    "label": "answer",
    "labels": "answer",
}

# Number of examples that are read for columns, and for answers.
_COLUMN_EXAMPLES, _ANSWER_EXAMPLES = 100, 50
# Share of long answers that gives a warning.
_LONG_SHARE = 0.5
# The answer behind the #### of GSM8K.
_PATTERN = r"task.answer_pattern='####\s*(.+?)\s*$'"


def check_columns(plan: Plan, built: Mapping[str, object]) -> None:
    """Check for every reward in a plan that the task it judges has the columns it needs.

    An evaluator has a task and a reward of its own. The rewards among the stages of a phase judge
    the tasks of these stages.

    Args:
        plan: plan of the run.
        built: nodes by path; nodes that are not built yet are skipped.

    Raises:
        ConfigErrors: a column is missing; the message names the reward, the column and the
            task's columns.
    """
    errors: list[str] = []
    for tasks, rewards in tasks_with_rewards(plan):
        task_columns = _columns(built[task.path] for task in tasks if task.path in built)
        for reward in rewards:
            errors += _missing_columns(reward.path, built.get(reward.path), task_columns)
    if errors:
        raise ConfigErrors(errors)


def reward_and_task_nodes(plan: Plan) -> list[Node]:
    """Return the nodes called ``reward`` of stages and evaluators, and their tasks.

    Nodes that build a model are left out.
    """
    nodes = {
        node.path: node
        for tasks, rewards in tasks_with_rewards(plan)
        for node in (
            *tasks,
            *(reward for reward in rewards if reward.path.split(".")[-1] == "reward"),
        )
    }
    return [node for node in nodes.values() if not builds_model(node)]


def tasks_with_rewards(plan: Plan) -> Iterator[tuple[list[Node], list[Node]]]:
    """Yield tasks with the nodes that may judge answers to them.

    These are the reward and the judge of reasoning of an evaluator, and all stages of a phase.
    """
    for phase in plan.phases.values():
        periodic_nodes = [node for _, node in phase.every.values() if isinstance(node, Node)]
        evaluators = [node for node in periodic_nodes if {"task", "reward"} <= {*node.arguments}]
        for node in evaluators:
            judges = (_as_nodes(node.arguments.get(name)) for name in ("reward", "reasoning"))
            yield _as_nodes(node.arguments["task"]), [*chain.from_iterable(judges)]
        stages = [node for node in phase.listed_stages() if isinstance(node, Node)]
        tasks = [
            task
            for stage in stages
            for node in (stage, *below(stage))
            for task in _as_nodes(node.arguments.get("task"))
        ]
        if tasks:
            yield tasks, stages


def _as_nodes(value: object) -> list[Node]:
    return [value] if isinstance(value, Node) else []


def first_examples(task: object, count: int) -> list[Example] | None:
    """Return the first examples of a task; None if it is no task."""
    if not (hasattr(task, "__len__") and hasattr(task, "example")):
        return None
    return [task.example(index) for index in range(min(len(task), count))]


def _columns(tasks: Iterable[object]) -> set[str] | None:
    """Return the columns of the first examples; None if they are unknown.

    That is without any example, and for a ``task`` of a user's sampler that is no task.
    """
    columns: list[Mapping[str, object]] = []
    for task in tasks:
        examples = first_examples(task, _COLUMN_EXAMPLES)
        if examples is None:
            return None
        columns += [example.columns for example in examples]
    names = {name for row in columns for name, value in row.items() if value is not None}
    return names if columns else None


def _missing_columns(path: str, reward: object, task_columns: set[str] | None) -> Iterator[str]:
    if task_columns is None or not isinstance(reward, nn.Module):
        return
    for part in reward.modules():
        names = sorted(part.needed_columns - task_columns) if isinstance(part, NeedsColumns) else []
        if names and isinstance(part, SupportsTrial):
            remedy = _parameters_message(f"{path}: {part.function_name}", names, task_columns)
            yield f"{remedy}{_corrected_signature(getattr(part, 'function', None), names)}"
            continue
        for name in names:
            yield (
                f"{path}: {type(part).__name__} needs {name!r}, a column that "
                "none of the first examples of the task has"
                f"{nearest(name, task_columns | {*TextReward.reads})}; {part.column_remedy}"
            )


def _parameters_message(function: str, names: Sequence[str], task_columns: set[str]) -> str:
    """Return a message on the parameters of a function for which the task has no column."""
    available = task_columns | {*TextReward.reads}
    remedies = [
        f"{name} is {_OUR_ARGUMENT_NAMES[name]} here"
        for name in names
        if name in _OUR_ARGUMENT_NAMES
    ]
    others = [name for name in names if name not in _OUR_ARGUMENT_NAMES]
    if remedies:
        remedies[0] = f"rename the arguments: {remedies[0]}"
    parts = [*remedies, *([f"give {', '.join(others)} a default, or drop it"] if others else [])]
    likely = (
        nearest(others[0], available) if others else f" (known: {', '.join(sorted(available))})"
    )
    return (
        f"{function} needs {', '.join(map(repr, names))}, of which none of the first examples of "
        f"the task has a column{likely}; {'; '.join(parts)}"
    )


def _corrected_signature(function: object, names: Sequence[str]) -> str:
    """Return the ``def`` line of a function with renamed arguments; '' if nothing is renamed."""
    module, _, name = str(function).rpartition(".")
    source = getattr(sys.modules.get(module), name, None)
    if not inspect.isfunction(source) or not any(name in _OUR_ARGUMENT_NAMES for name in names):
        return ""
    parameters = [*inspect.signature(source).parameters.values()]
    if any(parameter.kind is not parameter.POSITIONAL_OR_KEYWORD for parameter in parameters):
        return ""
    kept_parameters = [
        parameter
        for parameter in parameters
        if parameter.name in _OUR_ARGUMENT_NAMES or parameter.name not in names
    ]
    needed = [
        _OUR_ARGUMENT_NAMES[parameter.name] if parameter.name in names else parameter.name
        for parameter in kept_parameters
        if parameter.default is parameter.empty
    ]
    dropped = [
        f"{parameter.name}=None" for parameter in parameters if parameter not in kept_parameters
    ]
    optional = [
        f"{parameter.name}={parameter.default!r}"
        for parameter in kept_parameters
        if parameter.default is not parameter.empty
    ]
    return f": def {name}({', '.join([*needed, *dropped, *optional])}):"


def warn_unreachable(plan: Plan, built: Mapping[str, object]) -> None:
    """Warn if most answers are compared whole and are longer than responses may be.

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
                examples = first_examples(built.get(task.path), _ANSWER_EXAMPLES) or []
                values = (getattr(example, "answer", None) for example in examples)
                answers = [answer for answer in values if isinstance(answer, str)]
                texts |= _length_warnings(task.path, reward.path, answers, tokenizer, limit)
    for text in sorted(texts):
        warnings.warn(text, RlcompWarning, stacklevel=2)


def _length_warnings(
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
    pattern = f'"{_PATTERN.replace("task.", f"{task}.", 1)}" or ' if with_marks else ""
    return {
        f"{task}: {len(long)} of its first {len(answers)} answers are longer than "
        f"max_new_tokens={limit}, and {reward}=exact_match compares them whole, so that no "
        f"response to these can be right (the first is {long[0][:60]!r}): set {pattern}"
        f"{reward}=last_number, or max_new_tokens={max(lengths) + 1}"
    }


def _compares_whole(node: Node) -> bool:
    whole = node.arguments.get("where") == "whole" and not node.arguments.get("column")
    return whole and node.target.endswith("answer.ExactMatch")


def _max_response_tokens(plan: Plan) -> int | None:
    """Return the largest ``max_new_tokens`` of a stage; None if no stage has one."""
    stages = (stage for phase in plan.phases.values() for stage in phase.listed_stages())
    nodes = (stage for stage in stages if isinstance(stage, Node))
    limits = (node.arguments.get("max_new_tokens") for node in nodes)
    return max((limit for limit in limits if isinstance(limit, int)), default=None)
