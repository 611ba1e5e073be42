"""The stage that learns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from rlcomp.arguments import NonEmptyText, PositiveFloat, PositiveInt
from rlcomp.component import Component, asking
from rlcomp.engine.decoding import Sampling
from rlcomp.engine.minibatch import micro_batches, minibatches
from rlcomp.errors import ConfigError, NumericalError
from rlcomp.interfaces.loss import Loss
from rlcomp.keys import SCHEMA
from rlcomp.metrics import progress, record
from rlcomp.model.critic import Critic
from rlcomp.model.language_model import LanguageModel
from rlcomp.seed import new_generator


def constant(progress: float) -> float:
    """The learning rate as it is."""
    del progress
    return 1.0


class Learner(Component):
    """Gradient steps on a batch: one model forward per micro-batch, then every loss on it.

    Reads what the model and the losses read. Writes nothing into the batch.

    Args:
        model: writes ``log_probs``, ``entropy``, ...; null when the losses hold their own
            (torchrl's).
        losses: by objective name; every entry they return whose name starts with ``loss`` is
            summed.
        optimizer: called with the parameters, e.g. a partial of ``torch.optim.AdamW``.
        schedule: learning-rate multiplier as a function of the phase's progress in (0, 1).
        num_minibatches: optimiser steps per pass over the batch.
        epochs: passes over the batch.
        micro_batch_tokens: tokens per forward, as the model reads them (padding counts where it
            pads); null for no split. Changes memory, not numbers.
        max_grad_norm: gradients are scaled down to this norm; null for no clipping.
        name: what its metrics are called: ``learner/grad_norm``.

    Raises:
        ConfigError: micro-batches with a loss that averages over what it is given.
        NumericalError: the gradient is not finite.
    """

    runs = ("model", "losses")
    contained = True

    def __init__(
        self,
        *,
        model: TensorDictModuleBase | None,
        losses: dict[str, TensorDictModuleBase],
        optimizer: Callable[[Iterable[Tensor]], torch.optim.Optimizer],
        schedule: Callable[[float], float] = constant,
        num_minibatches: PositiveInt = 1,
        epochs: PositiveInt = 1,
        micro_batch_tokens: PositiveInt | None = None,
        max_grad_norm: PositiveFloat | None = 1.0,
        name: NonEmptyText = "learner",
    ) -> None:
        super().__init__()
        self.model = model
        self.losses = torch.nn.ModuleDict(losses)
        self.schedule = schedule
        self.num_minibatches = num_minibatches
        self.epochs = epochs
        self.micro_batch_tokens = micro_batch_tokens
        self.max_grad_norm = max_grad_norm
        self.name = name
        self.generator = new_generator()
        _check_micro_batches(losses, micro_batch_tokens)
        sampling = model.sampling if isinstance(model, LanguageModel) else Sampling()
        _check_sampling(sampling, num_minibatches * epochs)
        self.replayed = num_minibatches * epochs > 1 and sampling.truncates
        self.own = {name: loss for name, loss in losses.items() if isinstance(loss, Loss)}
        self.packed = isinstance(model, (LanguageModel, Critic)) and model.packs
        self.unit_rows = math.lcm(*(loss.unit_rows for loss in self.own.values()))
        self.trained = [p for p in self.parameters() if p.requires_grad]
        self.optimizer = optimizer(self.trained)
        self.base_lr = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.wanted = {key for loss in losses.values() for key in loss.in_keys}
        self.wanted |= {
            key
            for part in self.losses.modules()
            if isinstance(part, Component)
            for key in (*part.in_keys, *part.optional)
        }

    def forward(self, batch: TensorDict) -> TensorDict:
        """Take ``epochs * num_minibatches`` optimiser steps."""
        rows = self._needed(batch)
        for _ in range(self.epochs):
            for part in minibatches(rows, self.num_minibatches, self.unit_rows, self.generator):
                self._step(part)
        return batch

    def _needed(self, batch: TensorDict) -> TensorDict:
        if len(self.own) < len(self.losses) or self.model is None:
            return batch.reshape(-1)
        if self.replayed and "kept_tokens" not in batch.keys():
            raise ConfigError(
                "sampling.replay is true and the learner takes several optimiser steps a batch, "
                "but the batch has no kept_tokens: its rows are not the policy's own rollouts; use "
                "sampling=full, or one optimiser step a batch"
            )
        needed = self.wanted | set(self.model.in_keys) | {"attention_mask"}
        if isinstance(self.model, Component):
            needed |= set(self.model.optional)
        rows = batch.select(*needed, strict=False)
        where = self.trained[0].device
        return rows if where.type == "cpu" else rows.to(where)

    def _step(self, batch: TensorDict) -> None:
        self.optimizer.zero_grad()
        for name, value in self._differentiated(batch).items():
            record(f"loss/{name}", value)
        self._update()

    def _differentiated(self, batch: TensorDict) -> dict[str, float]:
        """Leave the gradient of an optimiser step in ``.grad``; the losses of the step by name."""
        seen = self._looked_ahead(batch)
        fixed = {name: loss.prepare(loss.view(seen)) for name, loss in self.own.items()}
        rows = batch.copy().update({("prepared", name): entry for name, entry in fixed.items()})
        names = list(self.losses)
        totals = dict.fromkeys(names, 0.0)
        for micro in self._micro_batches(rows):
            with torch.enable_grad(), asking(self.wanted):
                seen = self._read(micro)
                values = {name: self._value(name, self._view(name, seen, micro)) for name in names}
                total = sum(values.values(), torch.zeros(()))
                total.backward()  # type: ignore[no-untyped-call]
            for name, value in values.items():
                totals[name] += float(value.detach())
        return totals

    def _micro_batches(self, rows: TensorDict) -> Iterator[TensorDict]:
        return micro_batches(rows, self.micro_batch_tokens, self.unit_rows, packed=self.packed)

    def _looked_ahead(self, batch: TensorDict) -> TensorDict:
        """With the model's outputs for all rows, where a loss must see them before the split."""
        if self.model is None or not any(loss.looks_ahead for loss in self.own.values()):
            return batch
        rows = batch.copy()
        rows["row"] = torch.arange(batch.shape[0], device=batch["attention_mask"].device)
        # Whole distributions are neither asked for nor kept: [B, T, V] of a step is too much.
        small = {key for key in self.wanted if key not in SCHEMA or SCHEMA[key].per_token}
        outputs: dict[str, Tensor] = {}
        with torch.no_grad(), asking(small):
            for micro in self._micro_batches(rows):
                seen = self.model(micro.copy())
                for key in small & set(self.model.out_keys):
                    empty = seen[key].new_zeros(batch["attention_mask"].shape)
                    outputs.setdefault(key, empty)[micro["row"], : seen[key].shape[1]] = seen[key]
        return batch.copy().update(outputs)

    def _read(self, micro: TensorDict) -> TensorDict:
        """A micro-batch with the model's outputs."""
        rows = micro.exclude("prepared")
        seen = rows if self.model is None else self.model(rows)
        if "entropy" in seen.keys() and "response_mask" in seen.keys():
            record("policy/entropy", seen["entropy"], where=seen["response_mask"])
        return seen

    def _view(self, name: str, seen: TensorDict, micro: TensorDict) -> TensorDict:
        """What a loss is to see of a micro-batch: with what it prepared, if it did."""
        return seen.copy().update(micro["prepared", name]) if name in self.own else seen

    def _value(self, name: str, view: TensorDict) -> Tensor:
        """What a loss says of a micro-batch, a scalar."""
        result = self.losses[name](view)
        for key, other in result.items():  # what a foreign loss measures beside
            if not key.startswith("loss") and other.numel() == 1:
                record(f"{name}/{key}", other)
        return self._summed(name, result)

    @staticmethod
    def _summed(name: str, result: TensorDict) -> Tensor:
        terms = [value for key, value in result.items() if key.startswith("loss")]
        if not terms:
            raise ConfigError(
                f"learner.losses.{name} returned {sorted(result.keys())}: a loss writes at least "
                "one scalar whose name starts with 'loss'"
            )
        return torch.stack(terms).sum()

    def _update(self) -> None:
        limit = self.max_grad_norm or float("inf")
        gradients = [p.grad for p in self.trained if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if not bool(norm.isfinite()):
            raise NumericalError(f"the gradient of {self._first_bad()} is not finite")
        torch.nn.utils.clip_grads_with_norm_(self.trained, limit, norm)
        multiplier = self.schedule(progress())
        for group, base in zip(self.optimizer.param_groups, self.base_lr, strict=True):
            group["lr"] = base * multiplier
        self.optimizer.step()
        for loss in self.own.values():
            loss.after_step()
        record(f"{self.name}/grad_norm", norm)
        record(f"{self.name}/lr", self.base_lr[0] * multiplier)

    def _first_bad(self) -> str:
        """The first parameter whose gradient is not finite; the norm alone may overflow as well."""
        for name, parameter in self.named_parameters():
            if parameter.grad is not None and not bool(parameter.grad.isfinite().all()):
                return str(name)
        return "all parameters together"

    def run_state(self) -> dict[str, object]:
        """The optimiser's state."""
        return {"optimizer": self.optimizer.state_dict()}

    def load_run_state(self, state: dict[str, object]) -> None:
        """Continue with the saved moments; learning rate, betas, ... are those of the config."""
        saved: Any = state["optimizer"]
        own = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({**saved, "param_groups": own})


def _check_micro_batches(
    losses: dict[str, TensorDictModuleBase], micro_batch_tokens: int | None
) -> None:
    foreign = [name for name, loss in losses.items() if not isinstance(loss, Loss)]
    if foreign and micro_batch_tokens is not None:
        raise ConfigError(
            f"learner.micro_batch_tokens is {micro_batch_tokens}, but loss '{foreign[0]}' "
            "averages over the rows it is given: splitting would change it; set it to null"
        )


def _check_sampling(sampling: Sampling, steps: int) -> None:
    if steps > 1 and sampling.truncates and not sampling.replay:
        raise ConfigError(
            f"sampling is {sampling} and learner.num_minibatches * learner.epochs is "
            f"{steps}: after the first step the policy would keep other tokens than the "
            "sampler did; use sampling=full, sampling.replay=true, or one optimiser step a "
            "batch"
        )
    if sampling.temperature == 0:
        raise ConfigError(
            "sampling.temperature is 0: a greedy policy has no gradient; set it above 0"
        )
