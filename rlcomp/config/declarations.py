"""Declarations of a ``_target_``, parsed from its source without importing it, nor torch.

The constructor of a class is its schema; ``reads``, ``writes`` and the other declarations of
:class:`rlcomp.component.Component` are literals, which may refer to those of another class. A
target whose source cannot be followed (a C type, a lazily exported name) is *opaque*: its keys are
checked once it is built.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any

from rlcomp.config.bases import Class, has_unseen_base, lineage
from rlcomp.config.expressions import assigned_values, read_annotation, read_literal
from rlcomp.config.source import bindings, find
from rlcomp.errors import ConfigError
from rlcomp.key_declarations import DECLARATION_TYPES, check_declared, check_key, declare_keys
from rlcomp.keys import OwnKey, prompt_keys

# Keys that a loss adds to the input of its forward (:meth:`rlcomp.interfaces.loss.Loss.weighted`).
_LOSS_KEYS = ("loss_weight", "row_weight")
# Class attributes that list keys.
_KEYS = ("reads", "writes", "optional", "may_write", "supplies", "step_keys")


@dataclass(frozen=True)
class Parameter:
    """An argument of a constructor."""

    annotation: Any
    required: bool


@dataclass(frozen=True)
class Declaration:
    """The declaration of a target, known before the target is built.

    Attributes not listed here are declarations of :class:`rlcomp.component.Component`, and
    ``step_keys`` of :class:`rlcomp.interfaces.loss.Loss`.

    Attributes:
        target: dotted path of the class or function.
        parameters: arguments by name, without ``self``.
        open_ended: it takes further arguments, or its source cannot be followed.
        opaque: its keys are unknown before it is built.
        doc: docstring.
        extras: (module, extra) of each optional dependency that it requires.
        returns: return annotation of a function.
        runnable: False for a component without ``forward``, which is no stage.
        begins: it has a method ``begin_phase``; True if its source cannot be followed.
        undeclared: keys that its ``forward`` reads without a declaration.
        function: it is a function.
        fault: message of a target whose source cannot be read; empty for all others.
    """

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
    writes_if: dict[str, tuple[str, ...]] = field(default_factory=dict)
    step_keys: tuple[str, ...] = ()
    keys: dict[str, OwnKey] = field(default_factory=dict)
    must_reach: tuple[str, ...] = ()
    fresh: bool = False
    keeps_prompt: bool = False
    runs: tuple[str, ...] = ()
    contained: bool = False
    supplies: tuple[str, ...] = ()
    min_group_size: int = 1
    min_group_size_from: str = ""
    drops_rows: bool = False
    watches: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    exclusive: str = ""
    exclusive_if: str = ""
    equation: str = ""
    returns: str = ""
    runnable: bool = True
    begins: bool = True
    undeclared: tuple[str, ...] = ()
    function: bool = False
    fault: str = ""

    @property
    def name(self) -> str:
        """The name of the class or function."""
        return self.target.rpartition(".")[2]

    def written(self, arguments: Mapping[str, object]) -> tuple[str, ...]:
        """Return the keys that a component with these arguments always writes."""
        conditional = [keys for name, keys in self.writes_if.items() if arguments.get(name) is True]
        return (*self.writes, *chain(*conditional))


@cache
def read_declaration(target: str) -> Declaration:
    """Return the declaration of a dotted target.

    Raises:
        ConfigError: there is no such module or name; its source cannot be read; or the class
            declares an unknown key, or one that contradicts another class.
    """
    try:
        return _read_declaration(target)
    except RecursionError:
        raise ConfigError(f"'{target}' cannot be read: too deeply nested") from None


def declaration_of(target: str) -> Declaration:
    """Return the declaration of a dotted target; an opaque one with a ``fault`` if it has none."""
    try:
        return read_declaration(target)
    except ConfigError as error:
        return Declaration(target, fault=str(error))


def _read_declaration(target: str) -> Declaration:
    module, _, name = target.rpartition(".")
    binding = find(module, name)
    if binding is None:
        return Declaration(target, open_ended=True)
    home, definition = binding
    doc = ast.get_docstring(definition) or ""
    if isinstance(definition, ast.FunctionDef):
        parameters, open_ended = _parameters(home, definition, skip=0)
        returns = "" if definition.returns is None else ast.unparse(definition.returns)
        extras = _extras(definition)
        return Declaration(
            target, parameters, open_ended, True, doc, extras, returns=returns, function=True
        )
    classes = lineage(home, definition)
    parameters, open_ended = _constructor(classes)
    names = [(home, cls.name) for home, cls in classes]
    component = ("rlcomp.component", "Component") in names
    own_classes = classes[: names.index(("rlcomp.component", "Component"))] if component else ()
    declared = (_read_declarations if component else _read_valid_declarations)(classes)
    extras = _extras(definition)
    # A component that defines no ``forward`` is a part of others, no stage.
    declared["runnable"] = not component or any(
        has_unseen_base(*cls) or _binds(cls, "forward") for cls in own_classes
    )
    if component:
        known = {key for name in _KEYS for key in declared.get(name, ())} | {*declared["keys"]}
        known |= {*chain(*declared.get("writes_if", {}).values())}
        prompt = prompt_keys() if declared.get("keeps_prompt") else frozenset()
        reads = forward_reads(own_classes)
        declared["undeclared"] = tuple(key for key in reads if key not in known | prompt)
    declared["begins"] = any(_binds(cls, "begin_phase") for cls in classes)
    return Declaration(target, parameters, open_ended, not component, doc, extras, **declared)


def _read_valid_declarations(classes: tuple[Class, ...]) -> dict[str, Any]:
    """Return the declarations of a class that is no component, except ``keys`` and invalid ones."""
    declared: dict[str, Any] = {}
    for home, cls in reversed(classes):
        for name in _declared_names(cls):
            with contextlib.suppress(ConfigError):
                declared[name] = _declared_value(home, cls, name)
    return {name: value for name, value in declared.items() if name != "keys"}


def _read_declarations(classes: tuple[Class, ...]) -> dict[str, Any]:
    """Return the declarations of a component and its bases; register the keys that they declare."""
    declared: dict[str, Any] = {}
    keys: dict[str, OwnKey] = {}
    for home, cls in reversed(classes):
        declared |= {name: _declared_value(home, cls, name) for name in _declared_names(cls)}
        class_keys = declared.pop("keys", {})
        declare_keys(f"{home}.{cls.name}", class_keys)
        keys |= class_keys
    listed = [*(declared.get(name, ()) for name in _KEYS), *declared.get("writes_if", {}).values()]
    for key in chain(*listed):
        check_key(classes[0][1].name, key, keys)
    return declared | {"keys": keys}


def _binds(cls: Class, name: str) -> bool:
    """Return whether a class body binds a name."""
    return any(name in dict(bindings(line)) for line in cls[1].body)


def forward_reads(classes: Sequence[Class]) -> tuple[str, ...]:
    """Return the keys that the first ``forward`` of a lineage reads as ``batch["key"]``.

    The keys that every loss gets (``_LOSS_KEYS``) are left out.

    Args:
        classes: a component's lineage, without ``Component`` itself.
    """
    lines = (line for _, cls in classes for line in cls.body)
    for line in lines:
        if isinstance(line, ast.FunctionDef) and line.name == "forward":
            return tuple(key for key in dict.fromkeys(_batch_keys(line)) if key not in _LOSS_KEYS)
    return ()


def _batch_keys(forward: ast.FunctionDef) -> Iterator[str]:
    arguments = [argument.arg for argument in forward.args.args[1:2]]
    for node in ast.walk(forward):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Load)
            and isinstance(node.value, ast.Name)
            and node.value.id in arguments
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
        ):
            yield node.slice.value


def _extras(definition: ast.AST) -> tuple[tuple[str, str], ...]:
    """Return the optional modules that a definition calls ``require("module", "extra")`` for."""
    modules = [
        tuple(word.value for word in call.args if isinstance(word, ast.Constant))
        for call in ast.walk(definition)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "require"
    ]
    return tuple((str(words[0]), str(words[1])) for words in modules if len(words) == 2)


def _declared_names(cls: ast.ClassDef) -> list[str]:
    """Return the names of the declarations in a class body."""
    return [name for name in assigned_values(cls) if name in DECLARATION_TYPES]


def _declared_value(home: str, cls: ast.ClassDef, name: str) -> Any:  # noqa: ANN401
    """Return the value that a class body declares under a name."""
    node = assigned_values(cls)[name]
    try:
        value = read_literal(home, node)
    except ValueError:
        raise ConfigError(
            f"{cls.name}.{name} is not a literal: write it out, it is read from source"
        ) from None
    except TypeError:
        text = "" if node is None else " ".join(ast.unparse(node).split())
        raise ConfigError(
            f"{cls.name}.{name} is {text:.200}: must be {DECLARATION_TYPES[name]}"
        ) from None
    check_declared(cls.name, name, value)
    return value


# The arguments of the nearest constructor or dataclass, and whether there may be further ones.
def _constructor(classes: tuple[Class, ...]) -> tuple[dict[str, Parameter], bool]:
    for home, cls in classes:
        for line in reversed(cls.body):
            if isinstance(line, ast.FunctionDef) and line.name == "__init__":
                return _parameters(home, line, skip=1)
        if any("dataclass" in ast.dump(mark) for mark in cls.decorator_list):
            return _fields(home, cls), False
    return {}, bool(classes[-1][1].bases or classes[-1][1].keywords)


def _fields(home: str, cls: ast.ClassDef) -> dict[str, Parameter]:
    return {
        line.target.id: Parameter(read_annotation(home, line.annotation), line.value is None)
        for line in cls.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    }


def _parameters(
    home: str, function: ast.FunctionDef, skip: int
) -> tuple[dict[str, Parameter], bool]:
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    free = len(plain) - len(arguments.defaults)
    parameters = {
        argument.arg: Parameter(read_annotation(home, argument.annotation), index < free)
        for index, argument in enumerate(plain)
        if index >= skip
    }
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parameters[argument.arg] = Parameter(
            read_annotation(home, argument.annotation), default is None
        )
    return parameters, arguments.kwarg is not None
