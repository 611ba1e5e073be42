"""Argument validation from type annotations: in Python, from yaml, before the import of torch.

A constructor declares ``clip_low: Fraction = 0.2``. Every ``Component``, and every class with the
metaclass :class:`Checked`, checks its arguments when an instance is created. ``rlcomp.config``
checks every node of a config before it builds the first node.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union

from annotated_types import Ge, Gt, Interval, Le, Lt, MinLen

from rlcomp.errors import ConfigError

PositiveInt = Annotated[int, Gt(0)]
NonNegativeInt = Annotated[int, Ge(0)]
# Number of examples of a task, which ``len`` must be able to return.
ExampleCount = Annotated[int, Gt(0), Le(sys.maxsize)]
PositiveFloat = Annotated[float, Gt(0)]
NonNegativeFloat = Annotated[float, Ge(0)]
Fraction = Annotated[float, Interval(ge=0, lt=1)]
Probability = Annotated[float, Interval(ge=0, le=1)]
NonEmptyText = Annotated[str, MinLen(1)]


class Compiles:
    """Constraint on a text: it must be a valid regular expression."""


@dataclass(frozen=True)
class Unbuilt:
    """Class and arguments of a config node that its owner builds later or in another process.

    Attributes:
        target: dotted path of the class.
        arguments: arguments of its constructor.
    """

    target: str
    arguments: Mapping[str, object]


RegularExpression = Annotated[str, Compiles()]

# Types by the names that annotations use. Before a class is imported, values of types with other
# names are not checked.
VOCABULARY: dict[str, Any] = {
    name: value
    for name, value in globals().items()
    if name[0].isupper() and name not in {"VOCABULARY", "Any", "ConfigError"}
} | {"int": int, "float": float, "str": str, "bool": bool, "list": list, "dict": dict}
VOCABULARY |= {"tuple": tuple, "None": None, "Any": Any, "Literal": Literal, "object": Any}

_BOUNDS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "gt": ("greater than", lambda value, bound: value > bound),
    "ge": ("at least", lambda value, bound: value >= bound),
    "lt": ("less than", lambda value, bound: value < bound),
    "le": ("at most", lambda value, bound: value <= bound),
}


def problem(annotation: Any, value: object) -> str | None:  # noqa: ANN401
    """Return a text that says why a value does not match an annotation; None if it matches.

    Examples:
        >>> problem(Fraction, 1.5)
        'must be less than 1'
        >>> problem(PositiveInt, "abc")
        'must be an integer'
        >>> problem(Literal["k1", "k3"], "k2")
        "must be one of 'k1', 'k3'"
        >>> problem(float, 3) is None
        True
    """
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _problem_annotated(annotation, value)
    if origin is Literal:
        options = typing.get_args(annotation)
        return None if value in options else f"must be one of {', '.join(map(repr, options))}"
    if origin in (Union, types.UnionType):
        problems = [problem(option, value) for option in typing.get_args(annotation)]
        return None if None in problems else " or ".join(dict.fromkeys(p for p in problems if p))
    if origin in (list, Sequence, tuple, dict, Mapping):
        return _problem_container(origin, typing.get_args(annotation), value)
    if origin is Callable:
        is_data = isinstance(value, (type(None), bool, int, float, str, list, dict))
        return "must be a function: write a _target_ with _partial_: true" if is_data else None
    # Values of any other generic are not checked.
    return _problem_plain(annotation, value) if origin is None else None


# Meaning and an example of arguments with another unit than in other libraries.
_UNITS = {
    "warmup": ("it is a share of the phase's steps, 0.1 for the first tenth", 0.1),
    "held_out": ("it is a share of the examples, 0.1 for a tenth", 0.1),
    "clip_low": ("it is a distance from 1, 0.2 for a ratio of at least 0.8", 0.2),
}


def remedy(path: str, value: object, fault: str) -> str:
    """Return a text that says how to correct an invalid value.

    Args:
        path: config path of the value.
        value: the invalid value.
        fault: result of :func:`problem`.

    Examples:
        >>> remedy("phases.rl.steps", 1e6, "must be an integer")
        'set phases.rl.steps=1000000'
        >>> remedy("learner.epochs", "many", "must be an integer")
        'set learner.epochs=...'
        >>> remedy("task.held_out", 5, "must be at most 1")
        'it is a share of the examples, 0.1 for a tenth: set task.held_out=0.1'
        >>> remedy("learner.epochs", [1, 2], "must be an integer")
        'a sweep has no brackets, rlcomp -m learner.epochs=1,2'
    """
    is_sweep = isinstance(value, list) and len(value) > 1 and "list" not in fault
    if is_sweep and all(isinstance(item, (bool, int, float, str)) for item in value):  # type: ignore[attr-defined]
        items = [str(item).lower() if isinstance(item, bool) else str(item) for item in value]  # type: ignore[attr-defined]
        return f"a sweep has no brackets, rlcomp -m {path}={','.join(items)}"
    unit = _UNITS.get(path.rpartition(".")[2])
    if unit:
        return f"{unit[0]}: set {path}={unit[1]}"
    # Below 1e15 a float represents every whole number exactly.
    is_whole = isinstance(value, float) and value.is_integer() and 0 < value < 1e15
    return f"set {path}={int(value) if is_whole and 'integer' in fault else '...'}"  # type: ignore[call-overload]


def _problem_annotated(annotation: Any, value: object) -> str | None:  # noqa: ANN401
    kind, *limits = typing.get_args(annotation)
    fault = problem(kind, value)
    if fault or not isinstance(value, (int, float, str, Mapping)):
        return fault
    for limit in limits:
        if isinstance(limit, MinLen) and len(value) < limit.min_length:  # type: ignore[arg-type]
            return "must not be empty"
        if isinstance(limit, Compiles):
            return _problem_expression(str(value))
        for name, (description, is_within) in _BOUNDS.items():
            bound = getattr(limit, name, None)
            if bound is None or not isinstance(value, (int, float)):
                continue
            if not is_within(value, bound):
                return f"must be {description} {bound}"
    return None


def _problem_expression(text: str) -> str | None:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        return f"must be a regular expression ({error})"
    return None


def _problem_container(origin: Any, kinds: tuple[Any, ...], value: object) -> str | None:  # noqa: ANN401
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            return "must be a mapping"
        return next((f for v in value.values() if kinds and (f := problem(kinds[-1], v))), None)
    if isinstance(value, str) or not isinstance(value, Sequence):
        return "must be a list"
    if origin is tuple and ... not in kinds and len(value) != len(kinds):
        return f"must be a list of {len(kinds)}"
    if origin is not tuple or ... in kinds:
        kinds = kinds[:1] * len(value)
    return next((f for v, kind in zip(value, kinds, strict=False) if (f := problem(kind, v))), None)


def _problem_plain(annotation: Any, value: object) -> str | None:  # noqa: ANN401
    if annotation in (None, type(None)):
        return None if value is None else "must be null"
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    checks: dict[Any, tuple[bool, str]] = {
        int: (is_number and isinstance(value, int), "must be an integer"),
        float: (is_number, "must be a number"),
        bool: (isinstance(value, bool), "must be true or false"),
        str: (isinstance(value, str), "must be a text"),
        dict: (isinstance(value, Mapping), "must be a mapping"),
        list: (isinstance(value, Sequence) and not isinstance(value, str), "must be a list"),
    }
    if annotation not in (*checks, Any) and inspect.isclass(annotation):
        return _problem_part(annotation, value)
    # An integer beyond the range of floats is not finite either.
    if annotation is float and is_number and not abs(value) <= sys.float_info.max:  # type: ignore[arg-type]
        return "must be finite"
    is_valid, requirement = checks.get(annotation, (True, ""))
    return None if is_valid else requirement


# Packages whose classes a config cannot give as a text, a list or a mapping.
_PACKAGES_OF_PARTS = ("rlcomp", "components", "torch", "torchrl", "tensordict", "transformers")


def _problem_part(kind: type, value: object) -> str | None:
    """Return the problem of plain data in the place of an object of a class; None without one."""
    is_part = kind.__module__.split(".")[0] in _PACKAGES_OF_PARTS
    plain_types = (bool, int, float, type(None), *((str, list, dict) if is_part else ()))
    if kind in (object, _Anything) or not isinstance(value, plain_types):
        return None
    if kind is Unbuilt:
        return "must be a _target_ with its arguments"
    return (
        f"must be a {kind.__name__}: choose an option by group/part=option, or refer to another "
        "node of the config by ${name}"
    )


class _Unchecked(type):
    """Metaclass of stand-ins for names that only type checkers import, with their attributes."""

    def __getattr__(cls, name: str) -> type:
        if name.startswith("_"):
            raise AttributeError(name)
        return cls

    def __getitem__(cls, _: object) -> type:
        return cls


class _Anything(metaclass=_Unchecked):
    """Stand-in for a type: ``Name``, ``Name.Part`` and ``Name[...]`` accept every value."""


@cache
def _parameters(cls: type) -> tuple[inspect.Signature, dict[str, Any]]:
    init = cls.__init__  # type: ignore[misc]
    stand_ins: dict[str, Any] = {}  # for names imported for type checkers only
    while True:
        try:
            hints = typing.get_type_hints(init, localns=stand_ins, include_extras=True)
        except NameError as error:
            stand_ins[str(error.name)] = _Anything
        else:
            return inspect.signature(init), hints


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def check_arguments(cls: type, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Validate constructor arguments against their annotations.

    Args:
        cls: the class.
        args: positional arguments, without ``self``.
        kwargs: arguments by name.

    Raises:
        ConfigError: an argument is unknown, missing, of the wrong type or out of range.
    """
    signature, hints = _parameters(cls)
    try:
        bound = signature.bind(None, *args, **kwargs)
    except TypeError as error:
        raise ConfigError(f"{cls.__name__}: {error}") from None
    _, *arguments = bound.arguments.items()  # without self, which torch annotates
    for name, value in arguments:
        # *args and **kwargs are annotated with the type of one element.
        if name not in hints or signature.parameters[name].kind in _VARIADIC:
            continue
        fault = problem(hints[name], value)
        if fault:
            raise ConfigError(f"{cls.__name__}: {name} is {value!r}: {fault}")


class Checked(type):
    """Metaclass that checks constructor arguments; copies of an instance are not checked."""

    def __call__(cls, *args: object, **kwargs: object) -> Any:  # noqa: ANN401
        """Check the arguments, and return a new instance."""
        check_arguments(cls, args, kwargs)
        return super().__call__(*args, **kwargs)


__all__ = [
    "VOCABULARY",
    "Checked",
    "Ge",
    "Gt",
    "Interval",
    "Le",
    "Lt",
    "MinLen",
    "check_arguments",
    "problem",
]
