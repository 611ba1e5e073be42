"""Serialisation of nested values and tensors as JSON plus named tensors; no pickle."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rlcomp.errors import CheckpointError


def split_tree(tree: object, path: str) -> tuple[Any, dict[str, Tensor]]:
    """Split a tree into JSON and named tensors.

    Raises:
        CheckpointError: something is neither a plain value nor a tensor; names its place.

    Examples:
        >>> split_tree({"steps": (1, 2)}, "a")[0]
        {'dict': [['steps', {'tuple': [1, 2]}]]}
    """
    tensors: dict[str, Tensor] = {}

    def encode(value: object, place: str) -> Any:  # noqa: ANN401
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, Tensor):
            # Two places may spell the same: {"a.b": x} and {"a": {"b": y}}.
            name = place if place not in tensors else f"{place}#{len(tensors)}"
            tensors[name] = value.detach().to("cpu", copy=True).contiguous()
            return {"tensor": name}
        if isinstance(value, dict):
            pairs = [[encode(k, place), encode(v, f"{place}.{k}")] for k, v in value.items()]
            return {"dict": pairs}
        if isinstance(value, (list, tuple)):
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {kind: [encode(item, f"{place}.{index}") for index, item in enumerate(value)]}
        raise CheckpointError(
            f"{place} is a {type(value).__name__}: cannot be saved; use plain values"
        )

    return encode(tree, path), tensors


def join_tree(code: Any, tensors: dict[str, Tensor]) -> Any:  # noqa: ANN401
    """The inverse of :func:`split_tree`."""
    if not isinstance(code, dict):
        return code
    ((kind, body),) = code.items()
    if kind == "tensor":
        return tensors[body]
    if kind == "dict":
        return {join_tree(key, tensors): join_tree(value, tensors) for key, value in body}
    items = [join_tree(item, tensors) for item in body]
    return tuple(items) if kind == "tuple" else items
