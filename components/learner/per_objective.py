"""Multi-objective learner that aggregates one gradient per objective (MGDA, UPGrad, ...)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from components.learner.anomaly import MedianSpike, SkipNonFinite
from components.learner.checks import objective_losses, select_parameters
from components.learner.gradient import Learner, constant
from components.learner.gradient_passes import PREPARED
from components.learner.loss_value import loss_value
from rlcomp.arguments import NonEmptyText, PositiveFloat, PositiveInt
from rlcomp.component import limit_outputs
from rlcomp.errors import ConfigError, ShapeError, require
from rlcomp.functional.gradients import combined_row, reachable_leaves, row_moments
from rlcomp.metrics import record, recording
from rlcomp.pareto.aggregator import Aggregator, Objectives, aggregation_weights
from rlcomp.pareto.objectives import stack_rewards


class PerObjectiveLearner(Learner):
    """Multi-gradient learner: steps along an aggregated gradient of several objectives.

    ``g = sum_k w_k grad L_k + grad L_other``. ``L_k`` is the sum of the losses that read
    ``advantage``, with the advantage of objective ``k`` of ``K``; ``L_other`` is the sum of the
    other losses; the aggregator (MGDA, UPGrad, ...) chooses the weights ``w``.

    In every optimiser step ``L_1`` to ``L_K`` are differentiated with the advantages
    ``advantages[..., k]``, after one model forward per micro-batch. The sums of these gradients
    over all micro-batches are the rows of the Jacobian that the aggregator weighs. Losses that do
    not read ``advantage`` (KL, entropy, value) have the weight 1. A penalty inside the policy loss
    is a part of every objective. The metrics of the policy loss are means over the objectives;
    ``loss/policy`` is their weighted sum.

    An aggregator's guarantee (UPGrad: no objective gets worse) holds for the gradients of the
    step's rows, with their noise, and along the combined gradient. An objective whose gradient is
    mostly noise may still get worse. Adam scales each coordinate and so takes another direction.

    The aggregator of ``advantage=per_objective`` has no effect on the policy loss of this learner:
    that aggregator computes ``advantage``, and this learner reads ``advantages``. These are divided
    by ``advantage_scale``. An aggregator of returns (``dg/dJ``) gets the gradients multiplied by
    ``advantage_scale``.

    Time: one forward pass and ``K`` backward passes. Additional memory: the Jacobian, ``K`` numbers
    for each compared parameter in its dtype (recorded as ``pareto/jacobian_mib``), and one more row
    of the Jacobian during a backward pass.

    Reads ``advantages`` ``[B, T, K]``, ``rewards`` (``{name: [B]}``: names and returns, in the same
    order), ``reward_valid`` ``[B]``, optionally ``advantage_scale`` and ``preference`` ``[B, K]``,
    and the keys that the model and the losses read. Writes nothing into the batch.

    Args:
        model: module that writes ``log_probs``, ``entropy``, ...
        losses: losses by name; at least one must read ``advantage``.
        aggregator: aggregator of the gradients of the objectives, which are maximised. It must
            return one weight per objective.
        optimizer: function of the named parameters, e.g. a partial of ``torch.optim.AdamW``.
        compared: regular expression of the names of the parameters that are the columns of the
            Jacobian, such as ``lora_``. None: all trained parameters. The other parameters get the
            gradient of the weighted sum in a second pass over the micro-batches.
        schedule: learning-rate multiplier as a function of the phase's progress in (0, 1].
        num_minibatches: optimiser steps per pass over the batch.
        epochs: passes over the batch.
        micro_batch_tokens: tokens per forward; None: no split. It changes the memory, not the
            numbers.
        max_grad_norm: largest norm of the combined gradient; None: no clipping.
        name: prefix of the metrics, as in ``learner/grad_norm``.
        non_finite: counter of the steps skipped because their loss or gradient is not finite, which
            also stops the run. None: the counter with its defaults.
        gradient_spike: detector of steps with a far larger gradient than usual. None: the detector
            with its defaults.

    Raises:
        ConfigError: a loss holds its own model, no loss reads ``advantage``, ``compared`` matches
            no name, ``parallel=shard`` is set, or the aggregator returns weights for each row.
        MissingExtra: torchjd is not installed.
        NonFiniteSteps: a loss or the gradient was not finite in several consecutive steps; the
            message names the objective.
        ShapeError: ``advantages`` and ``rewards`` have different numbers of objectives.

    Source:
        Quinton & Rey 2024, arXiv:2406.16232 (Jacobian descent); Désidéri 2012 (MGDA).
    """

    keys = {
        "advantage_scale": (
            "B K",
            "float",
            "divisor of each of advantages; the same in all rows",
            {"example": "same_in_all_rows"},
        )
    }
    equation = (
        "g = sum_k w_k grad L_k + grad L_other, L_k: the losses below that read A_t, with the "
        "advantage of objective k, w = {aggregator}"
    )
    reads = ("advantages", "rewards", "reward_valid")
    optional = ("preference", "advantage_scale")

    def __init__(
        self,
        *,
        model: TensorDictModuleBase,
        losses: dict[str, TensorDictModuleBase],
        aggregator: Aggregator,
        optimizer: Callable[[Iterable[tuple[str, Tensor]]], torch.optim.Optimizer],
        compared: str | None = None,
        schedule: Callable[[float], float] = constant,
        num_minibatches: PositiveInt = 1,
        epochs: PositiveInt = 1,
        micro_batch_tokens: PositiveInt | None = None,
        max_grad_norm: PositiveFloat | None = 1.0,
        name: NonEmptyText = "learner",
        non_finite: SkipNonFinite | None = None,
        gradient_spike: MedianSpike | None = None,
    ) -> None:
        super().__init__(
            model=model,
            losses=losses,
            optimizer=optimizer,
            schedule=schedule,
            num_minibatches=num_minibatches,
            epochs=epochs,
            micro_batch_tokens=micro_batch_tokens,
            max_grad_norm=max_grad_norm,
            name=name,
            non_finite=non_finite,
            gradient_spike=gradient_spike,
        )
        if self.strategy.is_sharded:
            raise ConfigError(
                "learner compares whole gradients of objectives, but parallel=shard splits them: "
                "use parallel=replicate"
            )
        self._jac = require("torchjd", "pareto").autojac.jac
        self.compared = compared
        self._set_objectives(losses)
        self.aggregator = aggregator  # later, so that its own parameters are not compared
        self.passes.other_modules.append(aggregator)

    def _set_objectives(self, losses: dict[str, TensorDictModuleBase]) -> None:
        """Divide the losses by whether they read ``advantage``, the parameters by ``compared``."""
        self._objective_losses = objective_losses(losses)
        self._shared_losses = [name for name in losses if name not in self._objective_losses]
        self._compared = select_parameters(self.named_parameters(), self.compared)
        compared_ids = {id(parameter) for parameter in self._compared}
        self._not_compared = [p for p in self.trained if id(p) not in compared_ids]
        # In place, because the passes hold the same set.
        self.loss_keys.update(self.reads, self.optional)

    def differentiate(self, batch: TensorDict) -> dict[str, float]:
        """Add the combined gradient of a step to ``.grad``; return its losses by name."""
        names, rewards = stack_rewards(batch["rewards"])
        valid_rewards = rewards.masked_fill(~batch["reward_valid"].cpu()[:, None], torch.nan)
        rows = self._prepare_rows(batch, len(names))
        reached_ids: set[int] = set()
        jacobian = [p.new_zeros(len(names), *p.shape) for p in self._compared]

        def run_pass(micro: TensorDict) -> dict[str, float]:
            with torch.enable_grad(), limit_outputs(self.loss_keys):
                values = self._add_to_jacobian(jacobian, reached_ids, micro)
            return {entry: float(value.detach()) for entry, value in values.items()}

        totals = self.passes.sum_passes(rows, run_pass, [*rows[PREPARED].keys()])
        jacobian = [self.strategy.total(block) for block in jacobian]
        local = {n for n, p in enumerate(self._compared) if id(p) in reached_ids}
        with_gradient = self.strategy.union(local)
        weights = self._weights(names, valid_rewards, jacobian, batch)
        for number, (parameter, block) in enumerate(zip(self._compared, jacobian, strict=True)):
            # The optimiser skips a parameter without a gradient, but decays one with gradient 0.
            if number not in with_gradient:
                continue
            gradient = combined_row(weights, block)
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        if self._not_compared:
            self._add_weighted_gradient(rows, weights)
        return {name: totals[name] for name in self._shared_losses} | {
            name: sum(float(w) * totals[f"{name}.{k}"] for k, w in enumerate(weights))
            for name in self._objective_losses
        }

    def _prepare_rows(self, batch: TensorDict, number: int) -> TensorDict:
        """Return the rows with the step-level keys of each loss.

        A loss that reads ``advantage`` has step-level keys for each of ``number`` objectives.
        """
        if batch["advantages"].shape[-1] != number:
            raise ShapeError(
                f"'advantages' has shape {list(batch['advantages'].shape)}, but 'rewards' holds "
                f"{number} objectives ({', '.join(batch['rewards'].keys())})"
            )
        outputs = self.passes.with_full_batch_outputs(batch)
        entries = {
            name: self.row_losses[name].prepare(self.row_losses[name].view(outputs))
            for name in self._shared_losses
        }
        for k in range(number):
            advantage = batch["advantages"][..., k]
            objective_outputs = outputs.copy().set("advantage", advantage)
            for name in self._objective_losses:
                loss = self.row_losses[name]
                prepared = loss.prepare(loss.view(objective_outputs))
                # No loss has such a name, because the name of a module contains no dot.
                entries[f"{name}.{k}"] = prepared.copy().set("advantage", advantage)
        return batch.copy().update({(PREPARED, name): entry for name, entry in entries.items()})

    def _add_to_jacobian(
        self, jacobian: list[Tensor], reached_ids: set[int], micro: TensorDict
    ) -> dict[str, Tensor]:
        """Add a micro-batch to the Jacobian, and the gradient of the other losses to ``.grad``.

        Args:
            jacobian: gradients ``[K, *shape]`` of each compared parameter, changed in place.
            reached_ids: set to which the ids of the parameters with a gradient are added.
            micro: the micro-batch.

        Returns:
            The values of the losses by name, with the objective's number after a dot.
        """
        outputs = self.passes.run_model(micro)
        shared = {name: self._value(name, name, outputs, micro) for name in self._shared_losses}
        if shared:
            torch.stack([*shared.values()]).sum().backward(retain_graph=True)  # type: ignore[no-untyped-call]
        number = len(jacobian[0])
        for k in range(number):
            values = {
                f"{name}.{k}": self._value(name, f"{name}.{k}", outputs, micro)
                for name in self._objective_losses
            }
            shared |= values
            # One row at a time, because our autograd functions have no rule for torch.vmap.
            loss = torch.stack([*values.values()]).sum()
            reached_ids |= reachable_leaves(loss, self._compared)
            rows = self._jac(
                [loss], self._compared, retain_graph=k + 1 < number, parallel_chunk_size=1
            )
            for block, row in zip(jacobian, rows, strict=True):
                block[k] += row[0]
        return shared

    def _value(self, name: str, entry: str, outputs: TensorDict, micro: TensorDict) -> Tensor:
        return loss_value(name, self.losses[name], outputs.copy().update(micro[PREPARED, entry]))

    def _weights(
        self, names: tuple[str, ...], rewards: Tensor, jacobian: list[Tensor], batch: TensorDict
    ) -> Tensor:
        """Return the aggregator's weights ``[K]`` and record the size of the Jacobian."""
        size = sum(block.numel() * block.element_size() for block in jacobian)
        record("pareto/jacobian_mib", size / 2**20)
        preference, units = batch.get("preference", None), batch.get("advantage_scale", None)
        gram, means = row_moments(jacobian)
        weights = aggregation_weights(
            self.aggregator,
            Objectives(
                names=names,
                returns=rewards.nanmean(0),
                means=-means,  # A loss is the negative of its objective.
                gram=gram,
                preference=None if preference is None else preference.double().cpu(),
                units=None if units is None else units[0].double().cpu(),
            ),
            "gradient",
        )
        if weights.ndim != 1:
            raise ConfigError(
                f"learner.aggregator is {type(self.aggregator).__name__}, which returns "
                "weights for each row, but a gradient belongs to all rows: use it in "
                "advantage=per_objective (pareto@advantage.aggregator=...) with learner=policy"
            )
        return weights

    def _add_weighted_gradient(self, rows: TensorDict, weights: Tensor) -> None:
        """Add the gradient of the weighted sum to the parameters outside the Jacobian."""

        def run_pass(micro: TensorDict) -> dict[str, float]:
            with torch.enable_grad(), limit_outputs(self.loss_keys), recording():
                outputs = self.passes.run_model(micro)
                values = [
                    float(weight) * self._value(name, f"{name}.{k}", outputs, micro)
                    for k, weight in enumerate(weights)
                    for name in self._objective_losses
                ]
                torch.autograd.backward(torch.stack(values).sum(), inputs=self._not_compared)
            return {}

        self.passes.sum_passes(rows, run_pass, [])
