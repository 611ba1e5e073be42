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
from rlcomp.interfaces.reward import NeedsColumns, TextReward, TriedFirst

# Our names for arguments of rewards in verl and OpenRLHF.
_HERE = {
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
_LOOKED_AT = 100


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
    for tasks, rewards in pairs(plan):
        known = _columns(built[task.path] for task in tasks if task.path in built)
        for reward in rewards:
            errors += _lacking(reward.path, built.get(reward.path), known)
    if errors:
        raise ConfigErrors(errors)


def judged(plan: Plan) -> list[Node]:
    """Return the rewards of stages and evaluators and their tasks, where neither holds a model."""
    nodes = {
        node.path: node
        for tasks, rewards in pairs(plan)
        for node in (*tasks, *(one for one in rewards if one.path.split(".")[-1] == "reward"))
    }
    return [node for node in nodes.values() if not builds_model(node)]


def pairs(plan: Plan) -> Iterator[tuple[list[Node], list[Node]]]:
    """Yield tasks with the rewards that judge answers to them."""
    for phase in plan.phases.values():
        beside = [node for _, node in phase.every.values() if isinstance(node, Node)]
        evaluators = [node for node in beside if {"task", "reward"} <= {*node.arguments}]
        for node in evaluators:
            judges = (_nodes(node.arguments.get(judge)) for judge in ("reward", "reasoning"))
            yield _nodes(node.arguments["task"]), [*chain.from_iterable(judges)]
        stages = [node for node in phase.all_stages() if isinstance(node, Node)]
        tasks = [
            task
            for stage in stages
            for node in (stage, *below(stage))
            for task in _nodes(node.arguments.get("task"))
        ]
        if tasks:
            yield tasks, stages


def _nodes(value: object) -> list[Node]:
    return [value] if isinstance(value, Node) else []


def _columns(tasks: Iterable[object]) -> set[str] | None:
    """Return the columns of the first examples; None without a readable task.

    A user's sampler may call anything its task; the columns are then unknown.
    """
    names: set[str] = set()
    looked = False
    for task in tasks:
        if not (hasattr(task, "__len__") and hasattr(task, "example")):
            return None
        for index in range(min(len(task), _LOOKED_AT)):
            looked = True
            columns = task.example(index).columns
            names |= {name for name, value in columns.items() if value is not None}
    return names if looked else None


def _lacking(path: str, reward: object, known: set[str] | None) -> Iterator[str]:
    if known is None or not isinstance(reward, nn.Module):
        return
    for part in reward.modules():
        names = sorted(part.needed_columns - known) if isinstance(part, NeedsColumns) else []
        if names and isinstance(part, TriedFirst):
            remedy = _parameters(f"{path}: {part.called}", names, known)
            yield f"{remedy}{_new_line(getattr(part, 'function', None), names)}"
            continue
        for name in names:
            yield (
                f"{path}: {type(part).__name__} needs {name!r}, a column that "
                "none of the first examples of the task has"
                f"{nearest(name, known | {*TextReward.reads})}; {part.column_remedy}"
            )


def _parameters(function: str, names: Sequence[str], known: set[str]) -> str:
    """Say what to do with the parameters of a function for which the task has no column."""
    available = known | {*TextReward.reads}
    remedies = [f"{name} is {_HERE[name]} here" for name in names if name in _HERE]
    others = [name for name in names if name not in _HERE]
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


def _new_line(function: object, names: Sequence[str]) -> str:
    """Write the first line of a plain function with arguments that exist here."""
    module, _, name = str(function).rpartition(".")
    source = getattr(sys.modules.get(module), name, None)
    if not inspect.isfunction(source) or not any(name in _HERE for name in names):
        return ""
    parameters = [*inspect.signature(source).parameters.values()]
    if any(one.kind is not one.POSITIONAL_OR_KEYWORD for one in parameters):
        return ""
    supported = [one for one in parameters if one.name in _HERE or one.name not in names]
    needed = [
        _HERE[one.name] if one.name in names else one.name
        for one in supported
        if one.default is one.empty
    ]
    dropped = [f"{one.name}=None" for one in parameters if one not in supported]
    optional = [f"{one.name}={one.default!r}" for one in supported if one.default is not one.empty]
    return f": def {name}({', '.join([*needed, *dropped, *optional])}):"
