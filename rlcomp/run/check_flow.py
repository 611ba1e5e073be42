"""Flow of built objects: declarations, or a foreign module's ``in_keys``, ``out_keys``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tensordict.nn import TensorDictModuleBase
from torch import nn

from rlcomp.component import Component
from rlcomp.config.flow import Flow, Stage, check_stages, fold, mark_source, rename_key
from rlcomp.errors import ConfigErrors
from rlcomp.keys import dotted, prompt_keys
from rlcomp.run.phase import Phase


def built_flow(stage: object) -> Flow:
    """Return the flow of a built stage: the keys that it reads and writes."""
    if not isinstance(stage, Component):
        return _foreign_flow(stage)
    inner = fold(built_flow(child) for child in run_children(stage))
    inner_writes = frozenset() if stage.contained else inner.writes
    optional_keys = frozenset(stage.optional) if stage.fresh else frozenset()
    copied_keys = frozenset(
        stage.renames.get(key, key) for key in optional_keys.intersection(stage.writes)
    )
    kept_prompt_keys = prompt_keys() if stage.keeps_prompt else frozenset()
    carries = copied_keys | frozenset(stage.renames.get(key, key) for key in kept_prompt_keys)
    return Flow(
        reads=_names(stage.in_keys) | (inner.reads - frozenset(stage.supplies)),
        writes=(_names(stage.out_keys) - copied_keys) | inner_writes,
        fresh=stage.fresh or (inner.fresh and not stage.contained),
        opaque=inner.opaque and not stage.contained,
        lacks=inner.lacks,
        carries=carries | (frozenset() if stage.contained else inner.carries),
    )


def run_children(stage: Component) -> Iterator[object]:
    """Yield the children that a composite calls, in calling order."""
    for name in stage.runs:
        child: Any = getattr(stage, name)
        if isinstance(child, (nn.ModuleDict, dict)):
            yield from child.values()
        elif isinstance(child, (nn.ModuleList, list, tuple)):
            yield from child
        elif child is not None:
            yield child


def _foreign_flow(stage: object) -> Flow:
    if not isinstance(stage, TensorDictModuleBase):
        return Flow(opaque=True)
    return Flow(_names(stage.in_keys), _names(stage.out_keys))


def _names(keys: list[Any]) -> frozenset[str]:
    return frozenset(dotted(key) for key in keys)


def check_built_flow(phases: Mapping[str, Phase], nodes: Mapping[str, object]) -> None:
    """Check the flow of built phases, from Python or from a config.

    Raises:
        ConfigErrors: for example, a stage reads a key that no earlier stage writes.
    """
    names = {id(node): path for path, node in nodes.items()}
    errors = []
    for name, phase in phases.items():
        periodic_stages = [_stage(stage, names) for _, stage in phase.every.values()]
        used_ids = {id(stage) for stage in phase.all_stages()}
        other_flows = {
            path: built_flow(node)
            for path, node in nodes.items()
            if isinstance(node, Component) and id(node) not in used_ids
        }
        for stages in phase.lists():
            flow_stages = [_stage(stage, names) for stage in stages]
            errors += check_stages(name, flow_stages, periodic_stages, other_flows)
    if errors:
        raise ConfigErrors(list(dict.fromkeys(errors)))


def _all_reads(stage: nn.Module) -> frozenset[str]:
    """Return the keys that a component and its parts read, including optional ones."""
    part_keys = frozenset[str]().union(*(_all_reads(part) for part in stage.children()))
    if not isinstance(stage, Component):
        return part_keys
    stage_reads = (stage.renames.get(key, key) for key in (*stage.reads, *stage.optional))
    return frozenset(stage_reads) | (part_keys - frozenset(stage.supplies))


def _stage(stage: object, names: Mapping[int, str]) -> Stage:
    kind = type(stage).__name__
    path = names.get(id(stage), kind)
    if not isinstance(stage, Component):
        return Stage(path, kind, built_flow(stage))
    size = vars(stage).get("group_size")
    run = () if stage.contained else [_stage(part, names) for part in run_children(stage)]
    exclusive_marks: dict[str, frozenset[str]] = {}
    for part in stage.modules():
        if isinstance(part, Component) and part.exclusive and part.exclusive not in part.renames:
            condition = part.exclusive_if
            if condition and not getattr(part, condition):
                continue
            mark = mark_source(names.get(id(part), f"{path}:{type(part).__name__}"), condition)
            exclusive_marks[part.exclusive] = exclusive_marks.get(part.exclusive, frozenset()) | {
                mark
            }
    return Stage(
        path,
        kind,
        built_flow(stage),
        size if isinstance(size, int) else None,
        stage.min_group_size,
        frozenset(rename_key(key, stage.renames) for key in stage.must_reach),
        _all_reads(stage),
        exclusive_marks,
        [part.without_reads(frozenset(stage.supplies)) for part in run],
    )
