"""Component: a TensorDict module that declares the keys it reads and writes."""

from __future__ import annotations

import contextlib
import contextvars
import typing
from collections.abc import Iterator, Mapping
from typing import ClassVar

from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from rlcomp.arguments import Checked
from rlcomp.arguments import check_arguments as check_arguments
from rlcomp.canonical import canonical, check_written, lacking
from rlcomp.errors import ConfigError, ContractError, nearest
from rlcomp.keys import (
    DECLARED,
    Key,
    OwnKey,
    check_declared,
    check_key,
    declare_keys,
    dotted,
    lookup,
    nested,
    prompt_keys,
)


class _Checked(Checked, type(TensorDictModuleBase)):  # type: ignore[misc]
    """Metaclass of checked classes that are TensorDict modules as well."""

    def __call__(cls, *args: object, **kwargs: object) -> typing.Any:  # noqa: ANN401
        """Make the instance.

        Raises:
            ConfigError: its constructor does not start with a call of its base's constructor.
        """
        try:
            instance = super().__call__(*args, **kwargs)
        except AttributeError as error:
            if "before Module.__init__() call" in str(error):  # raised by torch
                raise ConfigError(_no_super(cls)) from error
            raise
        if isinstance(instance, cls) and "renames" not in vars(instance):
            raise ConfigError(_no_super(cls))
        if isinstance(instance, Component):
            for argument, keys in instance.writes_if.items():
                if getattr(instance, argument):
                    instance.writes = (*instance.writes, *keys)  # type: ignore[misc]
                    instance.out_keys = [*instance.out_keys, *map(nested, keys)]
        return instance


def _no_super(cls: type) -> str:
    code = getattr(cls.__init__, "__code__", None)  # type: ignore[misc]
    where = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
    return f"{cls.__name__}: its __init__{where} must begin with super().__init__()"


class Component(TensorDictModuleBase, metaclass=_Checked):  # type: ignore[misc]
    """A TensorDict -> TensorDict map with declared keys.

    Class attributes (plain literals, so that they can be read without importing the module;
    ``(*Base.writes, "more")`` may quote another class):
        reads, writes: keys of :data:`rlcomp.keys.SCHEMA` or :data:`rlcomp.keys.CONTROL`, or of
            ``keys``; nested ones with a dot (``next.reward``).
        optional: keys read if an earlier stage writes them, and not needed otherwise.
        may_write: keys written under some settings only; no later stage can rely on them.
        writes_if: further keys of ``writes`` by the constructor's argument that must be true for
            them (``{"full": ("ref_log_distribution",)}``, and ``self.full = full``).
        keys: own keys beside the schema, ``{"span_id": ("B T", "int64", "which turn wrote it")}``,
            optionally with a dict of further fields of :class:`rlcomp.keys.Spec` at the end; they
            add to the keys of the bases. Other classes that use a key repeat the same literal.
        fresh: it starts a new batch. Entries of earlier stages are dropped, unless it reads them
            and lists them among ``writes`` again. A key among both ``optional`` and ``writes`` is
            passed on if the batch has it.
        keeps_prompt: a fresh batch keeps, for each row, every key of its input that belongs to a
            prompt (``per_prompt``; :func:`rlcomp.batch.keep_prompt`).
        runs: constructor arguments that hold components this one calls, in that order.
        contained: the keys that those components write are dropped.
        supplies: keys it passes to those components itself, so that they do not read the batch's.
        min_group_size: smallest useful ``group_size`` of the collector before it.
        min_group_size_from: the constructor's argument that may raise it (``"k"``, and
            ``self.min_group_size = k``).
        must_reach: keys of ``writes`` that a later stage must read, since the work would otherwise
            be wasted; ``"reward|rewards"``: one of them.
        drops_rows: the batch it returns may lack some of the rows.
        watches: constructor arguments that name metrics of earlier stages of the step.
        earlier: constructor arguments whose nodes must run in an earlier phase.
        exclusive: a name that at most one component of a phase may have ("kl": counted once).
        exclusive_if: the constructor's argument that must be true for that.
        equation: the formula of a part of a loss, for ``rlcomp-describe --equation``;
            ``{argument}`` stands for a value of the config.

    ``forward`` uses the schema's names. ``set_keys(reward="shaped")`` (in yaml ``_keys_: {reward:
    shaped}``) renames per instance. Its input has the schema's dtypes and shapes
    (:mod:`rlcomp.canonical`). A component never writes in place into a tensor it did not make.
    """

    reads: ClassVar[tuple[Key, ...]] = ()
    writes: ClassVar[tuple[Key, ...]] = ()
    optional: ClassVar[tuple[Key, ...]] = ()
    may_write: ClassVar[tuple[Key, ...]] = ()
    writes_if: ClassVar[Mapping[str, tuple[Key, ...]]] = {}
    keys: ClassVar[Mapping[Key, OwnKey]] = {}
    fresh: ClassVar[bool] = False
    keeps_prompt: ClassVar[bool] = False
    runs: ClassVar[tuple[str, ...]] = ()
    contained: ClassVar[bool] = False
    supplies: ClassVar[tuple[Key, ...]] = ()
    min_group_size: int = 1
    min_group_size_from: ClassVar[str] = ""
    must_reach: ClassVar[tuple[Key, ...]] = ()
    drops_rows: ClassVar[bool] = False
    watches: ClassVar[tuple[str, ...]] = ()
    earlier: ClassVar[tuple[str, ...]] = ()
    exclusive: ClassVar[str] = ""
    exclusive_if: ClassVar[str] = ""
    equation: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        declare_keys(f"{cls.__module__}.{cls.__qualname__}", vars(cls).get("keys", {}))
        for name in DECLARED.keys() & vars(Component).keys():
            check_declared(cls.__name__, name, getattr(cls, name))
        conditional = [key for keys in cls.writes_if.values() for key in keys]
        written = (*cls.writes, *cls.may_write, *conditional)
        for key in (*cls.reads, *cls.optional, *cls.supplies, *written):
            check_key(cls.__name__, key, cls.own_keys())

    @classmethod
    def own_keys(cls) -> frozenset[Key]:
        """Return the keys that the class or a base of it declares beside the schema."""
        return frozenset(key for base in cls.__mro__ for key in vars(base).get("keys", ()))

    def __init__(self) -> None:
        super().__init__()
        self.renames: dict[Key, str] = {}
        self.in_keys = [nested(key) for key in self.reads]
        self.out_keys = [nested(key) for key in self.writes]

    def set_keys(self, **renames: str) -> Component:
        """Read and write other keys than the schema's: ``set_keys(reward="shaped")``.

        Raises:
            ConfigError: this component neither reads nor writes such a key.
        """
        own = self._inputs() | {*self.writes, *self.may_write}
        for key in renames:
            if key not in own:
                raise ConfigError(f"{type(self).__name__} has no key '{key}'{nearest(key, own)}")
        self.renames.update(renames)
        self.in_keys = [nested(self.renames.get(key, key)) for key in self.reads]
        self.out_keys = [nested(self.renames.get(key, key)) for key in self.writes]
        return self

    def begin_phase(self) -> None:
        """Prepare for a phase that runs this component; never called on resume."""

    def finish_phase(self) -> None:
        """Finish the last step of a phase; metrics are still recorded."""

    def __call__(self, batch: TensorDict | None = None) -> TensorDict:
        """Run on a batch; without one, on an empty one (``fresh`` components).

        Raises:
            KeyError: the batch lacks a key that this component reads.
            ContractError: ``forward`` returned something other than a batch.
        """
        batch = TensorDict({}, batch_size=[]) if batch is None else batch
        there = batch.keys(include_nested=True)
        missing = [dotted(key) for key in self.in_keys if key not in there]
        if missing:
            raise KeyError(lacking(type(self).__name__, missing, batch.keys()))
        view = self.view(batch)
        inputs = {} if view is batch else dict(view.items())
        result = super().__call__(view)
        if not isinstance(result, TensorDictBase):
            raise ContractError(f"{type(self).__name__} returned {_shown(result)}: {_RETURNS}")
        check_written(type(self).__name__, result, self.writes)
        if view is batch or (result is not view and not self.renames):
            return result
        return _handed_back(self, batch if result is view else None, inputs, result)

    def view(self, batch: TensorDict) -> TensorDict:
        """Return the input of ``forward``: canonical entries under the schema's names."""
        named = _schema_names(self, batch) if self.renames else batch
        return canonical(type(self).__name__, named, self._inputs())

    def _inputs(self) -> frozenset[Key]:
        """Return the keys it may read, under their own names."""
        prompt = prompt_keys() if self.keeps_prompt else frozenset()
        return prompt.union(self.reads, self.optional)

    def _outputs(self) -> frozenset[Key]:
        """Return the keys it may write, under their own names."""
        prompt = prompt_keys() if self.keeps_prompt else frozenset()
        return prompt.union(self.writes, self.may_write)


_RETURNS = "forward must return the batch (batch['advantage'] = ..., then return batch)"


def _shown(value: object) -> str:
    """Describe a value that is no batch in a word or two."""
    if value is None:
        return "nothing"
    shape = f" of shape {list(value.shape)}" if isinstance(value, Tensor) else ""
    return f"a {type(value).__name__}{shape}"


# Entry that carries hidden keys through a part that drops rows: no identifier, so no key has it.
_ASIDE = "(aside)"


# Functions and not methods, so that they cannot clash with methods of a subclass.
def _schema_names(component: Component, batch: TensorDict) -> TensorDict:
    read, renames = component._inputs(), component.renames
    # A name that stands for another key here may also be read under its own name.
    names = set(renames.values()) - (read - set(renames))
    hidden, there = [nested(key) for key in (*renames, *names)], batch.keys(include_nested=True)
    view = batch.exclude(*hidden)
    for key, name in renames.items():
        # When a loss prepares, entries that the model has yet to write are missing.
        if key in read and nested(name) in there:
            view[nested(key)] = batch[nested(name)]
    if component.drops_rows:
        # The component does not see them, but drops their rows with the others.
        view[_ASIDE] = batch.select(*hidden, strict=False)
    return view


def _handed_back(
    component: Component,
    batch: TensorDict | None,
    inputs: dict[Key, Tensor | TensorDict],
    result: TensorDict,
) -> TensorDict:
    """Rename the output of ``forward`` to this instance's keys; write a view into its batch.

    Entries of the view that neither it nor its parts changed stay in the batch as they were.
    """
    written = component._outputs()
    aliases = [nested(key) for key in component.renames]
    target = result.exclude(*aliases, _ASIDE) if batch is None else batch
    if batch is None and _ASIDE in result.keys():
        target.update(result[_ASIDE])
    for key in result.keys():
        if key == _ASIDE or (key in component.renames and key not in written):
            continue
        if batch is None or inputs.get(key) is not result[key]:
            target[component.renames.get(key, key)] = result[key]
    there = result.keys(include_nested=True)
    for key in component.renames.keys() & written:
        if "." in key and nested(key) in there:  # written into a part of the view
            target[nested(component.renames[key])] = result[nested(key)]
    return target


_asked: contextvars.ContextVar[frozenset[str] | None] = contextvars.ContextVar(
    "asked", default=None
)


@contextlib.contextmanager
def asking(keys: typing.Iterable[str]) -> Iterator[None]:
    """Compute gradients of models for these keys only (the keys that the losses read)."""
    token = _asked.set(frozenset(keys))
    try:
        yield
    finally:
        _asked.reset(token)


def asked(key: str) -> bool:
    """Test if this key needs a gradient; outside a learner every key does."""
    keys = _asked.get()
    return keys is None or key in keys


def per_token(batch: TensorDict) -> list[str]:
    """Return the ``[B, T]`` keys of a batch."""
    return [key for key in batch.keys() if (entry := lookup(key)) and entry.per_token]
