"""The plan of a run: a parsed config with its values, nodes by path, and phases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rlcomp.arguments import NonNegativeInt, problem, remedy
from rlcomp.config.insert import insert_stages
from rlcomp.config.migrations import renamed_class_messages, version_0_1_message
from rlcomp.config.phase_order import order_phases
from rlcomp.config.reader import BROKEN, Node, Reader
from rlcomp.errors import ConfigError, nearest

# Nodes of the run itself, which no phase has to name.
RUN_NODES = ("tracker", "checkpoint", "cluster", "parallel")


@dataclass
class PhasePlan:
    """A phase with its stages, after ``without`` and ``insert``.

    Attributes:
        steps: number of steps.
        stages: the list that runs from the first step on.
        every: (period in steps, node) of the nodes that run periodically, by name.
        later: the lists that replace ``stages``, by their first step.
        on_begin: the nodes that run at the beginning.
    """

    steps: int
    stages: list[Any]
    every: dict[str, tuple[int, Any]]
    later: dict[int, list[Any]] = field(default_factory=dict)
    on_begin: list[Any] = field(default_factory=list)

    def lists(self) -> list[list[Any]]:
        """Return the lists in the order in which they run."""
        return [self.stages, *self.later.values()]

    def listed_stages(self) -> list[Any]:
        """Return the stages of all lists, each once, in order."""
        stages_by_id = {id(stage): stage for stages in self.lists() for stage in stages}
        return list(stages_by_id.values())


@dataclass
class Plan:
    """A whole config as plain values.

    Attributes:
        tree: the top-level values, without ``phases``.
        nodes: all nodes by path.
        phases: the phases by name.
        origins: by the path of a reference to a value: the value's path, or the reference's text
            if it is computed.
        words: the overrides of the command line.
    """

    tree: dict[str, Any]
    nodes: dict[str, Node]
    phases: dict[str, PhasePlan]
    origins: dict[str, str] = field(default_factory=dict)
    words: Sequence[str] = ()

    def reached(self) -> Plan:
        """Return the plan of the nodes that a run needs, in the same order.

        These are the stages of its phases, its tracker, checkpoint, cluster and ranks, with their
        parts.
        """
        parts = [(p.lists(), p.every, p.on_begin) for p in self.phases.values()]
        reached: dict[str, Node] = {}
        collect([*parts, *(self.tree.get(name) for name in RUN_NODES)], reached)
        nodes = {path: node for path, node in self.nodes.items() if path in reached}
        return replace(self, nodes=nodes)


def read(config: DictConfig, words: Sequence[str] = ()) -> tuple[Plan, list[str]]:
    """Read a config into plain values and nodes.

    Args:
        config: a whole config.
        words: its overrides.

    Returns:
        The plan, and a message on each value that could not be read. The plan is empty if names of
        the config are old, or its phases have no order.
    """
    if (old := version_0_1_message(config)) is not None:
        return Plan({}, {}, {}), [old]
    if renamed := renamed_class_messages(config):
        return Plan({}, {}, {}), renamed
    try:
        reader = Reader(order_phases(config))
    except ConfigError as error:
        return Plan({}, {}, {}), [str(error)]
    config = reader.config
    tree = {str(key): reader.value((key,)) for key in config if key != "phases"}
    phases = _phases(reader)
    nodes: dict[str, Node] = {}
    parts = ((p.lists(), p.every, p.on_begin) for p in phases.values())
    for value in (*tree.values(), *parts):
        collect(value, nodes)
    return Plan(tree, nodes, phases, reader.origins, words), list(dict.fromkeys(reader.errors))


def _phases(reader: Reader) -> dict[str, PhasePlan]:
    plain = OmegaConf.to_container(reader.config, resolve=False)
    if not isinstance(plain, dict) or not isinstance(plain.get("phases"), dict):
        reader.fail("phases: a run needs phases; choose a recipe: recipe=grpo")
        return {}
    if not plain["phases"]:
        reader.fail("phases is empty: a run needs at least one phase; choose a recipe: recipe=grpo")
    phases = {str(name): _phase(reader, str(name)) for name in plain["phases"]}
    if phases and not reader.errors and not any(phase.steps for phase in phases.values()):
        reader.fail(
            f"phases: every phase has steps 0 ({', '.join(phases)}), so nothing would be done; set "
            f"phases.{[*phases][-1]}.steps=..."
        )
    return phases


def _phase(reader: Reader, name: str) -> PhasePlan:
    where = f"phases.{name}"
    body = reader.value(("phases", name))
    if not isinstance(body, dict):
        if body is not BROKEN:
            reader.fail(f"{where} is {body!r}: must be {{steps: ..., stages: [...]}}")
        return PhasePlan(0, [], {})
    known = {"steps", "stages", "without", "insert", "every", "on_begin"}
    for key in body:
        if key not in known:
            reader.fail(f"{where}.{key}: unknown{nearest(str(key), known)}")
    if "steps" not in body and "stages" not in body:
        others = ", ".join(str(other) for other in reader.config.phases if other != name)
        reader.fail(
            f"{where} has neither steps nor stages: this recipe has no such phase (phases: "
            f"{others or 'none'}), but something adds to it ({', '.join(map(str, body))}); leave "
            "that out, or choose another recipe"
        )
        return PhasePlan(0, [], {})
    steps = body.get("steps")
    fault = problem(NonNegativeInt, steps)
    if fault and steps is not BROKEN:
        instead = remedy(f"{where}.steps", steps, fault)
        reader.fail(f"{where}.steps is {steps!r}: {fault}; {instead}")
    count = steps if isinstance(steps, int) and not fault else 0
    lists = _stages(reader, where, body, count)
    every = _every(reader, where, body.get("every"))
    return PhasePlan(count, lists.pop(1), every, lists, _on_begin(reader, where, body))


def _on_begin(reader: Reader, where: str, body: dict[str, Any]) -> list[Any]:
    names = body.get("on_begin") or []
    if names is not BROKEN and not isinstance(names, list):
        reader.fail(f"{where}.on_begin is {names!r}: must be a list of node names")
    return [name for name in names if name is not BROKEN] if isinstance(names, list) else []


def _stages(reader: Reader, where: str, body: dict[str, Any], steps: int) -> dict[int, list[Any]]:
    stages = body.get("stages")
    if stages is not BROKEN and (not isinstance(stages, list) or not stages):
        reader.fail(f"{where}.stages is {stages!r}: must be a list of node names")
    listed = stages if isinstance(stages, list) else []
    remaining = _without(reader, f"{where}.without", listed, body.get("without"))
    return insert_stages(reader, f"{where}.insert", remaining, body.get("insert"), steps)


def _without(reader: Reader, where: str, stages: list[Any], names: object) -> list[Any]:
    """Return the stages except those whose nodes are named."""
    if names is None or names is BROKEN:
        return stages
    known = {stage.path for stage in stages if isinstance(stage, Node)}
    if not isinstance(names, list):
        reader.fail(f"{where} is {names!r}: must be a list of stages")
        return stages
    for name in names:
        if name not in known and stages and BROKEN not in (name, *stages):
            reader.fail(f"{where} is {name!r}: there is no such stage{nearest(str(name), known)}")
    return [stage for stage in stages if not isinstance(stage, Node) or stage.path not in names]


def _every(reader: Reader, where: str, body: object) -> dict[str, tuple[int, Any]]:
    if body is None or body is BROKEN:
        return {}
    if not isinstance(body, dict):
        reader.fail(f"{where}.every is {body!r}: must be {{evaluation: 25}}")
        return {}
    entries: dict[str, tuple[int, Any]] = {}
    for name, period in body.items():
        if period is None or period is BROKEN:
            continue
        if not isinstance(period, int) or isinstance(period, bool) or period < 1:
            reader.fail(f"{where}.every.{name} is {period!r}: must be a number of steps, or null")
            continue
        entries[str(name)] = (period, reader.named(str(name), f"{where}.every"))
    return entries


def nodes_in(value: object) -> Iterator[Node]:
    """Yield the nodes in a value and its containers, in order, but not those inside the nodes."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from nodes_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from nodes_in(item)


def children(node: Node) -> list[Node]:
    """Return the nodes among a node's arguments, each once, in order."""
    return list({child.path: child for child in nodes_in(node.arguments)}.values())


def losses_of(node: Node) -> list[Node]:
    """Return the losses of a learner, each once, in order."""
    return list({loss.path: loss for loss in nodes_in(node.arguments.get("losses"))}.values())


def below(node: Node) -> list[Node]:
    """Return the nodes that are built before a node, each once."""
    nodes: dict[str, Node] = {}
    collect(node.arguments, nodes)
    return list(nodes.values())


def collect(value: object, nodes: dict[str, Node]) -> None:
    """Add the nodes of a value, and all inside them, by path."""
    for node in nodes_in(value):
        if node.path not in nodes:
            nodes[node.path] = node
            collect(node.arguments, nodes)
