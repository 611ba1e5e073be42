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
from components.learner.gradient_rows import OnPolicyTest, gradient_rows, recorded_outputs
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

# Entry of a batch that holds the step-level keys of each loss by its name. It is no identifier, so
# that no key of a component has this name.
PREPARED = "(prepared)"


class GradientPasses:
    """Forward and backward passes over the micro-batches of an optimiser step.

    Args:
        model: module that writes entries that losses read; None: each loss holds its own model.
        losses: losses by name.
        loss_keys: keys that the losses read.
        strategy: strategy that runs the passes, in one process or on several ranks.
        micro_batch_tokens: tokens per forward; None: no split.
        name: name of the learner, for its metrics.

    Attributes:
        row_losses: the losses that are a ``Loss`` and so sum over rows, by name. The other losses
            are means over their rows.
        other_modules: modules other than losses, model and optimiser whose state a step changes.
        unit_rows: number of adjacent rows that stay in one micro-batch.
    """

    def __init__(
        self,
        model: TensorDictModuleBase | None,
        losses: nn.ModuleDict,
        loss_keys: set[str],
        strategy: LocalUpdate,
        *,
        micro_batch_tokens: int | None,
        name: str,
    ) -> None:
        self.model = model
        self.losses = losses
        self.loss_keys = loss_keys
        self.strategy = strategy
        self.micro_batch_tokens = micro_batch_tokens
        self.name = name
        self.row_losses = {name: loss for name, loss in losses.items() if isinstance(loss, Loss)}
        self.other_modules: list[nn.Module] = []
        self.packed = isinstance(model, PacksRows) and model.packs
        self.unit_rows = math.lcm(*(loss.unit_rows for loss in self.row_losses.values()))

    @property
    def reads_whole_batch(self) -> bool:
        """Return True if a loss may read any key: it is foreign or has its own model."""
        return len(self.row_losses) < len(self.losses) or self.model is None

    @property
    def parts(self) -> list[nn.Module]:
        """Return the modules other than model and optimiser whose state a step changes."""
        return [*self.row_losses.values(), *self.other_modules]

    def differentiate(self, batch: TensorDict, weights_changed: bool) -> dict[str, float]:
        """Accumulate the gradient of an optimiser step in ``.grad``; return its losses by name.

        Args:
            batch: rows of the step.
            weights_changed: whether the weights have changed since the learner got the rows.
        """
        outputs = self.with_full_batch_outputs(batch)
        prepared = {
            name: loss.prepare(loss.view(outputs)) for name, loss in self.row_losses.items()
        }
        rows = batch.copy().update({(PREPARED, name): entry for name, entry in prepared.items()})
        with_gradient, without_gradient = self._split(rows)
        on_policy = OnPolicyTest(self.model, self.loss_keys, weights_changed)
        compare = on_policy.compare if without_gradient is not None else None
        run_pass = partial(self._pass, compare=compare)
        totals = self.sum_passes(with_gradient, run_pass, list(self.losses))
        if without_gradient is not None:
            recorded = on_policy.has_recorded_log_probs(without_gradient)
            self._add_without_gradient(without_gradient, recorded, totals)
        return totals

    def sum_passes(
        self, rows: TensorDict, run_pass: Pass, names: Sequence[str]
    ) -> dict[str, float]:
        """Run a pass over each micro-batch of a step; return the sums of its values by name.

        Args:
            rows: rows of the step.
            run_pass: function of a micro-batch that returns values by name.
            names: names of the values.
        """
        return self.strategy.accumulate(
            rows, self.micro_batches, run_pass, self._empty_pass, names=names, parts=self.parts
        )

    def micro_batches(self, rows: TensorDict, tokens: int | None = None) -> Iterator[TensorDict]:
        """Split the rows of an optimiser step as the model reads them.

        Args:
            rows: rows of the step.
            tokens: largest number of tokens of a micro-batch, if it is below
                ``micro_batch_tokens``; None: no further limit.
        """
        limits = [limit for limit in (tokens, self.micro_batch_tokens) if limit is not None]
        return micro_batches(rows, min(limits, default=None), self.unit_rows, packed=self.packed)

    def run_model(self, micro: TensorDict) -> TensorDict:
        """Return a micro-batch with the model's outputs; record the policy's entropy."""
        rows = micro.exclude(PREPARED)
        module = self.strategy.module
        outputs = rows if module is None else module(rows)
        if "entropy" in outputs.keys() and "response_mask" in outputs.keys():
            record("policy/entropy", outputs["entropy"], where=outputs["response_mask"])
        return outputs

    def with_full_batch_outputs(self, batch: TensorDict) -> TensorDict:
        """Add model outputs without gradient for all rows of the step, if a loss needs them."""
        needed = any(loss.needs_full_batch_forward for loss in self.row_losses.values())
        if self.model is None or not needed:
            return batch
        forward = partial(full_batch_forward, self.strategy.module, batch, self.loss_keys)
        return batch.copy().update(self.strategy.forward_all(forward, self.micro_batches))

    def _pass(
        self, micro: TensorDict, compare: Callable[[TensorDict], None] | None = None
    ) -> dict[str, float]:
        """Add the gradient of a micro-batch to ``.grad``; return its losses by name."""
        with torch.enable_grad(), limit_outputs(self.loss_keys):
            outputs = self.run_model(micro)
            try:
                values = self._values(outputs, micro)
            except NumericalError:
                # Other ranks may wait for this rank's backward pass.
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

    def _empty_pass(self, micro: TensorDict) -> dict[str, float]:
        """Run a pass that adds a gradient of 0, for a rank that waits for other ranks."""
        with torch.enable_grad(), limit_outputs(self.loss_keys), recording():
            self.strategy.backward_zero(self.run_model(micro))
        return {}

    def _split(self, rows: TensorDict) -> tuple[TensorDict, TensorDict | None]:
        """Return the rows with a gradient and those without one; None: the rows are not split."""
        if self.reads_whole_batch:
            return rows, None
        needed = gradient_rows(self.row_losses.values(), rows.exclude(PREPARED), self.unit_rows)
        if needed is None:
            return rows, None
        record(f"{self.name}/rows_without_gradient", ~needed)
        if not self.strategy.splits_rows or bool(needed.all()):
            return rows, None
        return rows[needed], rows[~needed]

    def _add_without_gradient(
        self, rows: TensorDict, recorded: bool, totals: dict[str, float]
    ) -> None:
        """Add the losses of rows without a gradient to the totals, and record their metrics.

        Args:
            rows: rows of the batch that need no gradient.
            recorded: whether their recorded log-probs are the policy's, so that no forward is
                needed.
            totals: values of the losses by name.
        """
        with torch.no_grad(), limit_outputs(self.loss_keys):
            if recorded:
                _add(totals, self._values(recorded_outputs(rows.exclude(PREPARED)), rows))
                return
            for micro in self.micro_batches(rows):
                _add(totals, self._values(self.run_model(micro), micro))

    def _values(self, outputs: TensorDict, micro: TensorDict) -> dict[str, Tensor]:
        """Return the losses of a micro-batch by name."""
        return {
            name: loss_value(name, loss, self._view(name, outputs, micro))
            for name, loss in self.losses.items()
        }

    def _view(self, name: str, outputs: TensorDict, micro: TensorDict) -> TensorDict:
        """Return the micro-batch that a loss reads, with its step-level keys."""
        return outputs.copy().update(micro[PREPARED, name]) if name in self.row_losses else outputs


def _add(totals: dict[str, float], values: dict[str, Tensor]) -> None:
    """Add values to the totals with the same names, in place."""
    for name, value in values.items():
        totals[name] += float(value.detach())


def full_batch_forward(
    model: TensorDictModuleBase,
    batch: TensorDict,
    loss_keys: Set[str],
    micro_batches: Callable[[TensorDict], Iterator[TensorDict]],
) -> dict[str, Tensor]:
    """Return the model's outputs for all rows, without a gradient, in the rows' order.

    Args:
        model: module that writes some of ``loss_keys``.
        batch: rows ``[B]`` of ``T`` tokens.
        loss_keys: keys that losses read. Full distributions are left out, because ``[B, T, V]`` for
            all rows of a step is too large.
        micro_batches: function that splits rows into micro-batches, in any order.

    Returns:
        Each output by its key, shape ``[B, T]``.
    """
    rows = batch.copy()
    rows[ROW] = torch.arange(batch.shape[0], device=batch["attention_mask"].device)
    small = {key for key in loss_keys if not (spec := lookup(key)) or spec.per_token}
    outputs: dict[str, Tensor] = {}
    with torch.no_grad(), limit_outputs(small):
        for micro in micro_batches(rows):
            result = model(micro.copy())
            for key in small & set(model.out_keys):
                empty = result[key].new_zeros(batch["attention_mask"].shape)
                outputs.setdefault(key, empty)[micro[ROW], : result[key].shape[1]] = result[key]
    return outputs
