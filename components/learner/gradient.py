"""The learner: minibatch gradient steps on a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from components.learner.checks import (
    check_losses,
    check_micro_batches,
    check_rows,
    check_sampling,
    wanted_keys,
)
from components.learner.gradient_passes import GradientPasses
from components.learner.gradient_rows import needed_rows
from components.learner.gradient_spike.median import MedianSpike
from components.learner.loss_value import Values
from components.learner.minibatch_step import minibatch_count, minibatch_step
from components.learner.non_finite.skip import SkipNonFinite
from components.learner.optimizer_step import OptimizerStep
from components.learner.trace import trace
from rlcomp.arguments import MinLen, NonEmptyText, PositiveFloat, PositiveInt
from rlcomp.checkpoint.state_fields import field
from rlcomp.component import Component
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.minibatch import minibatches
from rlcomp.errors import CheckpointError, ConfigError, NonFiniteSteps
from rlcomp.interfaces.loss import Loss
from rlcomp.interfaces.policy import Policy, ScoresRows
from rlcomp.metrics import progress as now
from rlcomp.metrics import record, record_total
from rlcomp.parallel.data_parallel import choose_strategy
from rlcomp.seed import new_generator


def constant(progress: float) -> float:
    """Return 1, the multiplier of a constant learning rate."""
    del progress
    return 1.0


class Learner(Component):
    """Learner: epochs of minibatch optimiser steps, with gradient accumulation over micro-batches.

    One model forward per micro-batch, shared by all losses. Rows that no loss has a gradient
    through (of zero advantage, where there is no KL in the loss and no entropy bonus) are not
    differentiated, and on the first step after sampling not read: their log-probs are known.

    Reads what the model and the losses read. Writes nothing into the batch.

    Args:
        model: writes ``log_probs``, ``entropy``, ...; null when the losses hold their own
            (torchrl's).
        losses: by objective name; every entry they return whose name starts with ``loss`` is
            summed.
        optimizer: called with the named parameters, e.g. a partial of ``torch.optim.AdamW``.
        schedule: learning-rate multiplier as a function of the phase's progress in (0, 1).
        num_minibatches: optimiser steps per pass over the batch.
        epochs: passes over the batch.
        micro_batch_tokens: tokens per forward, as the model reads them (padding counts where it
            pads); null for no split. Changes memory, not numbers.
        max_grad_norm: gradients are scaled down to this norm; null for no clipping.
        name: what its metrics are called: ``learner/grad_norm``.
        non_finite: counts skipped steps, whose loss or gradient is not finite, and says when to
            stop; null: one with its defaults.
        gradient_spike: tells steps whose gradient is far above the usual; null: one with its
            defaults.

    Raises:
        ConfigError: one of the losses is none, or averages over what it is given while there are
            micro-batches.
        NonFiniteSteps: a loss or the gradient was not finite in several steps in a row.
    """

    runs = ("model", "losses")
    contained = True

    def __init__(
        self,
        *,
        model: TensorDictModuleBase | None,
        losses: Annotated[dict[str, TensorDictModuleBase], MinLen(1)],
        optimizer: Callable[[Iterable[tuple[str, Tensor]]], torch.optim.Optimizer],
        schedule: Callable[[float], float] = constant,
        num_minibatches: PositiveInt = 1,
        epochs: PositiveInt = 1,
        micro_batch_tokens: PositiveInt | None = None,
        max_grad_norm: PositiveFloat | None = 1.0,
        name: NonEmptyText = "learner",
        non_finite: SkipNonFinite | None = None,
        gradient_spike: MedianSpike | None = None,
    ) -> None:
        super().__init__()
        check_losses(losses)
        check_micro_batches(losses, micro_batch_tokens)
        self.model = model
        self.losses = torch.nn.ModuleDict(losses)
        self.schedule = schedule
        self.num_minibatches = num_minibatches
        self.epochs = epochs
        self.micro_batch_tokens = micro_batch_tokens
        self.max_grad_norm = max_grad_norm
        self.name = name
        self.non_finite = non_finite or SkipNonFinite()
        self.gradient_spike = gradient_spike or MedianSpike()
        self.generator = new_generator()
        self.frozen: frozenset[str] = frozenset()
        self.moved = False
        decoding = model.decoding if isinstance(model, Policy) else Decoding()
        check_sampling(decoding, num_minibatches * epochs)
        self.replayed = num_minibatches * epochs > 1 and decoding.truncates
        self._build_step(optimizer)

    def _build_step(
        self, optimizer: Callable[[Iterable[tuple[str, Tensor]]], torch.optim.Optimizer]
    ) -> None:
        """Build the strategy, the passes and the optimiser of a step."""
        named = [(name, p) for name, p in self.named_parameters() if p.requires_grad]
        others = [p for p in self.losses.parameters() if p.requires_grad]
        sums = all(isinstance(loss, Loss) for loss in self.losses.values())
        self.strategy = choose_strategy(self.model, others, sums=sums)
        self.wanted = wanted_keys(dict(self.losses.items()))
        self.passes = GradientPasses(
            self.model,
            self.losses,
            self.wanted,
            self.strategy,
            micro_batch_tokens=self.micro_batch_tokens,
            name=self.name,
        )
        self.own, self.unit_rows = self.passes.own, self.passes.unit_rows
        self.optimizer_step = OptimizerStep(
            named,
            self.strategy,
            optimizer=optimizer,
            schedule=self.schedule,
            max_grad_norm=self.max_grad_norm,
        )
        self.optimizer = self.optimizer_step.optimizer
        self.trained, self.trained_names = self.optimizer_step.parameters, self.optimizer_step.names

    def forward(self, batch: TensorDict) -> TensorDict:
        """Take ``epochs * num_minibatches`` optimiser steps."""
        if self.strategy.run(self, "update", self._needed(batch)):
            self._count_update()
        return batch

    def update(self, rows: TensorDict) -> bool:
        """Take the optimiser steps of a batch; return whether one was taken."""
        if not len(rows):  # a filter has dropped all
            record_total(f"{self.name}/tokens", 0.0)
            return False
        rows, self.moved = self._on_device(rows), False
        count = minibatch_count(len(rows) // self.unit_rows, self.num_minibatches, self.name)
        try:
            for _ in range(self.epochs):
                for part in minibatches(rows, count, self.unit_rows, self.generator):
                    self.moved = minibatch_step(self, part) or self.moved
        except NonFiniteSteps:
            self.strategy.write_back()
            raise
        self.strategy.write_back()
        moved, self.moved = self.moved, False
        return moved

    def _count_update(self) -> None:
        if isinstance(self.model, ScoresRows):
            self.model.updated()

    def accumulate(self, batch: TensorDict) -> dict[str, float]:
        """Add the gradient of a batch to ``.grad``; return the losses by name.

        For loops of one's own, with :meth:`step`. The losses are means over this batch: the
        gradients of several batches are summed.

        Args:
            batch: the rows of an optimiser step, or some of them.

        Raises:
            ConfigError: the batch lacks keys that the losses read.
        """
        if self.model is not None:
            check_rows(type(self).__name__, batch, self.own.values(), {*self.model.out_keys})
        return Values(self.strategy.run(self, "differentiate", self._needed(batch)))

    def step(self, progress: float | None = None) -> float:
        """Take an optimiser step along the gradient in ``.grad``, and clear it.

        Args:
            progress: of the phase, in (0, 1], for the learning rate; the run's own if not given.

        Returns:
            The norm of the gradient, before it is clipped.

        Raises:
            ConfigError: there is no run and no progress, or progress is out of its range.
            NumericalError: the gradient is not finite; names the first bad tensor. It is cleared,
                and nothing else changes.
        """
        at = now() if progress is None else progress
        if not 0 < at <= 1:
            raise ConfigError(
                f"{self.name}.step: progress is {at}, and the learning rate follows it: give how "
                "much of the phase is over after this step, above 0 and at most 1"
            )
        norm = self.strategy.run(self, "step_along", at)
        self._count_update()
        return float(norm)

    def step_along(self, progress: float) -> Tensor:
        """Take the optimiser step of :meth:`step`; return the norm of the gradient."""
        try:
            norm = self.optimizer_step.norm(self.frozen)
            self.take(norm, progress)
        finally:
            self.optimizer.zero_grad()
        self.strategy.write_back()
        return norm

    def trace(self, batch: TensorDict) -> dict[str, str | None]:
        """Repeat an optimiser step without taking it; return the first bad key of each stage."""
        return trace(self, batch.to(self.trained[0].device))

    def _needed(self, batch: TensorDict) -> TensorDict:
        """Return the rows with the keys that model and losses read, checked and canonical."""
        if self.passes.reads_whole_batch:
            return batch.reshape(-1)
        assert self.model is not None
        name = type(self).__name__
        rows = needed_rows(self.model, batch, self.wanted, replayed=self.replayed, name=name)
        return self._on_device(rows)

    def _on_device(self, rows: TensorDict) -> TensorDict:
        device = self.trained[0].device
        return rows if device.type == "cpu" else rows.to(device)

    def differentiate(self, batch: TensorDict) -> dict[str, float]:
        """Accumulate the gradient of an optimiser step in ``.grad``; return its losses by name."""
        return self.passes.differentiate(batch, self.moved)

    def take(self, norm: Tensor, progress: float) -> None:
        """Step along the gradient in ``.grad``; record its norm and the learning rate."""
        lr = self.optimizer_step.take(norm, progress)
        for loss in self.own.values():
            loss.after_step()
        record(f"{self.name}/grad_norm", norm)
        record(f"{self.name}/lr", lr)

    def freeze(self, names: Iterable[str]) -> None:
        """Leave these parameters, and only these, out of the steps from here on."""
        self.frozen = frozenset(names)

    def forget_moments(self) -> None:
        """Reset the optimiser, as if it had never stepped."""
        self.strategy.run(self, "clear_moments")

    def clear_moments(self) -> None:
        """Clear the optimiser state."""
        self.optimizer.state.clear()

    def run_state(self) -> dict[str, object]:
        """Return the optimiser state, and the frozen parameters where there are any."""
        frozen = {"frozen": sorted(self.frozen)} if self.frozen else {}
        return {"optimizer": self.strategy.run(self, "moments"), **frozen}

    def moments(self) -> dict[str, Any]:
        """Return the optimiser state of whole parameters."""
        return self.optimizer_step.state()

    def load_run_state(self, state: dict[str, object]) -> None:
        """Restore the moments by the parameters' names; hyperparameters are the config's.

        Raises:
            CheckpointError: the state is another optimiser's, or of other parameters.
        """
        frozen = frozenset(field({"frozen": [], **state}, "frozen", list))
        if unknown := frozen.difference(self.trained_names):
            raise CheckpointError(f"frozen names parameters that {self.name} lacks: {unknown}")
        moments = self.optimizer_step.matched(self.name, field(state, "optimizer", dict))
        self.strategy.run(self, "take_moments", moments)
        self.frozen = frozen

    def take_moments(self, whole: dict[str, Any]) -> None:
        """Load an optimiser state of whole parameters."""
        self.optimizer_step.load(whole)
