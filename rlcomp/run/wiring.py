"""Reading a config: an interpolation that dereferences to a node of the tree *is* that node.

No torch and no imports of targets here: :func:`read` turns an OmegaConf tree into plain Python
values in which each ``{_target_: ...}`` became one :class:`Node`, shared wherever the config refers
to it. ``rlcomp.run.build`` makes the objects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import Container, DictConfig, ListConfig, OmegaConf
from omegaconf import Node as ConfigNode
from omegaconf.errors import InterpolationToMissingValueError, OmegaConfBaseException

from rlcomp.check import NonNegativeInt, problem
from rlcomp.errors import ConfigError, ConfigErrors, nearest

Path = tuple[Any, ...]


@dataclass(eq=False)
class Node:
    """One object to be built: where it stands, what it is, and its finished arguments."""

    path: str
    target: str
    arguments: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    partial: bool = False


class Broken:
    """Stands where a value could not be read; the mistake is among the reader's errors."""


BROKEN = Broken()


def dotted(path: Path) -> str:
    """A config path as the command line writes it."""
    return ".".join(str(key) for key in path)


def address(node: ConfigNode) -> Path:
    """Where a config node stands in its tree."""
    keys: list[Any] = []
    parent = node._get_parent()
    while parent is not None:
        keys.append(node._key())
        node, parent = parent, parent._get_parent()
    return tuple(reversed(keys))


class Reader:
    """Reads each place of a config once; collects the mistakes instead of stopping at the first."""

    def __init__(self, config: DictConfig) -> None:
        self.config = config
        self.errors: list[str] = []
        self._read: dict[Path, Any] = {}
        self._open: list[Path] = []

    def fail(self, message: str) -> Broken:
        """Note a mistake."""
        self.errors.append(message)
        return BROKEN

    def _at(self, path: Path) -> Any:  # noqa: ANN401
        node: Any = self.config
        for key in path:
            if not isinstance(node, Container) or node._is_none() or node._is_missing():
                return None
            if isinstance(node, ListConfig) and not (isinstance(key, int) and key < len(node)):
                return None
            node = node._get_node(key)
            if node is None:
                return None
        return node

    def named(self, name: str, where: str) -> Any:  # noqa: ANN401
        """The node a stage list names."""
        path = tuple(name.split("."))
        if self._at(path) is None:
            known = [key for key in self.config if key != "phases"]
            return self.fail(f"{where}: no node '{name}'{nearest(name, map(str, known))}")
        return self._part(self.value(path), name, where)

    def _part(self, found: object, name: str, where: str) -> object:
        if isinstance(found, Node) or found is BROKEN:
            return found
        return self.fail(
            f"{where}: {name!r} is {found!r}, no part with a _target_: name a node, or delete it"
        )

    def value(self, path: Path) -> Any:  # noqa: ANN401
        """What stands at a path, read once."""
        if path in self._read:
            return self._read[path]
        if path in self._open:
            circle = [*self._open[self._open.index(path) :], path]
            return self.fail(f"circular: {' -> '.join(map(dotted, circle))}")
        self._open.append(path)
        try:
            found = self._value(path)
        finally:
            self._open.pop()
        self._read[path] = found
        return found

    def _value(self, path: Path) -> Any:  # noqa: ANN401
        node = self._at(path)
        if node is None:
            return self.fail(f"{dotted(path)}: not in the config")
        if node._is_missing():
            return self.fail(f"{dotted(path)} is missing (???): set it with {dotted(path)}=...")
        if node._is_interpolation():
            return self._reference(node, path)
        if node._is_none():
            return None
        if isinstance(node, ListConfig):
            return [self._item(path, index) for index in range(len(node))]
        if isinstance(node, DictConfig):
            return self._mapping(node, path)
        return node._value()

    def _item(self, path: Path, index: int) -> Any:  # noqa: ANN401
        item = self.value((*path, index))
        if path[-1] != "stages":
            return item
        where = f"{dotted(path)}[{index}]"
        return self.named(item, where) if isinstance(item, str) else self._part(item, "it", where)

    def _reference(self, node: ConfigNode, path: Path) -> Any:  # noqa: ANN401
        try:
            found = node._dereference_node()
        except InterpolationToMissingValueError:
            return BROKEN  # told where the ??? stands
        except OmegaConfBaseException as error:
            return self.fail(self._explain(node, path, error))
        if not isinstance(found, ConfigNode):
            return found
        where = address(found)
        if where and where != path and self._at(where) is found:
            return self.value(where)
        if isinstance(found, Container):
            return self.fail(
                f"{dotted(path)}: {node._value()} is a resolver that returns a part of the config, "
                "which would be a silent copy; write ${name}"
            )
        return found._value()

    def _explain(self, node: ConfigNode, path: Path, error: Exception) -> str:
        text = str(node._value())
        name = text.removeprefix("${").removesuffix("}").split(".")[0]
        if text.startswith("${") and name.isidentifier() and name not in self.config:
            return f"{dotted(path)}: no node '{name}'{nearest(name, map(str, self.config))}"
        first = str(error).splitlines()[0]
        if "parent node" in first or "Recursive" in first:
            through = "" if name == dotted(path) else f" -> {name}"
            return f"circular: {dotted(path)}{through} -> {dotted(path)}"
        return f"{dotted(path)} is {text}: {first}"

    def _mapping(self, node: DictConfig, path: Path) -> Any:  # noqa: ANN401
        keys = list(node._content)  # type: ignore[arg-type]
        if "_target_" not in keys:
            return {key: self.value((*path, key)) for key in keys}
        for key in keys:
            if str(key).startswith("_") and key not in {"_target_", "_partial_", "_keys_"}:
                remedy = "only _target_, _partial_ and _keys_ are understood; delete it"
                self.fail(f"{dotted((*path, key))} is {node._get_node(key)}: {remedy}")
        target = self.value((*path, "_target_"))
        if not isinstance(target, str) or "." not in target:
            return self.fail(f"{dotted(path)}._target_ is {target!r}: must be package.module.Name")
        return Node(
            path=dotted(path),
            target=target,
            arguments={
                str(key): self.value((*path, key)) for key in keys if not str(key).startswith("_")
            },
            keys=self.value((*path, "_keys_")) if "_keys_" in keys else {},
            partial=bool(self.value((*path, "_partial_"))) if "_partial_" in keys else False,
        )


@dataclass
class PhasePlan:
    """One phase: how many steps, which stages, and what runs every so many steps."""

    steps: int
    stages: list[Any]
    every: dict[str, tuple[int, Any]]


@dataclass
class Plan:
    """A whole config, read: its top-level values, all its nodes by path, and its phases."""

    tree: dict[str, Any]
    nodes: dict[str, Node]
    phases: dict[str, PhasePlan]


def read(config: DictConfig) -> tuple[Plan, list[str]]:
    """Read a config into plain values and nodes.

    Returns:
        The plan, and every mistake found on the way (empty when all is well).
    """
    reader = Reader(config)
    tree = {str(key): reader.value((key,)) for key in config if key != "phases"}
    phases = _phases(reader)
    nodes: dict[str, Node] = {}
    for value in (*tree.values(), *((p.stages, p.every) for p in phases.values())):
        _collect(value, nodes)
    return Plan(tree, nodes, phases), list(dict.fromkeys(reader.errors))


def read_or_raise(config: DictConfig) -> Plan:
    """:func:`read`, raising all mistakes at once.

    Raises:
        ConfigErrors: the config could not be read.
    """
    plan, errors = read(config)
    if errors:
        raise ConfigErrors(errors)
    return plan


def _phases(reader: Reader) -> dict[str, PhasePlan]:
    given = OmegaConf.to_container(reader.config, resolve=False)
    if not isinstance(given, dict) or not isinstance(given.get("phases"), dict):
        reader.fail("phases: a run needs phases; choose a recipe: recipe=grpo")
        return {}
    if not given["phases"]:
        reader.fail("phases is empty: a run needs at least one phase; choose a recipe: recipe=grpo")
    return {str(name): _phase(reader, str(name)) for name in given["phases"]}


def _phase(reader: Reader, name: str) -> PhasePlan:
    where = f"phases.{name}"
    body = reader.value(("phases", name))
    if not isinstance(body, dict):
        if body is not BROKEN:
            reader.fail(f"{where} is {body!r}: must be {{steps: ..., stages: [...]}}")
        return PhasePlan(0, [], {})
    known = {"steps", "stages", "every"}
    for key in body:
        if key not in known:
            reader.fail(f"{where}.{key}: unknown{nearest(str(key), known)}")
    steps, stages = body.get("steps"), body.get("stages")
    fault = problem(NonNegativeInt, steps)
    if fault and steps is not BROKEN:
        reader.fail(f"{where}.steps is {steps!r}: {fault}; set {where}.steps=...")
    if stages is not BROKEN and (not isinstance(stages, list) or not stages):
        reader.fail(f"{where}.stages is {stages!r}: must be a list of node names")
    listed = stages if isinstance(stages, list) else []
    count = steps if isinstance(steps, int) and not fault else 0
    return PhasePlan(count, listed, _every(reader, where, body.get("every")))


def _every(reader: Reader, where: str, body: object) -> dict[str, tuple[int, Any]]:
    if body is None or body is BROKEN:
        return {}
    if not isinstance(body, dict):
        reader.fail(f"{where}.every is {body!r}: must be {{evaluation: 25}}")
        return {}
    found: dict[str, tuple[int, Any]] = {}
    for name, period in body.items():
        if period is None or period is BROKEN:
            continue
        if not isinstance(period, int) or isinstance(period, bool) or period < 1:
            reader.fail(f"{where}.every.{name} is {period!r}: must be a number of steps, or null")
            continue
        found[str(name)] = (period, reader.named(str(name), f"{where}.every"))
    return found


def _collect(value: object, nodes: dict[str, Node]) -> None:
    if isinstance(value, Node):
        if value.path not in nodes:
            nodes[value.path] = value
            _collect(value.arguments, nodes)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, nodes)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _collect(item, nodes)


def children(node: Node) -> list[Node]:
    """The nodes among a node's arguments, in order."""
    found: dict[str, Node] = {}
    _collect_direct(node.arguments, found)
    return list(found.values())


def _collect_direct(value: object, found: dict[str, Node]) -> None:
    if isinstance(value, Node):
        found[value.path] = value
    elif isinstance(value, dict):
        for item in value.values():
            _collect_direct(item, found)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _collect_direct(item, found)


__all__ = ["ConfigError", "Node", "Plan", "children", "read", "read_or_raise"]
