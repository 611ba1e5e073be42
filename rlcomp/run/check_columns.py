"""Early check that a phase's tasks have the columns that its rewards need."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from torch import nn

from rlcomp.config.build import builds_model
from rlcomp.config.plan import Plan, below
from rlcomp.config.reader import Node
from rlcomp.errors import ConfigErrors, nearest
from rlcomp.interfaces.reward import NeedsColumns, SupportsTrial, TextReward

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

# Number of examples of a task to read.
_EXAMPLES_READ = 100


def check_columns(plan: Plan, built: Mapping[str, object]) -> None:
    """Check for every reward in a plan that the task it judges has the columns it needs.

    An evaluator has a task and a reward of its own. The rewards among the stages of a phase judge
    the tasks of these stages.

    Args:
        plan: plan of the run.
        built: nodes by path; nodes that are not built yet are skipped.

    Raises:
        ConfigErrors: a column is missing; the message names the reward, the column and those there
            are.
    """
    errors: list[str] = []
    for tasks, rewards in tasks_with_rewards(plan):
        task_columns = _columns(built[task.path] for task in tasks if task.path in built)
        for reward in rewards:
            errors += _missing_columns(reward.path, built.get(reward.path), task_columns)
    if errors:
        raise ConfigErrors(errors)


def reward_and_task_nodes(plan: Plan) -> list[Node]:
    """Return the rewards of stages and evaluators and their tasks, where neither holds a model."""
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
    """Yield tasks with the rewards that judge answers to them."""
    for phase in plan.phases.values():
        periodic_nodes = [node for _, node in phase.every.values() if isinstance(node, Node)]
        evaluators = [node for node in periodic_nodes if {"task", "reward"} <= {*node.arguments}]
        for node in evaluators:
            judges = (_as_nodes(node.arguments.get(judge)) for judge in ("reward", "reasoning"))
            yield _as_nodes(node.arguments["task"]), [*chain.from_iterable(judges)]
        stages = [node for node in phase.all_stages() if isinstance(node, Node)]
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


def _columns(tasks: Iterable[object]) -> set[str] | None:
    """Return the columns of the first examples; None without a readable task.

    A user's sampler may call anything its task; the columns are then unknown.
    """
    names: set[str] = set()
    has_examples = False
    for task in tasks:
        if not (hasattr(task, "__len__") and hasattr(task, "example")):
            return None
        for index in range(min(len(task), _EXAMPLES_READ)):
            has_examples = True
            columns = task.example(index).columns
            names |= {name for name, value in columns.items() if value is not None}
    return names if has_examples else None


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
    """Say what to do with the parameters of a function for which the task has no column."""
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
    """Write the first line of a plain function with arguments that exist here."""
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
