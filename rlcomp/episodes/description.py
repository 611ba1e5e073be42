"""Descriptions of environments as JSON, with descriptions of their parts."""

from __future__ import annotations

from collections.abc import Mapping

from rlcomp.arguments import Unbuilt

_TARGET, _ARGUMENTS = "_target_", "_arguments_"


def to_json(value: object) -> object:
    """Convert the descriptions in a value to mappings; values of other types stay unchanged.

    Examples:
        >>> to_json({"tool": Unbuilt("a.B", {"n": 1})})
        {'tool': {'_target_': 'a.B', '_arguments_': {'n': 1}}}
    """
    if isinstance(value, Unbuilt):
        return {_TARGET: value.target, _ARGUMENTS: to_json(value.arguments)}
    if isinstance(value, Mapping):
        return {name: to_json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(each) for each in value]
    return value


def from_json(value: object) -> object:
    """Invert :func:`to_json`, with lists for tuples.

    Examples:
        >>> from_json({"_target_": "a.B", "_arguments_": {}})
        Unbuilt(target='a.B', arguments={})
    """
    if isinstance(value, dict):
        entries = {name: from_json(each) for name, each in value.items()}
        return _described(entries) if entries.keys() == {_TARGET, _ARGUMENTS} else entries
    return [from_json(each) for each in value] if isinstance(value, list) else value


def _described(entries: dict[str, object]) -> Unbuilt:
    target, arguments = entries[_TARGET], entries[_ARGUMENTS]
    assert isinstance(target, str)
    assert isinstance(arguments, dict)
    return Unbuilt(target, arguments)
