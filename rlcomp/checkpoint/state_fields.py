"""Saved state: checks of its fields, and its form as JSON plus named tensors (no pickle)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rlcomp.arguments import NonNegativeInt, problem
from rlcomp.errors import CheckpointError


def field(state: object, name: str, kind: Any, below: float | None = None) -> Any:  # noqa: ANN401
    """Return a field of a saved state after checking its type.

    Args:
        state: a mapping.
        name: key of the field.
        kind: an annotation (:mod:`rlcomp.arguments`): ``NonNegativeInt``, ``list[float]``. Numbers
            are finite.
        below: exclusive upper bound of a number.

    Raises:
        CheckpointError: the field is missing or of another kind; the message names it and its
            value.

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
    """Return an integer of a saved state, at least 0 and less than ``below``.

    Raises:
        CheckpointError: the field is missing or of another kind.
    """
    value: int = field(state, name, NonNegativeInt, below=below)
    return value


def seed_field(state: object, name: str = "seed") -> int:
    """Return a seed of a saved state, an integer at least 0 and less than ``2^64``.

    Raises:
        CheckpointError: the field is missing or of another kind.
    """
    return count_field(state, name, 2**64)


def tensor_field(
    state: object, name: str, dtype: torch.dtype, shape: Sequence[int] | None = None
) -> Tensor:
    """Return a tensor of a saved state after checking its dtype and shape.

    A shape of None stands for a vector of any length.

    Raises:
        CheckpointError: the field is missing or of another kind.
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


def check_fields(state: object, required: Sequence[str], optional: Sequence[str] = ()) -> None:
    """Check that a state has the required fields, and no others but the optional ones.

    Raises:
        CheckpointError: a field is missing, or is none of these.
    """
    if not isinstance(state, Mapping):
        raise CheckpointError(f"the state is {_short(state)}: must be a mapping")
    for name in required:
        if name not in state:
            raise CheckpointError(f"'{name}' is missing")
    for name in state:
        if name not in (*required, *optional):
            raise CheckpointError(f"'{name}'"[:60] + " is no field of this state")


def _short(value: object) -> str:
    huge = isinstance(value, int) and abs(value) >= 10**60  # perhaps too long for repr
    return "a huge number" if huge else f"{value!r:.60}"


def split_tree(tree: object, path: str) -> tuple[Any, dict[str, Tensor]]:
    """Split a tree of plain values and tensors into JSON and named tensors.

    Args:
        tree: None, bool, int, float, str, tensors, and dicts, lists and tuples of these.
        path: beginning of the tensors' names.

    Returns:
        The JSON, and copies of the tensors on the CPU, by name.

    Raises:
        CheckpointError: a value is neither plain nor a tensor; the message names its path.

    Examples:
        >>> split_tree({"steps": (1, 2)}, "a")[0]
        {'dict': [['steps', {'tuple': [1, 2]}]]}
    """
    tensors: dict[str, Tensor] = {}

    def encode(value: object, path: str) -> Any:  # noqa: ANN401
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, Tensor):
            # Two paths may have the same name: {"a.b": x} and {"a": {"b": y}}.
            name = path if path not in tensors else f"{path}#{len(tensors)}"
            tensors[name] = value.detach().to("cpu", copy=True).contiguous()
            return {"tensor": name}
        if isinstance(value, dict):
            pairs = [[encode(k, path), encode(v, f"{path}.{k}")] for k, v in value.items()]
            return {"dict": pairs}
        if isinstance(value, (list, tuple)):
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {kind: [encode(item, f"{path}.{index}") for index, item in enumerate(value)]}
        raise CheckpointError(
            f"{path} is a {type(value).__name__}: cannot be saved; use plain values"
        )

    return encode(tree, path), tensors


def join_tree(code: object, tensors: dict[str, Any]) -> Any:  # noqa: ANN401
    """Join JSON and named tensors to a tree: the inverse of :func:`split_tree`.

    Args:
        code: the JSON.
        tensors: tensors by name. Changed: the tensors of the tree are removed, so that no tensor
            is used twice.

    Raises:
        CheckpointError: the JSON is no result of :func:`split_tree`, or a tensor is missing.

    Examples:
        >>> join_tree({"dict": [["steps", {"tuple": [1, 2]}]]}, {})
        {'steps': (1, 2)}
    """
    if code is None or isinstance(code, (bool, int, float, str)):
        return code
    if not isinstance(code, dict) or len(code) != 1:
        raise CheckpointError(f"{code!r:.60} is neither a plain value nor a mark of split_tree")
    ((kind, body),) = code.items()
    if kind == "tensor":
        if not isinstance(body, str) or body not in tensors:
            raise CheckpointError(f"the tensor {body!r:.60} is not there, or in two places")
        return tensors.pop(body)
    if kind not in ("dict", "list", "tuple") or not isinstance(body, list):
        raise CheckpointError(f"{code!r:.60} is no dict, list, tuple or tensor")
    if kind == "dict":
        return _join_dict(body, tensors)
    items = [join_tree(item, tensors) for item in body]
    return tuple(items) if kind == "tuple" else items


def _join_dict(body: list[object], tensors: dict[str, Any]) -> dict[Any, Any]:
    entries: dict[Any, Any] = {}
    for pair in body:
        if not isinstance(pair, list) or len(pair) != 2:
            raise CheckpointError(f"{pair!r:.60} is no pair of a key and a value")
        key = join_tree(pair[0], {})  # no tensor is a key
        try:
            twice = key in entries
        except TypeError:
            raise CheckpointError(f"{key!r:.60} cannot be a key") from None
        if twice:
            raise CheckpointError(f"the key {key!r:.60} is there twice")
        entries[key] = join_tree(pair[1], tensors)
    return entries
