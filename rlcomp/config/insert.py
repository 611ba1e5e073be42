"""Stages inserted into the list of a phase by name: after one, before one, or around several.

With ``from_step`` or ``until_step`` for some of its steps only: the phase then has several lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rlcomp.config.reader import BROKEN, Node, Reader
from rlcomp.config.window import ALWAYS, BOUNDS, Window, window
from rlcomp.errors import nearest

PLACES = ("after", "before", "around")


@dataclass(frozen=True)
class Insertion:
    """A stage and its place.

    Attributes:
        where: config path of the entry.
        stage: the node that is inserted.
        place: ``after`` or ``before`` the anchor, or ``around`` the first to the last one.
        anchors: names of stages: one, or the first and the last.
        window: the steps of the phase in which it stands there.
    """

    where: str
    stage: Node
    place: str
    anchors: tuple[str, ...]
    window: Window = ALWAYS


def inserted(
    reader: Reader, where: str, stages: Sequence[Any], body: object, steps: int
) -> dict[int, list[Any]]:
    """Return the lists of a phase, with the stages of ``insert`` in their places.

    Args:
        reader: of the config; collects the mistakes.
        where: config path of ``insert``.
        stages: the list as it is written.
        body: ``{mine: {after: reward, from_step: 0.5}}``, as it was read.
        steps: of the phase.

    Returns:
        By the step, counted from 1, from which on a list runs; the first is always there.
    """
    if body is None or body is BROKEN:
        return {1: list(stages)}
    if not isinstance(body, dict):
        reader.fail(f"{where} is {body!r}: must be {{name: {{after: stage}}}}")
        return {1: list(stages)}
    there = [stage.path for stage in stages if isinstance(stage, Node)]
    entries = [
        _insertion(reader, f"{where}.{name}", str(name), body[name], there, steps) for name in body
    ]
    inserter = Inserter(reader, [entry for entry in entries if entry is not None])
    lists = inserter.run(stages, where)
    return {step: inserter.at(step, lists) for step in inserter.changes(steps)}


def _insertion(
    reader: Reader, where: str, name: str, place: object, there: Sequence[str], steps: int
) -> Insertion | None:
    if place is None or place is BROKEN:
        return None
    body = dict(place) if isinstance(place, dict) else {}
    bounds = {bound: body.pop(bound, None) for bound in BOUNDS}
    if (found := _anchors(reader, where, body or place)) is None:
        return None
    kind, anchors = found
    stage = reader.named(name, where.rpartition(".")[0])
    if not isinstance(stage, Node):
        return None
    if stage.path in there:
        reader.fail(f"{where}: '{stage.path}' is among the stages already; insert another node")
        return None
    for anchor in anchors:
        if there.count(anchor) > 1:
            reader.fail(f"{where}.{kind} is {anchor!r}: it stands several times among the stages")
            return None
    if BROKEN in bounds.values() or (when := window(reader, where, bounds, steps)) is None:
        return None
    return Insertion(where, stage, kind, anchors, when)


def _anchors(reader: Reader, where: str, place: object) -> tuple[str, tuple[str, ...]] | None:
    """Return the position of an entry, and the stages beside which it stands."""
    if not isinstance(place, dict) or len(place) != 1 or next(iter(place)) not in PLACES:
        remedy = "must be one of {after: stage}, {before: stage}, {around: [first, last]}"
        reader.fail(f"{where} is {place!r}: {remedy}")
        return None
    ((kind, given),) = place.items()
    anchors = tuple(given) if isinstance(given, list) else (given,)
    size = 2 if kind == "around" else 1
    if given is BROKEN:
        return None
    if len(anchors) != size or not all(isinstance(anchor, str) for anchor in anchors):
        wanted = "[first, last], two names of stages" if size > 1 else "the name of a stage"
        reader.fail(f"{where}.{kind} is {given!r}: must be {wanted}")
        return None
    return str(kind), anchors


class Inserter:
    """Puts stages into their places; the order in which they are written is of no account."""

    def __init__(self, reader: Reader, insertions: Sequence[Insertion]) -> None:
        self.reader = reader
        self.waiting = list(insertions)
        self.inside: dict[str, str] = {}
        self.timed = {e.stage.path: e for e in insertions if e.window != ALWAYS}
        self.enclosed: dict[str, list[Any]] = {}

    def run(self, stages: Sequence[Any], where: str) -> list[Any]:
        """Return the finished list: single stages first, then those that stand around several."""
        expanded = self._expanded(stages)
        while wrapper := next((w for w in self.waiting if self._span(w, expanded)), None):
            self.waiting.remove(wrapper)
            first, last = self._span(wrapper, expanded) or (0, 0)
            self._enclose(wrapper, expanded[first : last + 1])
            expanded[first : last + 1] = self._with_neighbours(wrapper.stage)
        self._complain(expanded, where)
        return expanded

    def changes(self, steps: int) -> list[int]:
        """Return the first step of each list, in order."""
        ends = [end for entry in self.timed.values() for end in entry.window.ends()]
        return sorted({1, *(end for end in ends if end <= steps)})

    def at(self, step: int, stages: Sequence[Any]) -> list[Any]:
        """Return the list of a step; outside its steps a stage gives way to those within it."""
        current: list[Any] = []
        for stage in stages:
            entry = self.timed.get(stage.path) if isinstance(stage, Node) else None
            if entry is None or entry.window.holds(step):
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
            self._expanded([entry.stage for entry in near if entry.place == place])
            for place in ("before", "after")
        )
        return [*before, stage, *after]

    def _span(self, entry: Insertion, stages: Sequence[Any]) -> tuple[int, int] | None:
        """Index of the first and the last stage that an entry stands around, if they are there."""
        paths = [stage.path if isinstance(stage, Node) else "" for stage in stages]
        if entry.place != "around" or not {*entry.anchors} <= {*paths}:
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
            message = f"{wrapper.where}: '{node.path}' stands around others in {other}"
            self.reader.fail(f"{message}; use another node here")
        self.reader.wrapped[node.path] = wrapper.where
        self.enclosed[node.path] = list(enclosed)
        node.arguments["stages"] = [*enclosed, *self._expanded(own if own else [])]
        self.inside |= {stage.path: node.path for stage in _nodes(node.arguments["stages"])}

    def _complain(self, stages: Sequence[Any], where: str) -> None:
        """Report every entry that has no place."""
        waiting = {entry.stage.path: entry for entry in self.waiting}
        known = {stage.path for stage in _nodes(stages)} | {*waiting}
        for name in self.timed.keys() & self.inside.keys():
            message = f"{self.timed[name].where} has {' or '.join(BOUNDS)}"
            around = self.inside[name]
            self.reader.fail(f"{message}, but stands inside '{around}': give them to '{around}'")
        for entry in self.waiting:
            for anchor in entry.anchors:
                message = f"{entry.where}.{entry.place} is {anchor!r}"
                if anchor in self.inside:
                    self.reader.fail(f"{message}: it stands inside '{self.inside[anchor]}'")
                elif anchor not in known:
                    self.reader.fail(f"{message}: there is no such stage{nearest(anchor, known)}")
            if circle := _circle(entry.stage.path, waiting):
                self.reader.fail(f"{where} is circular: {' -> '.join(circle)}")
            if entry.place == "around" and {*entry.anchors} <= known - {*waiting}:
                first, last = entry.anchors
                self.reader.fail(f"{entry.where}.around: '{first}' stands behind '{last}'")


def _nodes(stages: Sequence[Any]) -> Iterator[Node]:
    return (stage for stage in stages if isinstance(stage, Node))


def _circle(name: str, waiting: dict[str, Insertion]) -> list[str]:
    """Return the names on a circle of anchors through a stage, from the first in the alphabet."""
    ways = [[name, anchor] for anchor in waiting[name].anchors]
    while ways:
        way = ways.pop()
        if way[-1] == name:
            start = way.index(min(way))
            return [*way[start:-1], *way[:start], way[start]]
        if way[-1] in waiting and way[-1] not in way[:-1]:
            ways += [[*way, anchor] for anchor in waiting[way[-1]].anchors]
    return []
