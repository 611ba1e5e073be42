"""Insertion of stages into the list of a phase: after a stage, before one, or around several.

``from_step`` and ``until_step`` insert a stage for some steps only: the phase has several lists.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlcomp.config.reader import BROKEN, Node, Reader
from rlcomp.errors import nearest

POSITIONS = ("after", "before", "around")
BOUNDS = ("from_step", "until_step")


@dataclass(frozen=True)
class StepRange:
    """Steps ``first`` to ``last`` of a phase, counted from 1, both included; None: to its end."""

    first: int = 1
    last: int | None = None

    def __contains__(self, step: int) -> bool:
        return self.first <= step and (self.last is None or step <= self.last)

    def ends(self) -> list[int]:
        """Return the first step of the range and the first step after it."""
        return [self.first] if self.last is None else [self.first, self.last + 1]


ALWAYS = StepRange()


def step_range(
    reader: Reader, where: str, bounds: Mapping[str, object], steps: int
) -> StepRange | None:
    """Return the range from ``from_step`` to ``until_step``; None, and a mistake, if it is wrong.

    A whole number is a step, counted from 1. A number between 0 and 1 is a share of the phase:
    ``from_step: 0.5`` begins when half of the steps are done (step 51 of 100), ``until_step: 0.5``
    ends there (step 50).

    Args:
        reader: collects the mistakes.
        where: config path of the entry.
        bounds: the two values; None where one is left out.
        steps: number of steps of the phase.
    """
    for name, value in bounds.items():
        if value is not None and not _is_bound(value):
            reader.fail(
                f"{where}.{name} is {value!r}: must be a step (1, 2, ...) or a share of the phase "
                "between 0 and 1"
            )
            return None
    begin, end = (bounds[name] for name in BOUNDS)
    # A share is a number of steps done before: + 1 is the step that follows them.
    first = 1 if begin is None else _steps(begin, steps) + isinstance(begin, float)
    last = None if end is None else _steps(end, steps)
    whole = [value for value in (begin, end) if isinstance(value, int)]
    shares_cross = isinstance(begin, float) and isinstance(end, float) and begin >= end
    empty = first > steps or (last is not None and last < first)
    if (steps and whole and empty) or shares_cross:
        shown = ", ".join(f"{name} {value}" for name, value in bounds.items() if value is not None)
        reader.fail(
            f"{where} has {shown}, but the phase has {steps} steps: it would never run; a share of "
            "the phase (from_step: 0.5) grows with it"
        )
        return None
    return StepRange(first, last)


def _is_bound(value: object) -> bool:
    if isinstance(value, float):
        return 0 < value < 1
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _steps(bound: object, steps: int) -> int:
    """Return a bound in steps: a share is rounded down, and at most all steps but one.

    The inner rounding makes .29 of 100 steps 29: .29 * 100 is 28.999999999999996.
    """
    if isinstance(bound, float):
        return max(min(math.floor(round(bound * steps, 6)), steps - 1), 0)
    return bound if isinstance(bound, int) else 0


@dataclass(frozen=True)
class Insertion:
    """A stage and its position.

    Attributes:
        where: config path of the entry.
        stage: the node that is inserted.
        position: ``after`` or ``before`` the anchor, or ``around`` the first to the last one.
        anchors: names of stages: one, or the first and the last.
        steps: the steps of the phase in which the stage runs.
    """

    where: str
    stage: Node
    position: str
    anchors: tuple[str, ...]
    steps: StepRange = ALWAYS


def insert_stages(
    reader: Reader, where: str, stages: Sequence[Any], body: object, steps: int
) -> dict[int, list[Any]]:
    """Return the lists of a phase, with the stages of ``insert`` at their positions.

    Args:
        reader: reader of the config; collects the mistakes.
        where: config path of ``insert``.
        stages: the list without them.
        body: value of ``insert``: ``{mine: {after: reward, from_step: 0.5}}``.
        steps: number of steps of the phase.

    Returns:
        The lists by their first step, counted from 1; there always is a list for step 1.
    """
    if body is None or body is BROKEN:
        return {1: list(stages)}
    if not isinstance(body, dict):
        reader.fail(f"{where} is {body!r}: must be {{name: {{after: stage}}}}")
        return {1: list(stages)}
    listed = [stage.path for stage in _nodes(stages)]
    entries = [
        _insertion(reader, f"{where}.{name}", str(name), entry, listed, steps)
        for name, entry in body.items()
    ]
    inserter = Inserter(reader, [entry for entry in entries if entry is not None])
    whole = inserter.run(stages, where)
    return {step: inserter.at(step, whole) for step in inserter.changes(steps)}


def _insertion(
    reader: Reader, where: str, name: str, entry: object, listed: Sequence[str], steps: int
) -> Insertion | None:
    if entry is None or entry is BROKEN:
        return None
    body = dict(entry) if isinstance(entry, dict) else {}
    bounds = {bound: body.pop(bound, None) for bound in BOUNDS}
    if (position := _position(reader, where, body or entry)) is None:
        return None
    kind, anchors = position
    stage = reader.named(name, where.rpartition(".")[0])
    if not isinstance(stage, Node):
        return None
    if stage.path in listed:
        reader.fail(f"{where}: '{stage.path}' is among the stages already; insert another node")
        return None
    for anchor in anchors:
        if listed.count(anchor) > 1:
            reader.fail(f"{where}.{kind} is {anchor!r}: the stage is listed several times")
            return None
    if BROKEN in bounds.values() or (active := step_range(reader, where, bounds, steps)) is None:
        return None
    return Insertion(where, stage, kind, anchors, active)


def _position(reader: Reader, where: str, entry: object) -> tuple[str, tuple[str, ...]] | None:
    """Return the position of an entry, and the stages it refers to."""
    if not isinstance(entry, dict) or len(entry) != 1 or next(iter(entry)) not in POSITIONS:
        remedy = "must be one of {after: stage}, {before: stage}, {around: [first, last]}"
        reader.fail(f"{where} is {entry!r}: {remedy}")
        return None
    ((kind, value),) = entry.items()
    if value is BROKEN:
        return None
    anchors = tuple(value) if isinstance(value, list) else (value,)
    size = 2 if kind == "around" else 1
    if len(anchors) != size or not all(isinstance(anchor, str) for anchor in anchors):
        expected = "[first, last], two names of stages" if size > 1 else "the name of a stage"
        reader.fail(f"{where}.{kind} is {value!r}: must be {expected}")
        return None
    return str(kind), anchors


class Inserter:
    """Inserts stages at their positions, in any order of the entries."""

    def __init__(self, reader: Reader, insertions: Sequence[Insertion]) -> None:
        self.reader = reader
        self.waiting = list(insertions)  # entries that have no place yet
        self.inside: dict[str, str] = {}  # path of the stage around it, by an enclosed stage's path
        self.timed = {e.stage.path: e for e in insertions if e.steps != ALWAYS}
        self.enclosed: dict[str, list[Any]] = {}  # stages that an inserted stage is around

    def run(self, stages: Sequence[Any], where: str) -> list[Any]:
        """Return the whole list: stages around several are inserted last."""
        expanded = self._expanded(stages)
        while wrapper := next((w for w in self.waiting if self._span(w, expanded)), None):
            self.waiting.remove(wrapper)
            first, last = self._span(wrapper, expanded) or (0, 0)
            self._enclose(wrapper, expanded[first : last + 1])
            expanded[first : last + 1] = self._with_neighbours(wrapper.stage)
        self._report_unplaced(expanded, where)
        return expanded

    def changes(self, steps: int) -> list[int]:
        """Return the first step of each list, in order."""
        ends = [end for entry in self.timed.values() for end in entry.steps.ends()]
        return sorted({1, *(end for end in ends if end <= steps)})

    def at(self, step: int, stages: Sequence[Any]) -> list[Any]:
        """Return the list of a step; an inactive stage is replaced by the stages within it."""
        current: list[Any] = []
        for stage in stages:
            entry = self.timed.get(stage.path) if isinstance(stage, Node) else None
            if entry is None or step in entry.steps:
                current.append(stage)
            else:
                current += self.enclosed.get(entry.stage.path, [])
        return current

    def _expanded(self, stages: Sequence[Any]) -> list[Any]:
        return [item for stage in stages for item in self._with_neighbours(stage)]

    def _with_neighbours(self, stage: object) -> list[Any]:
        """Return a stage between those inserted before and after it, each with its neighbours."""
        path = stage.path if isinstance(stage, Node) else None
        near = [entry for entry in self.waiting if entry.anchors == (path,)]
        self.waiting = [entry for entry in self.waiting if entry not in near]
        before, after = (
            self._expanded([entry.stage for entry in near if entry.position == position])
            for position in ("before", "after")
        )
        return [*before, stage, *after]

    def _span(self, entry: Insertion, stages: Sequence[Any]) -> tuple[int, int] | None:
        """Return the indices of the anchors of ``around``; None without both in this order."""
        paths = [stage.path if isinstance(stage, Node) else "" for stage in stages]
        if entry.position != "around" or not {*entry.anchors} <= {*paths}:
            return None
        first, last = map(paths.index, entry.anchors)
        return (first, last) if first <= last else None

    def _enclose(self, wrapper: Insertion, enclosed: Sequence[Any]) -> None:
        node = wrapper.stage
        own = node.arguments.get("stages")
        if own is BROKEN:
            return
        if node.path in self.reader.wrapped:
            other = self.reader.wrapped[node.path]
            fault = f"'{node.path}' is around other stages in {other}"
            self.reader.fail(f"{wrapper.where}: {fault}; use another node here")
        self.reader.wrapped[node.path] = wrapper.where
        self.enclosed[node.path] = list(enclosed)
        # The enclosed stages come before the wrapper's own.
        node.arguments["stages"] = [*enclosed, *self._expanded(own if own else [])]
        self.inside |= {stage.path: node.path for stage in _nodes(node.arguments["stages"])}

    def _report_unplaced(self, stages: Sequence[Any], where: str) -> None:
        """Report every entry without its position, and every timed entry inside another."""
        waiting = {entry.stage.path: entry for entry in self.waiting}
        known = {stage.path for stage in _nodes(stages)} | {*waiting}
        for name in self.timed.keys() & self.inside.keys():
            around = self.inside[name]
            self.reader.fail(
                f"{self.timed[name].where} has {' or '.join(BOUNDS)}, but is inside "
                f"'{around}': give them to '{around}'"
            )
        for entry in self.waiting:
            for anchor in entry.anchors:
                message = f"{entry.where}.{entry.position} is {anchor!r}"
                if anchor in self.inside:
                    self.reader.fail(f"{message}: it is inside '{self.inside[anchor]}'")
                elif anchor not in known:
                    self.reader.fail(f"{message}: there is no such stage{nearest(anchor, known)}")
            if circle := _circle(entry.stage.path, waiting):
                self.reader.fail(f"{where} is circular: {' -> '.join(circle)}")
            if entry.position == "around" and {*entry.anchors} <= known - {*waiting}:
                first, last = entry.anchors
                self.reader.fail(f"{entry.where}.around: '{first}' comes after '{last}'")


def _nodes(stages: Sequence[Any]) -> Iterator[Node]:
    return (stage for stage in stages if isinstance(stage, Node))


def _circle(name: str, waiting: dict[str, Insertion]) -> list[str]:
    """Return a circle of anchors through a stage, from its first name by alphabet; [] for none."""
    chains = [[name, anchor] for anchor in waiting[name].anchors]
    while chains:
        chain = chains.pop()
        if chain[-1] == name:
            start = chain.index(min(chain))
            return [*chain[start:-1], *chain[:start], chain[start]]
        if chain[-1] in waiting and chain[-1] not in chain[:-1]:
            chains += [[*chain, anchor] for anchor in waiting[chain[-1]].anchors]
    return []
