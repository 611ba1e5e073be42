"""Declarations of a ``_target_``, parsed from its source: not imported, so no torch.

A class's constructor is its schema; ``reads``, ``writes`` and the other declarations of
:class:`rlcomp.component.Component` are literals, which may quote those of another class. A target
whose source cannot be followed (a C type, a lazily exported name) is *opaque*: it is looked at once
it is built.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rlcomp.arguments import VOCABULARY
from rlcomp.errors import ConfigError
from rlcomp.keys import OwnKey, check_key, declare_keys
from rlcomp.wiring.literal import assigned, literal
from rlcomp.wiring.source import alias, find, lineage

_DECLARED = (
    "reads",
    "writes",
    "optional",
    "may_write",
    "step_keys",
    "keys",
    "must_reach",
    "fresh",
    "keeps_prompt",
    "runs",
    "contained",
    "supplies",
    "min_group_size",
    "exclusive",
    "equation",
)


@dataclass(frozen=True)
class Parameter:
    """One argument of a constructor."""

    annotation: Any
    required: bool


@dataclass(frozen=True)
class Declaration:
    """The declaration of a target, known before it is built."""

    target: str
    parameters: dict[str, Parameter] = field(default_factory=dict)
    open_ended: bool = False
    opaque: bool = True
    doc: str = ""
    extras: tuple[tuple[str, str], ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    may_write: tuple[str, ...] = ()
    step_keys: tuple[str, ...] = ()
    keys: dict[str, OwnKey] = field(default_factory=dict)
    must_reach: tuple[str, ...] = ()
    fresh: bool = False
    keeps_prompt: bool = False
    runs: tuple[str, ...] = ()
    contained: bool = False
    supplies: tuple[str, ...] = ()
    min_group_size: int = 1
    exclusive: str = ""
    equation: str = ""
    returns: str = ""

    @property
    def name(self) -> str:
        """The class's or function's own name."""
        return self.target.rpartition(".")[2]


@cache
def declare(target: str) -> Declaration:
    """The declaration of a dotted target.

    Raises:
        ConfigError: there is no such module, or it has no such name, or the class declares a key
            that is unknown or contradicts another's.
    """
    module, _, name = target.rpartition(".")
    found = find(module, name)
    if found is None:
        return Declaration(target, open_ended=True)
    home, definition = found
    doc = ast.get_docstring(definition) or ""
    if isinstance(definition, ast.FunctionDef):
        parameters, open_ended = _parameters(home, definition, skip=0)
        returns = "" if definition.returns is None else ast.unparse(definition.returns)
        extras = _extras(definition)
        return Declaration(target, parameters, open_ended, True, doc, extras, returns=returns)
    classes = list(lineage(home, definition))
    parameters, open_ended = _constructor(classes)
    component = any((home, cls.name) == ("rlcomp.component", "Component") for home, cls in classes)
    declared = _declared(classes) if component else _unchecked(classes)
    extras = _extras(definition)
    return Declaration(target, parameters, open_ended, not component, doc, extras, **declared)


def _unchecked(classes: list[tuple[str, ast.ClassDef]]) -> dict[str, Any]:
    """What a class that may be no component says under the names of declarations."""
    found = [_literals(home, cls) for home, cls in reversed(classes)]
    return {name: value for each in found for name, value in each if name != "keys"}


def _declared(classes: list[tuple[str, ast.ClassDef]]) -> dict[str, Any]:
    """What a component and its bases declare; own keys are added up, and made known."""
    declared: dict[str, Any] = {}
    keys: dict[str, OwnKey] = {}
    for home, cls in reversed(classes):
        declared |= dict(_literals(home, cls))
        own = declared.pop("keys", {})
        declare_keys(f"{home}.{cls.name}", own)
        keys |= own
    for name in ("reads", "writes", "optional", "may_write", "supplies", "step_keys"):
        for key in declared.get(name, ()):
            check_key(classes[0][1].name, key, keys)
    return declared | {"keys": keys}


def _extras(definition: ast.AST) -> tuple[tuple[str, str], ...]:
    """The optional modules a definition asks for by ``require("module", "extra")``."""
    asked = [
        tuple(word.value for word in call.args if isinstance(word, ast.Constant))
        for call in ast.walk(definition)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "require"
    ]
    return tuple((str(words[0]), str(words[1])) for words in asked if len(words) == 2)


def _literals(home: str, cls: ast.ClassDef) -> Iterator[tuple[str, Any]]:
    for name, value in assigned(cls):
        if name in _DECLARED:
            try:
                yield name, literal(home, value)
            except ValueError:
                raise ConfigError(
                    f"{cls.name}.{name} is not a literal: write it out, it is read from source"
                ) from None


def _constructor(classes: list[tuple[str, ast.ClassDef]]) -> tuple[dict[str, Parameter], bool]:
    for home, cls in classes:
        for line in cls.body:
            if isinstance(line, ast.FunctionDef) and line.name == "__init__":
                return _parameters(home, line, skip=1)
        if any("dataclass" in ast.dump(mark) for mark in cls.decorator_list):
            return _fields(home, cls), False
    unfollowed = classes[-1][1].bases or classes[-1][1].keywords
    return {}, bool(unfollowed)


def _fields(home: str, cls: ast.ClassDef) -> dict[str, Parameter]:
    return {
        line.target.id: Parameter(_annotation(home, line.annotation), line.value is None)
        for line in cls.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    }


def _parameters(
    home: str, function: ast.FunctionDef, skip: int
) -> tuple[dict[str, Parameter], bool]:
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    free = len(plain) - len(arguments.defaults)
    found = {
        argument.arg: Parameter(_annotation(home, argument.annotation), place < free)
        for place, argument in enumerate(plain)
        if place >= skip
    }
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found[argument.arg] = Parameter(_annotation(home, argument.annotation), default is None)
    return found, arguments.kwarg is not None


class _Names(Mapping[str, Any]):
    """The vocabulary of annotations, and a module's aliases of it; any other name is anything."""

    def __init__(self, home: str) -> None:
        self.home = home

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        if name in VOCABULARY:
            return VOCABULARY[name]
        found = alias(self.home, name)
        return Any if found is None else _annotation(*found)

    def __iter__(self) -> Iterator[str]:
        return iter(VOCABULARY)

    def __len__(self) -> int:
        return len(VOCABULARY)


def _annotation(home: str, node: ast.expr | None) -> Any:  # noqa: ANN401
    if node is None:
        return Any
    code = compile(ast.Expression(node), "<annotation>", "eval")
    try:
        value = eval(code, {"__builtins__": {}}, _Names(home))
    except (TypeError, AttributeError):
        return Any
    return Any if isinstance(value, str) else value
