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
        plan: what :func:`rlcomp.config.plan.read` returned, already checked.
        seed: the run's seed.
    """

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan = plan
        self.seed = seed
        self.built: dict[str, object] = {}

    def without_models(self) -> dict[str, object]:
        """Build the nodes that need no model: cheap checks before expensive construction."""
        for node in self._own():
            if not builds_model(node):
                self.build(node)
        return self.built

    def all(self) -> dict[str, object]:
        """Build every node, models last."""
        self.without_models()
        for node in self._own():
            self.build(node)
        return self.built

    def _own(self) -> list[Node]:
        """Return the nodes that are built here, without those handed over as descriptions."""
        nodes = self.plan.nodes.values()
        handed = [each for n in nodes for name in n.arguments for each in _handed_over(n, name)]
        within = {inner.path for node in handed for inner in (node, *below(node))}
        return [node for node in nodes if node.path not in within]

    def build(self, node: Node) -> object:
        """Build one node, or return its object.

        Raises:
            ConfigError: the constructor refused its arguments; names the node.
        """
        if node.path not in self.built:
            self.built[node.path] = make(node, self._arguments(node), self.seed)
        return self.built[node.path]

    def _arguments(self, node: Node) -> dict[str, Any]:
        return {name: self._argument(node, name) for name in node.arguments}

    def _argument(self, node: Node, name: str) -> Any:  # noqa: ANN401
        """Return a finished argument; nodes that are handed over as they stand are described."""
        value = node.arguments[name]
        handed = [Unbuilt(each.target, self._arguments(each)) for each in _handed_over(node, name)]
        if not handed:
            return self.value(value)
        return dict(zip(value, handed, strict=True)) if isinstance(value, dict) else handed[0]

    def value(self, value: Any) -> Any:  # noqa: ANN401
        """Return a finished argument: nodes become objects, containers stay plain Python."""
        if isinstance(value, Node):
            return self.build(value)
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return value


def _handed_over(node: Node, name: str) -> list[Node]:
    """Return the nodes of an argument that are handed over as descriptions, not as objects."""
    value = node.arguments[name]
    known = isinstance(value, (Node, dict)) and node.declaration.parameters.get(name)
    if not known:
        return []
    kinds = typing.get_args(known.annotation)
    if Unbuilt in kinds and isinstance(value, Node):
        return [] if value.partial else [value]
    # By name, perhaps optional: dict[str, ... | Unbuilt] | None.
    named = next(
        (one for one in (known.annotation, *kinds) if typing.get_origin(one) is dict), None
    )
    if not isinstance(value, dict) or named is None:
        return []
    each_is = typing.get_args(named)[1]
    if Unbuilt not in (each_is, *typing.get_args(each_is)):
        return []
    nodes = [each for each in value.values() if isinstance(each, Node) and not each.partial]
    return nodes if len(nodes) == len(value) else []


# A factory says so by the type it is annotated to return.
_MODELS = ("PreTrainedModel", "PeftModel", "Module")


def builds_model(node: Node) -> bool:
    """Return whether a node or an argument of it builds a model, by the return annotations."""
    returned = node.declaration.returns.rpartition(".")[2].strip("\"'")
    return returned in _MODELS or any(builds_model(child) for child in children(node))


# What constructors of other people's say of an argument they cannot use.
_REFUSALS = (TypeError, ValueError, IndexError, AssertionError)


def make(node: Node, arguments: dict[str, Any], seed: int) -> object:
    """Call a node's target with finished Python arguments.

    Hydra looks the bare target up (its errors, its block-list); the arguments are passed in the
    call, so that they never turn into configs.
    """
    try:
        with refuse_exit(f"{node.path}._target_ is {node.target}: importing it"):
            target = instantiate({"_target_": node.target, "_partial_": True})
    except (HydraException, InstantiationException) as error:
        raise ConfigError(f"{node.path}._target_ is {node.target}: {_cause(error)}") from error
    if node.partial:
        deferred = _deferred(node, functools.partial(target, **arguments))
        if node.target.startswith("torch.optim."):  # its mistakes, before a model is built
            deferred([torch.zeros(1)])
        return deferred
    try:
        with seeded(seed, node.path), refuse_exit(f"{node.path}: {node.target}"):
            part = target(**arguments)
    except RlcompError as error:
        error.args = (placed(str(error), node),)
        raise
    except _REFUSALS as error:
        raise refused(node, error) from error
    if node.keys and isinstance(part, Component):
        part.set_keys(**node.keys)
    return part


# What several parts are given stands at the root.
_SHARED = ("context_length", "max_new_tokens", "group_size")


def placed(told: str, node: Node) -> str:
    """Return a constructor's message with its place: the paths of the node and the setting.

    Examples:
        >>> placed("it is too large; set size=3", Node("a.b", "mine.B", {"size": 9}))
        'a.b: it is too large; set a.b.size=3'
        >>> placed("decoding.temperature is 0", Node("learner", "mine.L"))
        'decoding.temperature is 0'
    """
    own = "|".join(re.escape(name) for name in node.arguments if name not in _SHARED)
    told = re.sub(rf"\bset ({own})=", rf"set {node.path}.\1=", told) if own else told
    elsewhere = re.match(r"decoding\.\w+ is ", told)  # of the part that holds the setting
    here = elsewhere or told.startswith((f"{node.path}:", f"{node.path}."))
    return told if here else f"{node.path}: {told}"


def _cause(error: BaseException) -> str:
    """Return the cause of a failed lookup: its kind, its message and its line."""
    message = str(error)
    while error.__cause__ is not None:
        error = error.__cause__
        message = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        return message  # names file and line itself
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _of_lookup(f.filename)]
    return f"{message} ({frames[-1].filename}, line {frames[-1].lineno})" if frames else message


def _of_lookup(file: str) -> bool:
    """Return whether a file belongs to the machinery of imports, or to the checks of classes."""
    places = (
        Path(hydra.__file__).parent,
        Path(__file__).parents[1],
        Path(importlib.__file__).parent,
    )
    return file.startswith("<frozen") or any(place in Path(file).parents for place in places)


def _deferred(node: Node, target: functools.partial[object]) -> Callable[..., object]:
    """Return the target of a ``_partial_`` node, whose mistakes name the node when it is called.

    Those of a constructor, that is: what goes wrong in a function is no mistake of the config.
    """
    called: object = target  # a partial of Hydra's own partial
    while isinstance(called, functools.partial):
        called = called.func
    if not inspect.isclass(called):
        return target

    @functools.wraps(target)  # its signature is the target's
    def call(*given: object, **arguments: object) -> object:
        try:
            return target(*given, **arguments)
        except _REFUSALS as error:
            raise refused(node, error) from error

    return call


def refused(node: Node, error: Exception) -> ConfigError:
    """Error of a third-party constructor, with the arguments it got."""
    plain = {
        k: v for k, v in node.arguments.items() if isinstance(v, (bool, int, float, str, list))
    }
    settings = ", ".join(f"{node.path}.{name}={value!r}" for name, value in plain.items())
    remedy = f"; change one of {settings}" if settings else ""
    return ConfigError(f"{node.path} ({node.target}): {error}{remedy}")


class Make:
    """Compose by hand what a config composes: ``make("policy", LanguageModel, model=model, ...)``.

    The name is the node's config path: it seeds the construction, names the node in checkpoints,
    timings and errors, and makes the numbers those of the config.

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
