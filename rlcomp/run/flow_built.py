"""The flow of built objects: our declarations, or a foreign module's ``in_keys`` and ``out_keys``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensordict.nn import TensorDictModuleBase
from torch import nn

from rlcomp.component import Component
from rlcomp.run.flow import Flow, fold


def built_flow(stage: object) -> Flow:
    """What a built stage needs and leaves behind."""
    if not isinstance(stage, Component):
        return _foreign(stage)
    inner = fold(built_flow(child) for child in _children(stage))
    left = frozenset() if stage.contained else inner.writes
    return Flow(
        reads=frozenset(stage.in_keys) | inner.reads,
        writes=frozenset(stage.out_keys) | left,
        fresh=stage.fresh or (inner.fresh and not stage.contained),
        opaque=inner.opaque and not stage.contained,
    )


def _children(stage: Component) -> Iterator[object]:
    for name in stage.runs:
        child: Any = getattr(stage, name)
        if isinstance(child, (nn.ModuleDict, dict)):
            yield from child.values()
        elif isinstance(child, (nn.ModuleList, list, tuple)):
            yield from child
        elif child is not None:
            yield child


def _foreign(stage: object) -> Flow:
    if not isinstance(stage, TensorDictModuleBase):
        return Flow(opaque=True)
    return Flow(_names(stage.in_keys), _names(stage.out_keys))


def _names(keys: list[Any]) -> frozenset[str]:
    return frozenset(key if isinstance(key, str) else ".".join(key) for key in keys)
