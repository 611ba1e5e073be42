"""Typed fields of a saved state, checked before they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rlcomp.arguments import NonNegativeInt, problem
from rlcomp.errors import CheckpointError


def field(state: object, name: str, kind: Any, below: float | None = None) -> Any:  # noqa: ANN401
    """Return a checked field of a saved state.

    Args:
        state: the state, a mapping.
        name: of the field.
        kind: an annotation, as in constructors (:mod:`rlcomp.arguments`): ``NonNegativeInt``,
            ``list[float]``. Numbers are finite.
        below: a number must be less than this.

    Raises:
        CheckpointError: the field is missing or of another kind; names it and its value.

    Examples:
        >>> field({"epoch": 3}, "epoch", int)
        3
    """
    if not isinstance(state, Mapping):
        raise CheckpointError(f"the state is {state!r:.60}: must be a mapping")
    if name not in state:
        raise CheckpointError(f"'{name}' is missing")
    value = state[name]
    fault = problem(kind, value)
    if fault is None and below is not None and not value < below:
        fault = f"must be less than {below}"
    if fault is not None:
        raise CheckpointError(f"'{name}' is {_short(value)}: {fault}")
    return value


def count_field(state: object, name: str, below: int = 2**63) -> int:
    """Return a count of a saved state: a whole number from 0 below ``2^63``.

    Raises:
        CheckpointError: the field is missing or of another kind; names it.
    """
    value: int = field(state, name, NonNegativeInt, below=below)
    return value


def seed_field(state: object, name: str = "seed") -> int:
    """Return a seed of a saved state, a whole number from 0 below ``2^64``.

    Raises:
        CheckpointError: the field is missing or of another kind; names it.
    """
    return count_field(state, name, 2**64)


def tensor_field(
    state: object, name: str, dtype: torch.dtype, shape: Sequence[int] | None = None
) -> Tensor:
    """Return a tensor of a saved state, of this dtype and shape; None for any 1-d shape.

    Raises:
        CheckpointError: the field is missing or of another kind; names it.
    """
    value = field(state, name, object)
    if not isinstance(value, Tensor):
        raise CheckpointError(f"'{name}' is {_short(value)}: must be a tensor")
    fits = value.dim() == 1 if shape is None else list(value.shape) == [*shape]
    if value.dtype != dtype or not fits:
        must = "[any number]" if shape is None else [*shape]
        raise CheckpointError(
            f"'{name}' is {list(value.shape)} {value.dtype}: must be {must} {dtype}"
        )
    return value


def names(state: object, exactly: Sequence[str], perhaps: Sequence[str] = ()) -> None:
    """Check that a state has these fields, and no others.

    Raises:
        CheckpointError: a field is missing, or a field is there that nothing reads.
    """
    if not isinstance(state, Mapping):
        raise CheckpointError(f"the state is {_short(state)}: must be a mapping")
    for name in exactly:
        if name not in state:
            raise CheckpointError(f"'{name}' is missing")
    for name in state:
        if name not in (*exactly, *perhaps):
            raise CheckpointError(f"'{name}'"[:60] + " is there, which nothing reads")


def _short(value: object) -> str:
    huge = isinstance(value, int) and abs(value) >= 10**60  # too long for repr, perhaps
    return "a huge number" if huge else f"{value!r:.60}"
