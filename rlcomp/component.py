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
from rlcomp.canonical import canonical, check_written, missing_keys_message
from rlcomp.errors import ConfigError, ContractError, nearest
from rlcomp.key_declarations import DECLARATION_TYPES, check_declared, check_key, declare_keys
from rlcomp.keys import Key, OwnKey, dotted, lookup, nested, prompt_keys


class _CheckedModule(Checked, type(TensorDictModuleBase)):  # type: ignore[misc]
    """Metaclass of TensorDict modules whose constructor arguments are checked."""

    def __call__(cls, *args: object, **kwargs: object) -> typing.Any:  # noqa: ANN401
        """Create an instance; add the keys of ``writes_if`` to its ``writes`` and ``out_keys``.

        Raises:
            ConfigError: the constructor of the class does not begin with super().__init__().
        """
        try:
            instance = super().__call__(*args, **kwargs)
        except AttributeError as error:
            if "before Module.__init__() call" in str(error):  # raised by torch
                raise ConfigError(_missing_super_message(cls)) from error
            raise
        if isinstance(instance, cls) and "renames" not in vars(instance):
            raise ConfigError(_missing_super_message(cls))
        if isinstance(instance, Component):
            for argument, keys in instance.writes_if.items():
                if getattr(instance, argument):
                    instance.writes = (*instance.writes, *keys)  # type: ignore[misc]
                    instance.out_keys = [*instance.out_keys, *map(nested, keys)]
        return instance


def _missing_super_message(cls: type) -> str:
    code = getattr(cls.__init__, "__code__", None)  # type: ignore[misc]
    where = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
    return f"{cls.__name__}: its __init__{where} must begin with super().__init__()"


class Component(TensorDictModuleBase, metaclass=_CheckedModule):  # type: ignore[misc]
    """A TensorDict -> TensorDict map with declared keys.

    Class attributes (plain literals, so that they can be read without importing the module;
    ``(*Base.writes, "more")`` may quote another class):
        reads, writes: keys that the component reads and writes. They are keys of
            :data:`rlcomp.keys.SCHEMA`, of :data:`rlcomp.keys.CONTROL` (a nested key is written
            with a dot, ``next.reward``) or of ``keys``.
        optional: keys that the component reads if the batch has them.
        may_write: keys that the component writes under some settings only. Later stages may not
            require them.
        writes_if: further keys of ``writes`` by the constructor's argument that must be true for
            them (``{"full": ("ref_log_distribution",)}``, and ``self.full = full``).
        keys: declarations of keys that the schema lacks, ``{"span_id": ("B T", "int64", "index of
            the turn")}``. A dict of further fields of :class:`rlcomp.keys.Spec` may follow the
            meaning. A subclass inherits the keys of its bases. Other classes that use such a key
            repeat the same literal.
        fresh: True if the component starts a new batch: entries of earlier stages are dropped,
            unless their key is in ``writes`` and in ``reads`` or ``optional``.
        keeps_prompt: True if a fresh batch keeps, for each row, every entry of the input that
            belongs to a prompt (``per_prompt``; :func:`rlcomp.batch.keep_prompt`).
        runs: constructor arguments that hold components which this component calls, in the order
            of the calls.
        contained: True if the keys that the components of ``runs`` write are dropped.
        supplies: keys that the component passes to the components of ``runs`` itself; these keys
            are not read from the batch.
        min_group_size: smallest useful ``group_size`` of the collector before the component.
        min_group_size_from: constructor argument that may raise ``min_group_size``.
        must_reach: keys of ``writes`` that a later stage must read, lest the work is wasted;
            ``"reward|rewards"``: one of the two.
        drops_rows: True if the returned batch may lack some of the rows.
        watches: constructor arguments that name metrics of earlier stages of the step.
        earlier: constructor arguments whose nodes must run in an earlier phase.
        exclusive: name of a group of which a phase may contain one component only: two of ``"kl"``
            would count the penalty twice. If it is a key, a component that renames it is exempt.
        exclusive_if: constructor argument that must be true for ``exclusive`` to apply.
        equation: formula of a part of a loss, for ``rlcomp-describe --equation``; ``{argument}``
            is replaced by the value in the config.

    ``forward`` uses the schema's names. ``set_keys(reward="shaped")`` (in yaml ``_keys_: {reward:
    shaped}``) renames keys of one instance. The input of ``forward`` has the schema's dtypes and
    shapes (:mod:`rlcomp.canonical`). A component never writes in place into a tensor that it did
    not create.
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
        for name in DECLARATION_TYPES.keys() & vars(Component).keys():
            check_declared(cls.__name__, name, getattr(cls, name))
        conditional = [key for keys in cls.writes_if.values() for key in keys]
        outputs = (*cls.writes, *cls.may_write, *conditional)
        for key in (*cls.reads, *cls.optional, *cls.supplies, *outputs):
            check_key(cls.__name__, key, cls.own_keys())

    @classmethod
    def own_keys(cls) -> frozenset[Key]:
        """Return the keys that the class and its bases declare in ``keys``."""
        return frozenset(key for base in cls.__mro__ for key in vars(base).get("keys", ()))

    def __init__(self) -> None:
        super().__init__()
        self.renames: dict[Key, str] = {}
        self.in_keys = [nested(key) for key in self.reads]
        self.out_keys = [nested(key) for key in self.writes]

    def set_keys(self, **renames: str) -> Component:
        """Rename keys of this instance, and return it.

        Args:
            renames: name in the batch by the schema's key, ``set_keys(reward="shaped")``.

        Raises:
            ConfigError: this component neither reads nor writes one of the keys.
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
        """Prepare for a phase with this component; not called if a run resumes within the phase."""

    def finish_phase(self) -> None:
        """Finish the last step of a phase; this method may still record metrics."""

    def __call__(self, batch: TensorDict | None = None) -> TensorDict:
        """Run the component on a batch, and return the batch with its output.

        Args:
            batch: input; None: an empty batch, for ``fresh`` components.

        Raises:
            KeyError: the batch lacks a key that this component reads.
            ConfigError, ShapeError, DataError: :mod:`rlcomp.canonical` refuses input or output.
            ContractError: ``forward`` returned something other than a batch.
        """
        batch = TensorDict({}, batch_size=[]) if batch is None else batch
        batch_keys = batch.keys(include_nested=True)
        missing = [dotted(key) for key in self.in_keys if key not in batch_keys]
        if missing:
            raise KeyError(missing_keys_message(type(self).__name__, missing, batch.keys()))
        view = self.view(batch)
        inputs = {} if view is batch else dict(view.items())
        result = super().__call__(view)
        if not isinstance(result, TensorDictBase):
            raise ContractError(f"{type(self).__name__} returned {_describe(result)}: {_RETURNS}")
        check_written(type(self).__name__, result, self.writes)
        if view is batch or (result is not view and not self.renames):
            return result  # the caller's batch, or a new one: each entry has its right name
        return _write_output(self, batch if result is view else None, inputs, result)

    def view(self, batch: TensorDict) -> TensorDict:
        """Return the input of ``forward``: canonical entries under the schema's names."""
        named = _schema_view(self, batch) if self.renames else batch
        return canonical(type(self).__name__, named, self._inputs())

    def _inputs(self) -> frozenset[Key]:
        """Return the keys that the component may read, under the schema's names."""
        prompt = prompt_keys() if self.keeps_prompt else frozenset()
        return prompt.union(self.reads, self.optional)

    def _outputs(self) -> frozenset[Key]:
        """Return the keys that the component may write, under the schema's names."""
        prompt = prompt_keys() if self.keeps_prompt else frozenset()
        return prompt.union(self.writes, self.may_write)


_RETURNS = "forward must return the batch (batch['advantage'] = ..., then return batch)"


def _describe(value: object) -> str:
    """Return the type of a value, and the shape of a tensor, as a text."""
    if value is None:
        return "nothing"
    shape = f" of shape {list(value.shape)}" if isinstance(value, Tensor) else ""
    return f"a {type(value).__name__}{shape}"


# Entry with the renamed keys of a batch, for components that drop rows. It is not an identifier, so
# that no declared key can have this name.
_HIDDEN = "(hidden)"


# The next two are functions, so that no method of a subclass can override them by accident.
def _schema_view(component: Component, batch: TensorDict) -> TensorDict:
    """Return a view of the batch with the entries of this instance under the schema's names."""
    read, renames = component._inputs(), component.renames
    # A name that replaces another key may also be read as a key of the schema.
    names = set(renames.values()) - (read - set(renames))
    hidden = [nested(key) for key in (*renames, *names)]
    batch_keys = batch.keys(include_nested=True)
    view = batch.exclude(*hidden)
    for key, name in renames.items():
        # When a loss prepares, entries that the model has yet to write are missing.
        if key in read and nested(name) in batch_keys:
            view[nested(key)] = batch[nested(name)]
    if component.drops_rows:
        # The component cannot read the hidden entries, but it drops their rows with the others.
        view[_HIDDEN] = batch.select(*hidden, strict=False)
    return view


def _write_output(
    component: Component,
    batch: TensorDict | None,
    inputs: dict[Key, Tensor | TensorDict],
    result: TensorDict,
) -> TensorDict:
    """Return the output of ``forward`` under this instance's names.

    Args:
        component: has the names (``renames``).
        batch: the batch that gets the output; None: the output itself is the new batch.
        inputs: the entries of the view before ``forward``; unchanged entries are not written.
        result: the output of ``forward``.
    """
    outputs = component._outputs()
    schema_names = [nested(key) for key in component.renames]
    target = result.exclude(*schema_names, _HIDDEN) if batch is None else batch
    if batch is None and _HIDDEN in result.keys():
        target.update(result[_HIDDEN])
    for key in result.keys():
        if key == _HIDDEN or (key in component.renames and key not in outputs):
            continue
        if batch is None or inputs.get(key) is not result[key]:
            target[component.renames.get(key, key)] = result[key]
    result_keys = result.keys(include_nested=True)
    for key in component.renames.keys() & outputs:
        if "." in key and nested(key) in result_keys:  # written into a part of the view
            target[nested(component.renames[key])] = result[nested(key)]
    return target


# Keys that the losses of the active learner read; None outside a learner.
_loss_inputs: contextvars.ContextVar[frozenset[str] | None] = contextvars.ContextVar(
    "loss_inputs", default=None
)


@contextlib.contextmanager
def limit_outputs(keys: typing.Iterable[str]) -> Iterator[None]:
    """Limit the outputs of models in the context to the keys that losses read.

    A model computes every other output without gradient, or not at all.
    """
    token = _loss_inputs.set(frozenset(keys))
    try:
        yield
    finally:
        _loss_inputs.reset(token)


def is_loss_input(key: str) -> bool:
    """Return True if a loss reads this output of a model; outside a learner always True."""
    keys = _loss_inputs.get()
    return keys is None or key in keys


def per_token(batch: TensorDict) -> list[str]:
    """Return the ``[B, T]`` keys of a batch."""
    return [key for key in batch.keys() if (entry := lookup(key)) and entry.per_token]
