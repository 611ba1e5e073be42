"""Multi-objective learner: one gradient per objective, aggregated (MGDA, UPGrad, ...)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from components.learner.checks import compared_parameters, reading_advantage
from components.learner.gradient import Learner, constant
from components.learner.gradient_passes import PREPARED
from components.learner.gradient_spike.median import MedianSpike
from components.learner.loss_value import loss_value
from components.learner.non_finite.skip import SkipNonFinite
from rlcomp.arguments import NonEmptyText, PositiveFloat, PositiveInt
from rlcomp.component import limit_outputs
from rlcomp.errors import ConfigError, ShapeError, require
from rlcomp.functional.gradients import combined_row, reached, row_moments
from rlcomp.metrics import record, recording
from rlcomp.pareto.aggregator import Aggregator, Objectives, weighed
from rlcomp.pareto.objectives import stacked


class PerObjectiveLearner(Learner):
    """Multi-gradient learner: steps along an aggregated gradient of several objectives.

    ``g = sum_k w_k grad L_k + grad L_other`` with ``w`` from the aggregator (MGDA, UPGrad, ...).

    In every optimiser step the losses that read ``advantage`` are differentiated once per
    objective, on ``advantages[..., k]``, after one model forward per micro-batch; when all
    micro-batches are in, the aggregator weighs the rows of that Jacobian. Other losses (KL,
    entropy, value) are no objectives: their gradient is added once, with weight 1. A penalty inside
    the policy loss is part of every objective. What the policy loss records is a mean over the
    objectives; ``loss/policy`` is their weighted sum.

    What an aggregator promises (UPGrad: to go against no objective) holds for the gradients of the
    step's rows, noise included, and along the combined gradient; an objective whose gradient is
    mostly noise may still fall, and Adam, which scales each coordinate, takes another direction.

    The aggregator of ``advantage=per_objective`` has no effect on the policy loss here: it makes
    ``advantage``, and each objective's own stands in ``advantages``. Those are divided by
    ``advantage_scale``; an aggregator of returns (``dg/dJ``) is shown the gradients times it.

    Time: one forward and ``K`` backward passes. Memory beside the learner's own: the Jacobian,
    ``K`` numbers for each compared parameter, in its dtype (recorded as ``pareto/jacobian_mib``),
    and one more row of it while a micro-batch is added.

    Reads ``advantages`` ``[B, T, K]``, ``rewards`` (``{name: [B]}``: names and returns, in the same
    order), ``reward_valid`` ``[B]``, where they are there ``advantage_scale`` and ``preference``
    (``[B, K]``), and what the model and the losses read. Writes nothing into the batch.

    Args:
        model: writes ``log_probs``, ``entropy``, ...
        losses: by name; at least one reads ``advantage``.
        aggregator: weighs the objectives' gradients (of what is maximised); must give one weight
            per objective.
        compared: a regular expression, found in the names of the trained parameters whose
            gradients are compared, e.g. ``lora_``; null for all. The others follow the same
            weighted sum, which a second pass over the micro-batches finds.
        optimizer: called with the named parameters, e.g. a partial of ``torch.optim.AdamW``.
        schedule: learning-rate multiplier as a function of the phase's progress in (0, 1).
        num_minibatches: optimiser steps per pass over the batch.
        epochs: passes over the batch.
        micro_batch_tokens: tokens per forward; null for no split. Changes memory, not numbers.
        max_grad_norm: the combined gradient is scaled down to this norm; null for no clipping.
        name: what its metrics are called: ``learner/grad_norm``.
        non_finite: counts skipped steps, whose loss or gradient is not finite, and says when to
            stop; null: one with its defaults.
        gradient_spike: tells steps whose gradient is far above the usual; null: one with its
            defaults.

    Raises:
        ConfigError: a loss holds its own model, no loss reads ``advantage``, ``compared`` is found
            in no name, or the aggregator weighs row by row.
        MissingExtra: torchjd is not installed.
        NonFiniteSteps: as :class:`Learner`; names the objective.
        ShapeError: ``advantages`` does not have one advantage for each of ``rewards``.

    Source:
        Quinton & Rey 2024, arXiv:2406.16232 (Jacobian descent); Désidéri 2012 (MGDA).
    """

    keys = {
        "advantage_scale": (
            "B K",
            "float",
            "what each of advantages was divided by; the same in all rows",
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
        if self.strategy.in_parts:
            raise ConfigError(
                "learner compares whole gradients of objectives, and parallel=shard has parts of "
                "them: use parallel=replicate"
            )
        self._jac = require("torchjd", "pareto").autojac.jac
        self._per_objective = reading_advantage(losses)
        self._shared = [name for name in losses if name not in self._per_objective]
        self.compared = compared
        self._selected = compared_parameters(self.named_parameters(), compared)
        chosen = {id(parameter) for parameter in self._selected}
        self._left_out = [p for p in self.trained if id(p) not in chosen]
        self.aggregator = aggregator
        self.passes.others.append(aggregator)
        self.wanted.update(self.reads, self.optional)  # the set of the passes

    def differentiate(self, batch: TensorDict) -> dict[str, float]:
        """Put the aggregated gradient of a step into ``.grad``; return its losses by name."""
        names, rewards = stacked(batch["rewards"])
        known = rewards.masked_fill(~batch["reward_valid"].cpu()[:, None], torch.nan)
        rows = self._prepared(batch, len(names))
        used: set[int] = set()
        jacobian = [p.new_zeros(len(names), *p.shape) for p in self._selected]

        def one(micro: TensorDict) -> dict[str, float]:
            with torch.enable_grad(), limit_outputs(self.wanted):
                values = self._add_rows(jacobian, used, micro)
            return {entry: float(value.detach()) for entry, value in values.items()}

        totals = self.passes.add_up(rows, one, [*rows[PREPARED].keys()])
        jacobian = [self.strategy.total(part) for part in jacobian]
        own_places = {place for place, p in enumerate(self._selected) if id(p) in used}
        reached_by_any = self.strategy.union(own_places)
        weights = self._weights(names, known, jacobian, batch)
        for place, (parameter, part) in enumerate(zip(self._selected, jacobian, strict=True)):
            # Without a gradient the optimiser skips it; at 0 it would decay it.
            if place not in reached_by_any:
                continue
            own = combined_row(weights, part)
            parameter.grad = own if parameter.grad is None else parameter.grad + own
        if self._left_out:
            self._follow(rows, weights)
        return {name: totals[name] for name in self._shared} | {
            name: sum(float(w) * totals[f"{name}.{k}"] for k, w in enumerate(weights))
            for name in self._per_objective
        }

    def _prepared(self, batch: TensorDict, number: int) -> TensorDict:
        """Return the rows with the step-level keys of each loss, per objective if it reads one."""
        if batch["advantages"].shape[-1] != number:
            raise ShapeError(
                f"'advantages' has shape {list(batch['advantages'].shape)}, but 'rewards' holds "
                f"{number} objectives ({', '.join(batch['rewards'].keys())})"
            )
        outputs = self.passes.with_full_batch_outputs(batch)
        entries = {
            name: self.own[name].prepare(self.own[name].view(outputs)) for name in self._shared
        }
        for k in range(number):
            advantage = batch["advantages"][..., k]
            of_objective = outputs.copy().set("advantage", advantage)
            for name in self._per_objective:
                loss = self.own[name]
                prepared = loss.prepare(loss.view(of_objective))
                # A name cannot hold a dot: it is the name of a module.
                entries[f"{name}.{k}"] = prepared.copy().set("advantage", advantage)
        return batch.copy().update({(PREPARED, name): entry for name, entry in entries.items()})

    def _add_rows(
        self, jacobian: list[Tensor], used: set[int], micro: TensorDict
    ) -> dict[str, Tensor]:
        """Add a micro-batch to the Jacobian, and the gradient of the other losses to ``.grad``.

        The ids of the parameters that have a row are added to ``used``.
        """
        outputs = self.passes.read(micro)
        shared = {name: self._value(name, name, outputs, micro) for name in self._shared}
        if shared:
            torch.stack([*shared.values()]).sum().backward(retain_graph=True)  # type: ignore[no-untyped-call]
        number = len(jacobian[0])
        for k in range(number):
            values = {
                f"{n}.{k}": self._value(n, f"{n}.{k}", outputs, micro) for n in self._per_objective
            }
            shared |= values
            # Our own functions have no rule for torch.vmap: one row at a time.
            loss = torch.stack([*values.values()]).sum()
            used |= reached(loss, self._selected)
            rows = self._jac(
                [loss], self._selected, retain_graph=k + 1 < number, parallel_chunk_size=1
            )
            for part, row in zip(jacobian, rows, strict=True):
                part[k] += row[0]
        return shared

    def _value(self, name: str, entry: str, outputs: TensorDict, micro: TensorDict) -> Tensor:
        return loss_value(name, self.losses[name], outputs.copy().update(micro[PREPARED, entry]))

    def _weights(
        self, names: tuple[str, ...], rewards: Tensor, jacobian: list[Tensor], batch: TensorDict
    ) -> Tensor:
        size = sum(part.numel() * part.element_size() for part in jacobian)
        record("pareto/jacobian_mib", size / 2**20)
        wanted, units = batch.get("preference", None), batch.get("advantage_scale", None)
        gram, means = row_moments(jacobian)
        weights = weighed(
            self.aggregator,
            Objectives(
                names=names,
                returns=rewards.nanmean(0),
                means=-means,  # a loss falls where its objective rises
                gram=gram,
                preference=None if wanted is None else wanted.double().cpu(),
                units=None if units is None else units[0].double().cpu(),
            ),
            "gradient",
        )
        if weights.ndim != 1:
            raise ConfigError(
                f"learner.aggregator is {type(self.aggregator).__name__}, which weighs the "
                "objectives row by row, but a gradient belongs to all rows: give it to "
                "advantage=per_objective (pareto@advantage.aggregator=...) with learner=policy"
            )
        return weights

    def _follow(self, rows: TensorDict, weights: Tensor) -> None:
        """Add the gradient of the weighted sum to the parameters outside the Jacobian."""

        def one(micro: TensorDict) -> dict[str, float]:
            with torch.enable_grad(), limit_outputs(self.wanted), recording():
                outputs = self.passes.read(micro)
                values = [
                    float(weight) * self._value(name, f"{name}.{k}", outputs, micro)
                    for k, weight in enumerate(weights)
                    for name in self._per_objective
                ]
                torch.autograd.backward(torch.stack(values).sum(), inputs=self._left_out)
            return {}

        self.passes.add_up(rows, one, [])
