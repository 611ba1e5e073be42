"""Declarations of components: the required types, and keys beside the schema.

This module does not import torch: ``rlcomp-describe`` reads declarations before any heavy import.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields

from rlcomp.errors import ConfigError, nearest
from rlcomp.keys import CONTROL, DECLARED_KEYS, SCHEMA, Key, OwnKey, Spec

# Valid paddings by dtype, least and largest; for "float" the integers that a float32 can represent.
_PAD_RANGES = {
    "float": (-(2**24), 2**24),
    "int64": (-(2**63), 2**63 - 1),
    "bool": (0, 1),
    "uint8": (0, 255),
}
_DTYPES = (*_PAD_RANGES, "nested")
# Further fields of a specification, which a literal may give in a dict.
_FURTHER_FIELDS = [field.name for field in fields(Spec)[3:]]
# Valid values of ``Spec.example``.
_EXAMPLES = (
    "log_prob",
    "probability",
    "positive",
    "ratio",
    "first_of_group",
    "same_in_all_rows",
)
_KEY_TUPLE = 'a tuple of keys, such as ("reward",)'
_ARGUMENT_TUPLE = 'a tuple of names of arguments, such as ("stages",)'
# Required type of each class attribute that declares something about a component.
DECLARATION_TYPES = {
    **dict.fromkeys(("reads", "writes", "optional", "may_write", "step_keys"), _KEY_TUPLE),
    **dict.fromkeys(("must_reach", "supplies"), _KEY_TUPLE),
    **dict.fromkeys(("runs", "watches", "earlier"), _ARGUMENT_TUPLE),
    "keys": "a dict of specifications by key",
    "writes_if": 'a dict of keys by argument, such as {"full": ("ref_log_distribution",)}',
    **dict.fromkeys(("fresh", "keeps_prompt", "contained", "drops_rows"), "True or False"),
    "min_group_size": "a whole number, at least 1",
    **dict.fromkeys(("min_group_size_from", "exclusive", "exclusive_if", "equation"), "a text"),
}


def declare_keys(owner: str, keys: Mapping[Key, OwnKey]) -> None:
    """Add the keys that a class declares to the known keys.

    Args:
        owner: dotted name of the class; a second declaration replaces its first.
        keys: ``(shape, dtype, meaning)`` by key, with an optional dict of further fields of
            :class:`rlcomp.keys.Spec`.

    Raises:
        ConfigError: a literal is not a valid specification, or it contradicts the schema or
            another class.
    """
    if not isinstance(keys, Mapping):
        raise ConfigError(
            f"{owner}.keys is {_short_repr(keys)}: must be {DECLARATION_TYPES['keys']}"
        )
    for key, literal in keys.items():
        declared = _parse_specification(owner, key, literal)
        known = {"the schema": SCHEMA[key]} if key in SCHEMA else DECLARED_KEYS.get(key, {})
        for other, spec in known.items():
            if other != owner and not _agree(declared, spec, in_schema=key in SCHEMA):
                raise ConfigError(
                    f"{owner}.keys: '{key}' is {_format_specification(declared)}, but {other} "
                    f"declares it as {_format_specification(spec)}: declare the same "
                    "specification, or use another name for the key"
                )
        if key not in SCHEMA:
            DECLARED_KEYS.setdefault(key, {})[owner] = declared


def check_declared(owner: str, name: str, value: object) -> None:
    """Refuse a declaration of the wrong type.

    Args:
        owner: name of the class, for the message.
        name: name of the class attribute, one of :data:`DECLARATION_TYPES`.
        value: value of the class attribute.

    Raises:
        ConfigError: the declaration has another type.

    Examples:
        >>> check_declared("Mine", "fresh", 1)
        Traceback (most recent call last):
        ...
        rlcomp.errors.ConfigError: Mine.fresh is 1: must be True or False
    """
    required_type = DECLARATION_TYPES[name]
    is_valid = {
        _KEY_TUPLE: _is_list_of_texts(value),
        _ARGUMENT_TUPLE: _is_list_of_texts(value),
        "True or False": isinstance(value, bool),
        "a text": isinstance(value, str),
        DECLARATION_TYPES["keys"]: isinstance(value, Mapping),
        DECLARATION_TYPES["writes_if"]: isinstance(value, Mapping)
        and all(map(_is_list_of_texts, value.values())),
        DECLARATION_TYPES["min_group_size"]: type(value) is int and value >= 1,
    }
    if not is_valid[required_type]:
        raise ConfigError(f"{owner}.{name} is {_short_repr(value)}: must be {required_type}")


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(item, str) for item in value)


def _short_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _agree(declared: Spec, known: Spec, *, in_schema: bool) -> bool:
    """Return True if two specifications agree: in shape and dtype for keys of the schema."""
    if in_schema:
        return (declared.shape, declared.dtype) == (known.shape, known.dtype)
    return declared == known


def _parse_specification(owner: str, key: Key, literal: OwnKey) -> Spec:
    if not isinstance(key, str) or not key.isidentifier():
        raise ConfigError(
            f"{owner}.keys: {_short_repr(key)} is not a key: must be a name of letters, digits "
            "and _"
        )
    try:
        shape, dtype, meaning, *remaining = literal if isinstance(literal, (tuple, list)) else ()
        spec = Spec(shape, dtype, meaning, **(remaining[0] if remaining else {}))
        is_valid = len(remaining) < 2 and shape.split()[0] == "B" and dtype in _DTYPES
        is_valid = is_valid and isinstance(meaning, str)
    except (TypeError, ValueError, AttributeError, IndexError):
        is_valid = False
    if not is_valid:
        raise ConfigError(
            f"{owner}.keys: '{key}' is {_short_repr(literal)}: must be (shape, dtype, meaning), "
            'for example ("B T", "int64", "index of the span that the token belongs to"); dtype '
            f"is one of {', '.join(_DTYPES)}; a dict of further fields may follow: "
            f"{', '.join(_FURTHER_FIELDS)}"
        )
    for name, (is_valid, valid_values) in _check_further_fields(spec).items():
        if not is_valid:
            value = _short_repr(getattr(spec, name))
            raise ConfigError(f"{owner}.keys: '{key}' has {name} {value}: must be {valid_values}")
    return spec


def _check_further_fields(spec: Spec) -> dict[str, tuple[bool, str]]:
    """Return for each further field True if its value is valid, and a text of valid values."""
    pad, dtype = spec.pad, spec.dtype
    low, high = _PAD_RANGES.get(dtype, (0, -1))
    return {
        "pad": (
            pad is None or (type(pad) is int and low <= pad <= high),
            f"a whole number from {low} to {high} ({dtype})" if low <= high else "left out: nested",
        ),
        "offset": (
            isinstance(spec.offset, str) and (not spec.offset or dtype == "int64"),
            "the name of a family of ids, of an int64 only",
        ),
        "per_prompt": (isinstance(spec.per_prompt, bool), "True or False"),
        "absent": (
            isinstance(spec.absent, (str, float)) and (not spec.absent or dtype == "nested"),
            "a text for nested texts, or a float for nested numbers; other dtypes have none",
        ),
        "example": (
            isinstance(spec.example, str) and spec.example in ("", *_EXAMPLES),
            f"one of {', '.join(_EXAMPLES)}",
        ),
    }


def _format_specification(spec: Spec) -> str:
    values = [(name, getattr(spec, name)) for name in _FURTHER_FIELDS]
    options = "".join(
        f", {name}={value!r}" for name, value in values if value not in (None, "", False)
    )
    return f"[{','.join(spec.shape.split())}] {spec.dtype}, {spec.meaning!r}{options}"


def check_key(owner: str, key: Key, own: Collection[Key] = ()) -> None:
    """Refuse a key that neither the schema nor the component itself declares.

    Args:
        owner: name of the component, for the message.
        key: the key to check.
        own: keys that the component declares.

    Raises:
        ConfigError: the key is unknown. The message suggests the most similar key, or names the
            class that declares this key.
    """
    if key in SCHEMA or key in CONTROL or key in own:
        return
    hint = nearest(key, {*SCHEMA, *CONTROL, *own})
    if key in DECLARED_KEYS:
        other, entry = next(iter(DECLARED_KEYS[key].items()))
        hint = f": declare it in keys as {other} does, {_format_specification(entry)}"
    raise ConfigError(f"{owner}: {_short_repr(key)} is not a key of the batch{hint}")
