"""Component under test: runs from a fixed state, compares results."""

from __future__ import annotations

import copy
from itertools import cycle
from typing import NoReturn

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.checkpoint.state import HasRunState, generators, named_parts, owned_tensors
from rlcomp.component import Component
from rlcomp.errors import ContractError
from rlcomp.interfaces.fact_reward import FactReward
from rlcomp.keys import Key, Spec, lookup, spec
from rlcomp.run.check_flow import built_flow
from rlcomp.testing.batch import example_batch, masks

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-5}


class Subject:
    """A component, the keys it reads and writes, and a batch of the keys it reads.

    Args:
        component: the component under test.
        batch: the batch; None: an example batch.
        dtype: dtype of the example's floats.
        optional: True for a batch with optional keys.

    Attributes:
        reads, writes: keys in the batch, and keys that a run must write, by this instance's names.
        may_write: keys that it writes under some settings only.
        fresh: True if the component starts a new batch.
        draws: True if the component or a part of it holds a generator.
        names: the schema's key of each renamed key.
        batch: the batch of all runs.
        attention, response: masks of the batch, ``[B, T]``; the example's masks if it lacks them.
        inside: mask of the tokens that count: ``attention`` for a component that reads only this
            mask, else ``response``.
    """

    def __init__(
        self,
        component: Component,
        batch: TensorDict | None,
        dtype: torch.dtype = torch.float32,
        *,
        optional: bool = False,
    ) -> None:
        self.component = component
        flow = built_flow(component)
        # Entries that a fresh component copies to its new batch are both read and written. Without
        # ``optional`` they are limited to those that it reads anyway.
        passed_on = flow.carries if optional else flow.carries & flow.reads
        added = (optional_keys(component) | passed_on) - flow.writes if optional else set()
        self.reads, self.writes = sorted(flow.reads | added), sorted(flow.writes | passed_on)
        self.may_write = _may_write(component)
        self.fresh = flow.fresh
        self.draws = bool(generators({"component": component}))
        self.names = _names(component)
        self._check_keys()
        component.begin_phase()
        self._save_state()
        self.batch = self._example(dtype) if batch is None else batch
        self._set_masks()

    def _check_keys(self) -> None:
        for key in (*self.reads, *self.writes):
            if lookup(self.names.get(key, key)) is None:
                self.refuse("every key is one of the schema's or declared", f"'{key}' is not")

    def _example(self, dtype: torch.dtype) -> TensorDict:
        batch = example_batch(sorted({self.names.get(key, key) for key in self.reads}), dtype=dtype)
        entries = {key: batch[self.names.get(key, key)] for key in self.reads}
        if isinstance(self.component, FactReward):
            values = batch["facts"].values()
            named = zip(self.component.facts_read, cycle(values), strict=False)
            entries["facts"] = TensorDict(dict(named), batch_size=batch.batch_size)
        return TensorDict(entries, batch_size=batch.batch_size)

    def _set_masks(self) -> None:
        """Set the masks ``attention``, ``response`` and ``inside``."""
        attention, response = masks(self.batch.batch_size[0] if self.batch.batch_size else 0)
        self.attention = self.batch.get(self.name("attention_mask"), attention)
        self.response = self.batch.get(self.name("response_mask"), response)
        reads = {self.names.get(key, key) for key in self.reads}
        only_attention = "attention_mask" in reads and "response_mask" not in reads
        self.inside = self.attention if only_attention else self.response

    def _save_state(self) -> None:
        nodes = {"component": self.component}
        tensors = owned_tensors(nodes).values()
        self._tensors = [(tensor, tensor.detach().clone()) for tensor in tensors]
        self._draws = [(draw, draw.get_state()) for draw in generators(nodes).values()]
        self._states = [
            (part, copy.deepcopy(part.run_state()))
            for _, part in named_parts(nodes)
            if isinstance(part, HasRunState)
        ]

    def restore(self) -> None:
        """Restore tensors, generators and run states to the first state."""
        with torch.no_grad():
            for tensor, first in self._tensors:
                tensor.copy_(first)
        for draw, state in self._draws:
            draw.set_state(state)
        for part, run_state in self._states:
            part.load_run_state(copy.deepcopy(run_state))

    def run(self, batch: TensorDict) -> TensorDict:
        """Run the component from its first state on a shallow copy, without gradient."""
        self.restore()
        with torch.no_grad():
            return self.component(batch.copy())

    def name(self, key: Key) -> str:
        """Return this instance's name of a key of the schema."""
        return next((name for name, known in self.names.items() if known == key), key)

    def spec(self, key: Key) -> Spec:
        """Return the specification of a key, under any name that this instance gives it."""
        return spec(self.names.get(key, key))

    def floats(self) -> list[Key]:
        """Return the float keys among the inputs whose entries have a token axis."""
        specs = {key: self.spec(key) for key in self.reads}
        return [key for key, spec in specs.items() if spec.along_tokens and spec.dtype == "float"]

    def refuse(self, law: str, fault: str) -> NoReturn:
        """Raise a ContractError for a violated property.

        Raises:
            ContractError: always.
        """
        raise ContractError(f"{type(self.component).__name__} breaks '{law}': {fault}")

    def hold_equal(
        self,
        law: str,
        key: str,
        got: Tensor,
        want: Tensor,
        where: Tensor | None = None,
        remedy: str = "",
    ) -> None:
        """Check that two tensors agree, on the selected places, up to rounding.

        The remedy ends the message of the error.

        Raises:
            ContractError: the tensors differ.
        """
        fault = difference(got, want, where)
        if fault:
            self.refuse(law, f"'{key}' {fault}{remedy}")


def optional_keys(component: Component) -> set[str]:
    """Return the optional keys of the component and its parts."""
    return {part.renames.get(key, key) for part in _parts(component) for key in part.optional}


def _may_write(component: Component) -> set[str]:
    """Return the keys that the component, or a part of it, writes under some settings only."""
    return {part.renames.get(key, key) for part in _parts(component) for key in part.may_write}


def _names(component: Component) -> dict[str, Key]:
    """Return the schema's key of each renamed key, in the component and its parts."""
    return {name: key for part in _parts(component) for key, name in part.renames.items()}


def _parts(component: Component) -> list[Component]:
    """Return the component and the components within it."""
    return [part for part in component.modules() if isinstance(part, Component)]


def difference(got: Tensor, want: Tensor, where: Tensor | None = None) -> str | None:
    """Describe the largest difference of two tensors and its place; None if they agree.

    They agree if the difference is at most :data:`TOLERANCE` times the largest finite size of an
    expected value (1 if that is 0). Only the places ``where`` count. NaN equals NaN. Other dtypes
    (ids, masks, half floats) have no tolerance: their values must be equal.

    Examples:
        >>> difference(torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]))
        'differs by 0.5 at [1] (2.5, not 2)'
    """
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"is {_kind(got)}, not {_kind(want)}"
    if not got.numel():
        return None
    gap, size = (got.double() - want.double()).abs(), want.double().abs()
    gap = torch.where((got == want) | (got.isnan() & want.isnan()), 0.0, gap)
    gap = torch.where(gap.isnan(), float("inf"), gap)
    if where is not None:
        gap, size = torch.where(where, gap, 0.0), torch.where(where, size, 0.0)
    scale = float(size[size.isfinite()].max()) if bool(size.isfinite().any()) else 0.0
    if not bool((gap > TOLERANCE.get(got.dtype, 0.0) * (scale or 1.0)).any()):
        return None
    index = tuple(int(i) for i in torch.unravel_index(gap.argmax(), gap.shape))
    values = f"{got[index].item():.6g}, not {want[index].item():.6g}"
    return f"differs by {gap[index].item():.3g} at {list(index)} ({values})"


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def leaves(result: TensorDict) -> dict[str, Tensor]:
    """Return every tensor of a result by dotted name."""
    items = result.items(include_nested=True, leaves_only=True)
    return {key if isinstance(key, str) else ".".join(key): value for key, value in items}
