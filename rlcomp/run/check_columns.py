"""Before anything expensive: do a phase's tasks have the columns that its rewards need?"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from torch import nn

from rlcomp.errors import ConfigErrors, nearest
from rlcomp.interfaces.reward import NeedsColumns, TextReward, TriedFirst
from rlcomp.wiring.build import builds_model
from rlcomp.wiring.plan import Plan, below
from rlcomp.wiring.reader import Node

# What verl and OpenRLHF call what a reward is given.
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

# Examples of a task that are looked at.
_LOOKED_AT = 100


def check_columns(plan: Plan, built: Mapping[str, object]) -> None:
    """Ask of every reward in a plan whether the task it judges has the columns that it needs.

    An evaluator has a task and a reward of its own; the rewards among the stages of a phase judge
    the tasks that these stages ask.

    Args:
        plan: of the run.
        built: nodes by path; what is not built yet is left out.

    Raises:
        ConfigErrors: one has not; names the reward, the column and those there are.
    """
    errors: list[str] = []
    for tasks, rewards in pairs(plan):
        known = _columns(built[task.path] for task in tasks if task.path in built)
        for reward in rewards:
            errors += _lacking(reward.path, built.get(reward.path), known)
    if errors:
        raise ConfigErrors(errors)


def judged(plan: Plan) -> list[Node]:
    """The rewards of stages and evaluators and their tasks, where neither holds a model."""
    found = {
        node.path: node
        for tasks, rewards in pairs(plan)
        for node in (*tasks, *(one for one in rewards if one.path.split(".")[-1] == "reward"))
    }
    return [node for node in found.values() if not builds_model(node)]


def pairs(plan: Plan) -> Iterator[tuple[list[Node], list[Node]]]:
    """Tasks, and the rewards that judge answers to them."""
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
    """The columns of the first examples; None where there is no task to look into.

    What a sampler of the user's calls its task may be anything: then nobody knows.
    """
    found: set[str] = set()
    looked = False
    for task in tasks:
        if not (hasattr(task, "__len__") and hasattr(task, "example")):
            return None
        for index in range(min(len(task), _LOOKED_AT)):
            looked = True
            columns = task.example(index).columns
            found |= {name for name, value in columns.items() if value is not None}
    return found if looked else None


def _lacking(path: str, reward: object, known: set[str] | None) -> Iterator[str]:
    if known is None or not isinstance(reward, nn.Module):
        return
    for part in reward.modules():
        names = sorted(part.needed_columns - known) if isinstance(part, NeedsColumns) else []
        if names and isinstance(part, TriedFirst):
            told = _parameters(f"{path}: {part.called}", names, known)
            yield f"{told}{_new_line(getattr(part, 'function', None), names)}"
            continue
        for name in names:
            yield (
                f"{path}: {type(part).__name__} needs {name!r}, a column that "
                "none of the first examples of the task has"
                f"{nearest(name, known | {*TextReward.reads})}; {part.column_remedy}"
            )


def _parameters(function: str, names: Sequence[str], known: set[str]) -> str:
    """What to do with all parameters of a function that the task has no column for."""
    given = known | {*TextReward.reads}
    renamed = [f"{name} is {_HERE[name]} here" for name in names if name in _HERE]
    others = [name for name in names if name not in _HERE]
    if renamed:
        renamed[0] = f"rename the arguments: {renamed[0]}"
    told = [*renamed, *([f"give {', '.join(others)} a default, or drop it"] if others else [])]
    likely = nearest(others[0], given) if others else f" (known: {', '.join(sorted(given))})"
    return (
        f"{function} needs {', '.join(map(repr, names))}, of which none of the first examples of "
        f"the task has a column{likely}; {'; '.join(told)}"
    )


def _new_line(function: object, names: Sequence[str]) -> str:
    """The first line of a plain function with the arguments that it can have here."""
    module, _, name = str(function).rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    if not inspect.isfunction(found) or not any(name in _HERE for name in names):
        return ""
    parameters = [*inspect.signature(found).parameters.values()]
    if any(one.kind is not one.POSITIONAL_OR_KEYWORD for one in parameters):
        return ""
    given = [one for one in parameters if one.name in _HERE or one.name not in names]
    needed = [
        _HERE[one.name] if one.name in names else one.name
        for one in given
        if one.default is one.empty
    ]
    dropped = [f"{one.name}=None" for one in parameters if one not in given]
    kept = [f"{one.name}={one.default!r}" for one in given if one.default is not one.empty]
    return f": def {name}({', '.join([*needed, *dropped, *kept])}):"
