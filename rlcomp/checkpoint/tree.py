"""Serialisation of nested values and tensors as JSON plus named tensors; no pickle."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rlcomp.errors import CheckpointError


def split_tree(tree: object, path: str) -> tuple[Any, dict[str, Tensor]]:
    """Split a tree into JSON and named tensors.

    Raises:
        CheckpointError: a value is neither plain nor a tensor; names its place.

    Examples:
        >>> split_tree({"steps": (1, 2)}, "a")[0]
        {'dict': [['steps', {'tuple': [1, 2]}]]}
    """
    tensors: dict[str, Tensor] = {}

    def encode(value: object, place: str) -> Any:  # noqa: ANN401
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, Tensor):
            # Two places may have the same name: {"a.b": x} and {"a": {"b": y}}.
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


def join_tree(code: object, tensors: dict[str, Any]) -> Any:  # noqa: ANN401
    """Join JSON and named tensors to a tree: the inverse of :func:`split_tree`.

    Args:
        code: the JSON.
        tensors: by name; those of the tree are taken out, so that none is in two places.

    Raises:
        CheckpointError: the JSON is no result of :func:`split_tree`, or a tensor is missing.

    Examples:
        >>> join_tree({"dict": [["steps", {"tuple": [1, 2]}]]}, {})
        {'steps': (1, 2)}
    """
    if code is None or isinstance(code, (bool, int, float, str)):
        return code
    if not isinstance(code, dict) or len(code) != 1:
        raise CheckpointError(f"{code!r:.60} is neither a plain value nor one of our marks")
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
