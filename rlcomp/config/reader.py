"""Reading a config: an interpolation that dereferences to a node of the tree *is* that node.

A :class:`Reader` turns an OmegaConf tree into plain Python values. Each ``{_target_: ...}`` is one
:class:`Node`, shared by all references to it. Targets are not imported; ``rlcomp.config.build``
builds the objects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from omegaconf import Container, DictConfig, ListConfig
from omegaconf import Node as ConfigNode
from omegaconf.errors import InterpolationToMissingValueError, OmegaConfBaseException

from rlcomp.config.declarations import Declaration, declaration_of
from rlcomp.config.migrations import new_name
from rlcomp.config.options import recipes_with
from rlcomp.config.user_yaml import likely_target
from rlcomp.errors import as_dotted, nearest

ConfigPath = tuple[Any, ...]


@dataclass(eq=False)
class Node:
    """An object to build.

    Attributes:
        path: config path.
        target: dotted path of the class or function.
        arguments: resolved arguments.
        keys: names in the batch by the schema's key (``_keys_``).
        partial: the target is called later, by the part that gets it (``_partial_``).
    """

    path: str
    target: str
    arguments: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    partial: bool = False

    @property
    def declaration(self) -> Declaration:
        """The declaration of the target, read once; it has a ``fault`` if it cannot be read."""
        return declaration_of(self.target)


class BrokenValue:
    """Placeholder of an unreadable value; the reader has the error."""


BROKEN = BrokenValue()


def dotted(path: ConfigPath) -> str:
    """Return a config path as the command line writes it."""
    return ".".join(str(key) for key in path)


def address(node: ConfigNode) -> ConfigPath:
    """Return the path of a config node in its tree."""
    keys: list[Any] = []
    parent = node._get_parent()
    while parent is not None:
        keys.append(node._key())
        node, parent = parent, parent._get_parent()
    return tuple(reversed(keys))


def unset_variable(message: str) -> str | None:
    """Explain OmegaConf's message about a missing environment variable; None: another message."""
    match = re.search(r"Environment variable '(.+?)' not found", message)
    return match and (
        f"the environment variable {match[1]} is not set; set it, or give a default: "
        f"${{oc.env:{match[1]},DEFAULT}}"
    )


class Reader:
    """Reads each value of a config once; collects all mistakes.

    Attributes:
        errors: messages on the mistakes.
        wrapped: by path of a node, the place of the ``insert`` that put stages into the node.
        origins: path of the value of each reference to a value, or its expression, by path.
    """

    def __init__(self, config: DictConfig) -> None:
        self.config = config
        self.errors: list[str] = []
        self.wrapped: dict[str, str] = {}
        self.origins: dict[str, str] = {}
        self._read: dict[ConfigPath, Any] = {}
        self._open: list[ConfigPath] = []  # paths that are being read, to find circles
        self._nodes: dict[str, ConfigPath] = {}  # path of each node, by its dotted text

    def fail(self, message: str) -> BrokenValue:
        """Record a mistake, and return the placeholder of its value."""
        self.errors.append(message)
        return BROKEN

    def _at(self, path: ConfigPath) -> Any:  # noqa: ANN401
        """Return the config node at a path; None if there is none."""
        node: Any = self.config
        for key in path:
            if not isinstance(node, Container) or node._is_none() or node._is_missing():
                return None
            if isinstance(node, ListConfig) and not (isinstance(key, int) and key < len(node)):
                return None
            node = node._get_node(key)
        return node

    def named(self, name: str, where: str) -> Any:  # noqa: ANN401
        """Return the node that a list of stages names; BROKEN, and a mistake, if it names none."""
        path = tuple(name.split("."))
        if self._at(path) is None:
            known = [key for key in self.config if key != "phases"]
            new = new_name(name)
            hint = f"; it is now '{new}'" if new else nearest(name, map(str, known))
            if where.endswith(".every") and "did you mean" not in hint and not new:
                hint = f", which it names; leave it out there as well: '~{where}.{name}'"
            return self.fail(f"{where}: no node '{name}'{hint}")
        return self._part(self.value(path), repr(name), where)

    def _part(self, value: object, name: str, where: str) -> object:
        if isinstance(value, Node) and value.partial:
            return self.fail(f"{where}: {name} has _partial_: true, so it is no stage; delete that")
        if isinstance(value, Node) or value is BROKEN:
            return value
        if isinstance(value, dict) and (likely := likely_target(value)):
            return self.fail(
                f"{where}: {name} has {likely[0]!r}, which has to be _target_; write "
                f"_target_: {likely[1]}"
            )
        keys = value and isinstance(value, dict) and ", ".join(map(str, value))
        kind = f"has only {keys}" if keys else f"is {value!r}"
        return self.fail(
            f"{where}: {name} {kind}, no part with a _target_: name a node, or delete it"
        )

    def value(self, path: ConfigPath) -> Any:  # noqa: ANN401
        """Return the value at a path, read once."""
        if path in self._read:
            return self._read[path]
        if path in self._open:
            circle = [*self._open[self._open.index(path) :], path]
            return self.fail(f"circular: {' -> '.join(map(dotted, circle))}")
        self._open.append(path)
        try:
            result = self._value(path)
        finally:
            self._open.pop()
        self._read[path] = result
        return result

    def _value(self, path: ConfigPath) -> Any:  # noqa: ANN401
        node = self._at(path)
        if node is None:
            return self.fail(f"{dotted(path)}: not in the config")
        if node._is_missing():
            return self.fail(f"{dotted(path)} is missing (???): set it with {dotted(path)}=...")
        if node._is_interpolation():
            return self._reference(node, path)
        if node._is_none():
            return None
        if isinstance(node, ListConfig):
            return [self._item(path, index) for index in range(len(node))]
        if isinstance(node, DictConfig):
            return self._mapping(node, path)
        return node._value()

    def _item(self, path: ConfigPath, index: int) -> Any:  # noqa: ANN401
        item = self.value((*path, index))
        if path[-1] not in ("stages", "on_begin"):
            return item
        where = f"{dotted(path)}[{index}]"
        return self.named(item, where) if isinstance(item, str) else self._part(item, "it", where)

    def _reference(self, node: ConfigNode, path: ConfigPath) -> Any:  # noqa: ANN401
        try:
            target = node._dereference_node()
        except InterpolationToMissingValueError:
            return BROKEN  # the ??? itself is reported
        except OmegaConfBaseException as error:
            target_path = tuple(str(node._value()).removeprefix("${").removesuffix("}").split("."))
            if target_path != path and self._is_itself(target_path):
                return self.value(target_path)  # reported there
            return self.fail(self._explain(node, path, error))
        if not isinstance(target, ConfigNode):
            return target
        where = address(target)
        if where and where != path and self._at(where) is target:
            self._record_origin(node, path, where)
            return self.value(where)
        if isinstance(target, Container):
            return self.fail(
                f"{dotted(path)}: {node._value()} is a resolver that returns a part of the config, "
                "which would be a silent copy; write ${name}"
            )
        self._record_origin(node, path, path)
        return target._value()

    def _record_origin(self, node: ConfigNode, path: ConfigPath, where: ConfigPath) -> None:
        """Record the path that a reference names, or its text if it is computed."""
        text = str(node._value())
        plain = re.fullmatch(r"\$\{([\w.]+)\}", text)
        target = tuple(plain[1].split(".")) if plain else ()
        exists = plain and target != path and self._at(target) is not None
        following = target if exists else where
        if following == path:
            self.origins[dotted(path)] = text
        elif not isinstance(self.value(following), Node):
            self.origins[dotted(path)] = dotted(following)

    def _is_itself(self, path: ConfigPath) -> bool:
        """Return whether a value is a reference to its own path.

        An option may share a part of another node, ``optimizer: ${learner.optimizer}``. If it is
        chosen for that node, ``learner``, the value refers to itself.
        """
        node = self._at(path) if len(path) > 1 else None
        return isinstance(node, ConfigNode) and node._value() == f"${{{dotted(path)}}}"

    def _explain(self, node: ConfigNode, path: ConfigPath, error: Exception) -> str:
        text, top = str(node._value()), path[0]
        if self._is_itself(path):
            return (
                f"{dotted(path)} is {text}, itself: the option chosen as {top} is meant to stand "
                f"beside another {top}, whose {dotted(path[1:])} it shares; choose another {top}="
                f"..., and add this one by a name of its own, such as +{top}@learner.losses.x=..."
            )
        name = text.removeprefix("${").removesuffix("}").split(".")[0]
        if unset := unset_variable(str(error)):
            return f"{dotted(path)} is {text}: {unset}"
        if text.startswith("${") and name.isidentifier() and name not in self.config:
            part = self._at(path[:1])
            target = str(part._get_node("_target_")) if isinstance(part, DictConfig) else ""
            if recipes := recipes_with(name, str(path[0]), target):
                return f"{dotted(path)}: no node '{name}': recipe={recipes[0]} has one"
            return f"{dotted(path)}: no node '{name}'{nearest(name, map(str, self.config))}"
        first = str(error).splitlines()[0]
        if "parent node" in first or "Recursive" in first:
            through = "" if name == dotted(path) else f" -> {name}"
            reason = f"circular: {dotted(path)}{through} -> {dotted(path)}"
            if dotted(path).startswith(f"{name}."):
                reason += f": it holds itself; is its option for another node, {name}@NODE=OPTION?"
            return reason
        return f"{dotted(path)} is {text}: {first}"

    def _mapping(self, node: DictConfig, path: ConfigPath) -> Any:  # noqa: ANN401
        keys = list(node._content)  # type: ignore[arg-type]
        if "_target_" not in keys:
            return {key: self.value((*path, key)) for key in keys}
        for key in keys:
            if str(key).startswith("_") and key not in {"_target_", "_partial_", "_keys_"}:
                remedy = "only _target_, _partial_ and _keys_ are understood; delete it"
                self.fail(f"{dotted((*path, key))} is {node._get_node(key)}: {remedy}")
        where = dotted(path)
        if self._nodes.setdefault(where, path) != path:
            # {"a.b": ...} beside {a: {b: ...}}: a path must be unique.
            return self.fail(f"{where} is the path of two nodes: a key must have no dot in it")
        target = self.value((*path, "_target_"))
        if not isinstance(target, str) or "." not in target:
            return self.fail(f"{dotted(path)}._target_ is {target!r}: must be package.module.Name")
        if dotted_target := as_dotted(target):
            return self.fail(
                f"{dotted(path)}._target_ is {target!r}: must be a dotted path; set "
                f"{dotted(path)}._target_={dotted_target}"
            )
        return Node(
            path=dotted(path),
            target=target,
            arguments={
                str(key): self.value((*path, key)) for key in keys if not str(key).startswith("_")
            },
            keys=self._keys(path) if "_keys_" in keys else {},
            partial=self._partial(path) if "_partial_" in keys else False,
        )

    def _keys(self, path: ConfigPath) -> dict[str, str]:
        """Return the new name of each key; record a mistake for what is no name, and omit it."""
        names, where = self.value((*path, "_keys_")), dotted((*path, "_keys_"))
        if names is BROKEN:
            return {}
        if not isinstance(names, dict):
            self.fail(f"{where} is {names!r}: must be a mapping of keys")
            return {}
        for key, name in names.items():
            if not isinstance(name, str) or not name:
                self.fail(f"{where}.{key} is {name!r}: must be the name of a key")
        return {str(key): name for key, name in names.items() if isinstance(name, str) and name}

    def _partial(self, path: ConfigPath) -> bool:
        value = self.value((*path, "_partial_"))
        if value is not BROKEN and not isinstance(value, bool):
            self.fail(f"{dotted(path)}._partial_ is {value!r}: must be true or false")
        return value is True
