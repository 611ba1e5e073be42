"""Construction of the objects of a plan: each node once, children first, seeded by its path."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import traceback
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hydra
import torch
from hydra.errors import HydraException, InstantiationException
from hydra.utils import instantiate

from rlcomp.arguments import Unbuilt
from rlcomp.component import Component
from rlcomp.config.plan import Plan, below, children
from rlcomp.config.reader import Node
from rlcomp.errors import ConfigError, RlcompError, refuse_exit
from rlcomp.seed import seeded


class Builder:
    """Builds the nodes of a plan, each once.

    Args:
        plan: a checked plan.
        seed: the run's seed.
    """

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan = plan
        self.seed = seed
        self.built: dict[str, object] = {}

    def without_models(self) -> dict[str, object]:
        """Build the nodes that need no model, and return all objects so far, by path.

        These are cheap checks before expensive construction.
        """
        for node in self._built_nodes():
            if not builds_model(node):
                self.build(node)
        return self.built

    def all(self) -> dict[str, object]:
        """Build every node, models last, and return the objects by path."""
        self.without_models()
        for node in self._built_nodes():
            self.build(node)
        return self.built

    def _built_nodes(self) -> list[Node]:
        """Return the nodes that are built here, without those passed as descriptions."""
        nodes = self.plan.nodes.values()
        described = [
            each for n in nodes for name in n.arguments for each in _unbuilt_nodes(n, name)
        ]
        within = {inner.path for node in described for inner in (node, *below(node))}
        return [node for node in nodes if node.path not in within]

    def build(self, node: Node) -> object:
        """Build one node, or return its object.

        Raises:
            ConfigError: the constructor refused its arguments; the message names the node.
        """
        if node.path not in self.built:
            self.built[node.path] = make(node, self._arguments(node), self.seed)
        return self.built[node.path]

    def _arguments(self, node: Node) -> dict[str, Any]:
        return {name: self._argument(node, name) for name in node.arguments}

    def _argument(self, node: Node, name: str) -> Any:  # noqa: ANN401
        value = node.arguments[name]
        unbuilt = [
            Unbuilt(each.target, self._arguments(each)) for each in _unbuilt_nodes(node, name)
        ]
        if not unbuilt:
            return self.value(value)
        return dict(zip(value, unbuilt, strict=True)) if isinstance(value, dict) else unbuilt[0]

    def value(self, value: Any) -> Any:  # noqa: ANN401
        """Return a value in which nodes are objects; containers stay plain Python."""
        if isinstance(value, Node):
            return self.build(value)
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return value


def _unbuilt_nodes(node: Node, name: str) -> list[Node]:
    """Return the nodes of an argument that are passed as descriptions, not as objects."""
    value = node.arguments[name]
    parameter = isinstance(value, (Node, dict)) and node.declaration.parameters.get(name)
    if not parameter:
        return []
    kinds = typing.get_args(parameter.annotation)
    if Unbuilt in kinds and isinstance(value, Node):
        return [] if value.partial else [value]
    # A mapping, perhaps optional: dict[str, ... | Unbuilt] | None.
    types = (parameter.annotation, *kinds)
    mapping = next((kind for kind in types if typing.get_origin(kind) is dict), None)
    if not isinstance(value, dict) or mapping is None:
        return []
    entry = typing.get_args(mapping)[1]
    if Unbuilt not in (entry, *typing.get_args(entry)):
        return []
    nodes = [each for each in value.values() if isinstance(each, Node) and not each.partial]
    return nodes if len(nodes) == len(value) else []


# Return types of factories of models.
_MODELS = ("PreTrainedModel", "PeftModel", "Module")


def builds_model(node: Node) -> bool:
    """Return whether a node or one of its parts builds a model, by the return annotations."""
    return_type = node.declaration.returns.rpartition(".")[2].strip("\"'")
    return return_type in _MODELS or any(builds_model(child) for child in children(node))


# Errors of third-party constructors about their arguments.
_REFUSALS = (TypeError, ValueError, IndexError, AssertionError)


def make(node: Node, arguments: dict[str, Any], seed: int) -> object:
    """Call a node's target with finished Python arguments, and return the result.

    For a ``_partial_`` node, return a function that calls the target later.
    Hydra only looks the target up, with its errors and its block-list; it would turn arguments
    into configs.
    """
    try:
        with refuse_exit(f"{node.path}._target_ is {node.target}: importing it"):
            target = instantiate({"_target_": node.target, "_partial_": True})
    except (HydraException, InstantiationException) as error:
        raise ConfigError(f"{node.path}._target_ is {node.target}: {_cause(error)}") from error
    if node.partial:
        deferred = _defer(node, functools.partial(target, **arguments))
        # A trial on one parameter shows mistakes in the arguments before a model is built.
        if node.target.startswith("torch.optim."):
            deferred([torch.zeros(1)])
        return deferred
    try:
        with seeded(seed, node.path), refuse_exit(f"{node.path}: {node.target}"):
            part = target(**arguments)
    except RlcompError as error:
        error.args = (with_paths(str(error), node),)
        raise
    except _REFUSALS as error:
        raise refusal(node, error) from error
    if node.keys and isinstance(part, Component):
        part.set_keys(**node.keys)
    return part


# Arguments of several parts, which are set at the root.
_SHARED = ("context_length", "max_new_tokens", "group_size")


def with_paths(message: str, node: Node) -> str:
    """Return a constructor's message with the config paths of the node and of its settings.

    Examples:
        >>> with_paths("it is too large; set size=3", Node("a.b", "mine.B", {"size": 9}))
        'a.b: it is too large; set a.b.size=3'
        >>> with_paths("decoding.temperature is 0", Node("learner", "mine.L"))
        'decoding.temperature is 0'
    """
    own = "|".join(re.escape(name) for name in node.arguments if name not in _SHARED)
    message = re.sub(rf"\bset ({own})=", rf"set {node.path}.\1=", message) if own else message
    if re.match(r"decoding\.\w+ is ", message):  # the path of another part's setting
        return message
    has_path = message.startswith((f"{node.path}:", f"{node.path}."))
    return message if has_path else f"{node.path}: {message}"


def _cause(error: BaseException) -> str:
    """Return the cause of a failed lookup: its kind, its message and its line."""
    message = str(error)
    while error.__cause__ is not None:
        error = error.__cause__
        message = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        return message  # names file and line itself
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_internal(f.filename)]
    return f"{message} ({frames[-1].filename}, line {frames[-1].lineno})" if frames else message


def _is_internal(file: str) -> bool:
    """Return whether a file belongs to the import machinery, Hydra or rlcomp."""
    rlcomp = Path(__file__).parents[1]
    folders = {Path(hydra.__file__).parent, Path(importlib.__file__).parent, rlcomp}
    return file.startswith("<frozen") or not folders.isdisjoint(Path(file).parents)


def _defer(node: Node, target: functools.partial[object]) -> Callable[..., object]:
    """Return the target of a ``_partial_`` node; errors of a constructor name the node.

    An error in a function is no mistake of the config.
    """
    called: object = target  # a partial of Hydra's own partial
    while isinstance(called, functools.partial):
        called = called.func
    if not inspect.isclass(called):
        return target

    @functools.wraps(target)  # its signature is the target's
    def call(*positional: object, **arguments: object) -> object:
        try:
            return target(*positional, **arguments)
        except _REFUSALS as error:
            raise refusal(node, error) from error

    return call


def refusal(node: Node, error: Exception) -> ConfigError:
    """Return the error of a third-party constructor, with the arguments of the call."""
    plain = {
        k: v for k, v in node.arguments.items() if isinstance(v, (bool, int, float, str, list))
    }
    settings = ", ".join(f"{node.path}.{name}={value!r}" for name, value in plain.items())
    remedy = f"; change one of {settings}" if settings else ""
    return ConfigError(f"{node.path} ({node.target}): {error}{remedy}")


class Make:
    """Builds named parts in Python: ``make("policy", LanguageModel, model=model, ...)``.

    The name is the config path of the node: it seeds the construction, so that the numbers are
    those of the config, and names the node in checkpoints, timings and errors.

    Args:
        seed: the run's seed.

    Examples:
        >>> from rlcomp.run.stages import Nothing
        >>> make = Make(seed=0)
        >>> nothing = make("kl", Nothing)
        >>> list(make.nodes)
        ['kl']
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.nodes: dict[str, object] = {}

    def __call__(self, path: str, target: Any, **arguments: Any) -> Any:  # noqa: ANN401
        """Build one named node.

        Raises:
            ConfigError: the name is taken.
        """
        if path in self.nodes:
            raise ConfigError(f"there is already a node '{path}': give this one another name")
        with seeded(self.seed, path):
            self.nodes[path] = target(**arguments)
        return self.nodes[path]
