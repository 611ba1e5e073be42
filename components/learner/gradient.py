"""Learner that takes minibatch gradient steps on a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from components.learner.anomaly import MedianSpike, SkipNonFinite
from components.learner.checks import (
    check_losses,
    check_micro_batches,
    check_rows,
    check_sampling,
    read_keys,
)
from components.learner.gradient_passes import GradientPasses
from components.learner.gradient_rows import select_rows
from components.learner.loss_value import LossValues
from components.learner.minibatch_step import limit_minibatches, minibatch_step, trace_step
from components.learner.optimizer_step import OptimizerStep
from rlcomp.arguments import MinLen, NonEmptyText, PositiveFloat, PositiveInt
from rlcomp.checkpoint.state_fields import field
from rlcomp.component import Component
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.minibatch import minibatches
from rlcomp.errors import CheckpointError, ConfigError, NonFiniteSteps
from rlcomp.interfaces.loss import Loss
from rlcomp.interfaces.policy import Policy, ScoresRows
from rlcomp.metrics import progress as current_progress
from rlcomp.metrics import record, record_total
from rlcomp.parallel.data_parallel import choose_strategy
from rlcomp.seed import new_generator


def constant(progress: float) -> float:
    """Return 1, the multiplier of a constant learning rate."""
    del progress
    return 1.0


class Learner(Component):
    """Learner: epochs of minibatch optimiser steps, with gradient accumulation over micro-batches.

    The model runs once per micro-batch for all losses. Rows that contribute no gradient to any loss
    are not differentiated: rows with advantage 0, if the losses have no KL and no entropy bonus. On
    the first step after sampling such rows need no forward either, because their log-probs are
    recorded.

    Reads the keys that the model and the losses read. Writes nothing into the batch.

    Args:
        model: module that writes ``log_probs``, ``entropy``, ...; None: each loss holds its own
            model, as torchrl's losses do.
        losses: losses by name. The learner minimises the sum of all their entries whose names start
            with ``loss``.
        optimizer: function of the named parameters, e.g. a partial of ``torch.optim.AdamW``.
        schedule: learning-rate multiplier as a function of the phase's progress in (0, 1].
        num_minibatches: optimiser steps per pass over the batch.
        epochs: passes over the batch.
        micro_batch_tokens: tokens per forward; padding counts if the model pads. None: no split.
            It changes the memory, not the numbers.
        max_grad_norm: largest norm of the gradient; a larger gradient is scaled down to it. None:
            no clipping.
        name: prefix of the metrics, as in ``learner/grad_norm``.
        non_finite: counter of the steps skipped because their loss or gradient is not finite, which
            also stops the run. None: the counter with its defaults.
        gradient_spike: detector of steps with a far larger gradient than usual. None: the detector
            with its defaults.

    Raises:
        ConfigError: a module in ``losses`` is no loss, a loss is a mean over its rows although
            ``micro_batch_tokens`` is set, or sampling settings do not fit the number of steps.
        NonFiniteSteps: a loss or the gradient was not finite in several consecutive steps.
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
        self.frozen: frozenset[str] = frozenset()  # names of parameters that no step changes
        self.weights_changed = False  # whether a step on this batch was taken
        decoding = model.decoding if isinstance(model, Policy) else Decoding()
        check_sampling(decoding, num_minibatches * epochs)
        self.replays_sampling = num_minibatches * epochs > 1 and decoding.truncates
        self._build_step(optimizer)

    def _build_step(
        self, optimizer: Callable[[Iterable[tuple[str, Tensor]]], torch.optim.Optimizer]
    ) -> None:
        """Build the strategy, the passes and the optimiser of a step."""
        named = [(name, p) for name, p in self.named_parameters() if p.requires_grad]
        loss_parameters = [p for p in self.losses.parameters() if p.requires_grad]
        sums = all(isinstance(loss, Loss) for loss in self.losses.values())
        self.strategy = choose_strategy(self.model, loss_parameters, sums=sums)
        self.loss_keys = read_keys(dict(self.losses.items()))
        self.passes = GradientPasses(
            self.model,
            self.losses,
            self.loss_keys,
            self.strategy,
            micro_batch_tokens=self.micro_batch_tokens,
            name=self.name,
        )
        self.row_losses, self.unit_rows = self.passes.row_losses, self.passes.unit_rows
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
        """Take ``epochs * num_minibatches`` optimiser steps; return the batch unchanged."""
        if self.strategy.run(self, "update", self._select_rows(batch)):
            self._update_version()
        return batch

    def update(self, rows: TensorDict) -> bool:
        """Take the optimiser steps of a batch; return whether one was taken."""
        if not len(rows):  # A filter has dropped all rows.
            record_total(f"{self.name}/tokens", 0.0)
            return False
        rows, self.weights_changed = self._on_device(rows), False
        count = limit_minibatches(len(rows) // self.unit_rows, self.num_minibatches, self.name)
        try:
            for _ in range(self.epochs):
                for minibatch in minibatches(rows, count, self.unit_rows, self.generator):
                    self.weights_changed |= minibatch_step(self, minibatch)
        except NonFiniteSteps:
            self.strategy.write_back()
            raise
        self.strategy.write_back()
        changed, self.weights_changed = self.weights_changed, False
        return changed

    def _update_version(self) -> None:
        """Increase the version of the policy's weights."""
        if isinstance(self.model, ScoresRows):
            self.model.updated()

    def accumulate(self, batch: TensorDict) -> dict[str, float]:
        """Add the gradient of a batch to ``.grad``; return the losses by name.

        A user's own loop calls it before :meth:`step`. The losses are means over this batch. The
        gradients of several calls add up.

        Args:
            batch: all rows of an optimiser step, or some of them.

        Raises:
            ConfigError: the batch lacks keys that the losses read.
        """
        if self.model is not None:
            check_rows(type(self).__name__, batch, self.row_losses.values(), {*self.model.out_keys})
        return LossValues(self.strategy.run(self, "differentiate", self._select_rows(batch)))

    def step(self, progress: float | None = None) -> float:
        """Take an optimiser step along the gradient in ``.grad``, and clear it.

        Args:
            progress: progress of the phase in (0, 1], for the learning rate. None: the progress of
                the current run.

        Returns:
            The norm of the gradient before clipping.

        Raises:
            ConfigError: there is no run and no progress, or progress is not in (0, 1].
            NumericalError: the gradient is not finite; the message names the first such tensor. The
                gradient is cleared, and nothing else changes.
        """
        value = current_progress() if progress is None else progress
        if not 0 < value <= 1:
            raise ConfigError(
                f"{self.name}.step: progress is {value}: give the share of the phase that is over "
                "after this step, above 0 and at most 1, for the learning rate"
            )
        norm = self.strategy.run(self, "step_along", value)
        self._update_version()
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
        """Repeat an optimiser step without taking it; return each stage's first non-finite key."""
        return trace_step(self, batch.to(self.trained[0].device))

    def _select_rows(self, batch: TensorDict) -> TensorDict:
        """Return the rows, checked and canonical, with the keys that model and losses read."""
        if self.passes.reads_whole_batch:
            return batch.reshape(-1)
        assert self.model is not None
        name = type(self).__name__
        rows = select_rows(
            self.model, batch, self.loss_keys, replays_sampling=self.replays_sampling, name=name
        )
        return self._on_device(rows)

    def _on_device(self, rows: TensorDict) -> TensorDict:
        """Return the rows on the device of the trained parameters."""
        device = self.trained[0].device
        return rows if device.type == "cpu" else rows.to(device)

    def differentiate(self, batch: TensorDict) -> dict[str, float]:
        """Accumulate the gradient of an optimiser step in ``.grad``; return its losses by name."""
        return self.passes.differentiate(batch, self.weights_changed)

    def take(self, norm: Tensor, progress: float) -> None:
        """Step along ``.grad``, and update the losses; record norm and learning rate."""
        lr = self.optimizer_step.take(norm, progress)
        for loss in self.row_losses.values():
            loss.after_step()
        record(f"{self.name}/grad_norm", norm)
        record(f"{self.name}/lr", lr)

    def freeze(self, names: Iterable[str]) -> None:
        """Freeze exactly these parameters in all later steps."""
        self.frozen = frozenset(names)

    def forget_moments(self) -> None:
        """Clear the optimiser state on every rank."""
        self.strategy.run(self, "clear_moments")

    def clear_moments(self) -> None:
        """Clear the optimiser state of this process."""
        self.optimizer.state.clear()

    def run_state(self) -> dict[str, object]:
        """Return the optimiser state, and the names of the frozen parameters if there are any."""
        frozen = {"frozen": sorted(self.frozen)} if self.frozen else {}
        return {"optimizer": self.strategy.run(self, "moments"), **frozen}

    def moments(self) -> dict[str, Any]:
        """Return the optimiser state of whole parameters."""
        return self.optimizer_step.state()

    def load_run_state(self, state: dict[str, object]) -> None:
        """Restore the optimiser's moments by the names of parameters, and the frozen parameters.

        The hyperparameters of the optimiser stay as in the config.

        Raises:
            CheckpointError: the state is of another optimiser or of other parameters.
        """
        frozen = frozenset(field({"frozen": [], **state}, "frozen", list))
        if unknown := frozen.difference(self.trained_names):
            raise CheckpointError(f"frozen names parameters that {self.name} lacks: {unknown}")
        moments = self.optimizer_step.match_state(self.name, field(state, "optimizer", dict))
        self.strategy.run(self, "load_moments", moments)
        self.frozen = frozen

    def load_moments(self, state: dict[str, Any]) -> None:
        """Load an optimiser state of whole parameters."""
        self.optimizer_step.load(state)
