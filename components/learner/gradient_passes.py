"""Passes of an optimiser step: forward and backward over its micro-batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn

from components.learner.checks import check_gradient
from components.learner.gradient_rows import OnPolicy, gradient_rows, recorded_outputs
from components.learner.loss_value import loss_value
from rlcomp.component import limit_outputs
from rlcomp.engine.minibatch import micro_batches
from rlcomp.errors import NumericalError
from rlcomp.interfaces.loss import Loss
from rlcomp.interfaces.policy import PacksRows
from rlcomp.keys import lookup
from rlcomp.metrics import record, recording
from rlcomp.parallel.load_balancing import ROW
from rlcomp.parallel.update_strategy import LocalUpdate, Pass

# The entry that the passes add to the batch. It is no identifier, so no key has this name.
PREPARED = "(prepared)"


class GradientPasses:
    """Forward and backward passes over the micro-batches of an optimiser step.

    Args:
        model: writes the entries that losses read; None where the losses hold their own models.
        losses: by name.
        wanted: keys that the losses read.
        strategy: runs the passes.
        micro_batch_tokens: tokens per forward; None for no split.
        name: of the learner, for its metrics.

    Attributes:
        own: the losses that are a ``Loss``, by name; others average over the rows they are given.
        others: further modules whose state a step changes.
        unit_rows: number of adjacent rows that stay together.
    """

    def __init__(
        self,
        model: TensorDictModuleBase | None,
        losses: nn.ModuleDict,
        wanted: set[str],
        strategy: LocalUpdate,
        *,
        micro_batch_tokens: int | None,
        name: str,
    ) -> None:
        self.model = model
        self.losses = losses
        self.wanted = wanted
        self.strategy = strategy
        self.micro_batch_tokens = micro_batch_tokens
        self.name = name
        self.own = {name: loss for name, loss in losses.items() if isinstance(loss, Loss)}
        self.others: list[nn.Module] = []
        self.packed = isinstance(model, PacksRows) and model.packs
        self.unit_rows = math.lcm(*(loss.unit_rows for loss in self.own.values()))

    @property
    def reads_whole_batch(self) -> bool:
        """True where losses may read any entry: foreign ones, or with their own models."""
        return len(self.own) < len(self.losses) or self.model is None

    @property
    def parts(self) -> list[nn.Module]:
        """Modules beside model and optimiser whose state a step changes."""
        return [*self.own.values(), *self.others]

    def differentiate(self, batch: TensorDict, moved: bool) -> dict[str, float]:
        """Accumulate the gradient of an optimiser step in ``.grad``; return its losses by name.

        Args:
            batch: rows of the step.
            moved: whether the weights have changed since the rows came.
        """
        outputs = self.with_full_batch_outputs(batch)
        prepared = {name: loss.prepare(loss.view(outputs)) for name, loss in self.own.items()}
        rows = batch.copy().update({(PREPARED, name): entry for name, entry in prepared.items()})
        with_gradient, rest = self._split(rows)
        on_policy = OnPolicy(self.model, self.wanted, moved)
        compare = on_policy.compare if rest is not None else None
        totals = self.add_up(with_gradient, partial(self._pass, compare=compare), list(self.losses))
        if rest is not None:
            self._add_without_gradient(rest, on_policy.knows(rest), totals)
        return totals

    def add_up(self, rows: TensorDict, one: Pass, names: Sequence[str]) -> dict[str, float]:
        """Run a pass over each micro-batch of a step; return the sums of its values by name."""
        return self.strategy.accumulate(
            rows, self.micro_batches, one, self._idle, names=names, parts=self.parts
        )

    def micro_batches(self, rows: TensorDict, tokens: int | None = None) -> Iterator[TensorDict]:
        """Split the rows of an optimiser step as the model reads them.

        Args:
            rows: of the step.
            tokens: limit of a micro-batch, where it is below ``micro_batch_tokens``.
        """
        limits = [limit for limit in (tokens, self.micro_batch_tokens) if limit is not None]
        return micro_batches(rows, min(limits, default=None), self.unit_rows, packed=self.packed)

    def read(self, micro: TensorDict) -> TensorDict:
        """Return a micro-batch with the model's outputs; record their entropy."""
        rows = micro.exclude(PREPARED)
        module = self.strategy.module
        outputs = rows if module is None else module(rows)
        if "entropy" in outputs.keys() and "response_mask" in outputs.keys():
            record("policy/entropy", outputs["entropy"], where=outputs["response_mask"])
        return outputs

    def with_full_batch_outputs(self, batch: TensorDict) -> TensorDict:
        """Add model outputs without gradient for all rows of the step, if a loss needs them."""
        needed = any(loss.needs_full_batch_forward for loss in self.own.values())
        if self.model is None or not needed:
            return batch
        forward = partial(full_batch_forward, self.strategy.module, batch, self.wanted)
        return batch.copy().update(self.strategy.forward_all(forward, self.micro_batches))

    def _pass(
        self, micro: TensorDict, compare: Callable[[TensorDict], None] | None = None
    ) -> dict[str, float]:
        """Add the gradient of a micro-batch to ``.grad``; return its losses by name."""
        with torch.enable_grad(), limit_outputs(self.wanted):
            outputs = self.read(micro)
            try:
                values = self._values(outputs, micro)
            except NumericalError:
                self.strategy.backward_zero(outputs)
                raise
            if not all(value.requires_grad for value in values.values()):
                views = {name: self._view(name, outputs, micro) for name in self.losses}
                check_gradient(self.losses, values, views)
            total = sum(values.values(), torch.zeros(()))
            total.backward()  # type: ignore[no-untyped-call]
        if compare is not None:
            compare(outputs)
        return {name: float(value.detach()) for name, value in values.items()}

    def _idle(self, micro: TensorDict) -> dict[str, float]:
        """Run a pass that adds nothing."""
        with torch.enable_grad(), limit_outputs(self.wanted), recording():
            self.strategy.backward_zero(self.read(micro))
        return {}

    def _split(self, rows: TensorDict) -> tuple[TensorDict, TensorDict | None]:
        """Return the rows that the gradient flows through, and the others; None for no others."""
        if self.reads_whole_batch:
            return rows, None
        needed = gradient_rows(self.own.values(), rows.exclude(PREPARED), self.unit_rows)
        if needed is None:
            return rows, None
        record(f"{self.name}/rows_without_gradient", ~needed)
        if not self.strategy.splits_rows or bool(needed.all()):
            return rows, None
        return rows[needed], rows[~needed]

    def _add_without_gradient(
        self, rows: TensorDict, known: bool, totals: dict[str, float]
    ) -> None:
        """Add the losses of rows without a gradient to the totals, and record their metrics."""
        with torch.no_grad(), limit_outputs(self.wanted):
            if known:
                _add(totals, self._values(recorded_outputs(rows.exclude(PREPARED)), rows))
                return
            for micro in self.micro_batches(rows):
                _add(totals, self._values(self.read(micro), micro))

    def _values(self, outputs: TensorDict, micro: TensorDict) -> dict[str, Tensor]:
        """Return the losses of a micro-batch by name."""
        return {
            name: loss_value(name, loss, self._view(name, outputs, micro))
            for name, loss in self.losses.items()
        }

    def _view(self, name: str, outputs: TensorDict, micro: TensorDict) -> TensorDict:
        """Return the micro-batch as a loss reads it, with its step-level keys."""
        return outputs.copy().update(micro[PREPARED, name]) if name in self.own else outputs


def _add(totals: dict[str, float], values: dict[str, Tensor]) -> None:
    for name, value in values.items():
        totals[name] += float(value.detach())


def full_batch_forward(
    model: TensorDictModuleBase,
    batch: TensorDict,
    wanted: Set[str],
    micro_batches: Callable[[TensorDict], Iterator[TensorDict]],
) -> dict[str, Tensor]:
    """Return the model's outputs for all rows, without a gradient, in the rows' order.

    Args:
        model: writes some of the wanted keys.
        batch: rows ``[B]`` of ``T`` tokens.
        wanted: keys that losses read. Full distributions are left out: ``[B, T, V]`` of a whole
            step is too large.
        micro_batches: splits rows as the model reads them, in any order.

    Returns:
        By key, shape ``[B, T]``.
    """
    rows = batch.copy()
    rows[ROW] = torch.arange(batch.shape[0], device=batch["attention_mask"].device)
    small = {key for key in wanted if not (spec := lookup(key)) or spec.per_token}
    outputs: dict[str, Tensor] = {}
    with torch.no_grad(), limit_outputs(small):
        for micro in micro_batches(rows):
            part = model(micro.copy())
            for key in small & set(model.out_keys):
                empty = part[key].new_zeros(batch["attention_mask"].shape)
                outputs.setdefault(key, empty)[micro[ROW], : part[key].shape[1]] = part[key]
    return outputs
