"""The learner: minibatch gradient steps on a batch."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from components.learner.checks import (
    check_losses,
    check_micro_batches,
    check_routes,
    check_rows,
    check_sampling,
    wanted_keys,
)
from components.learner.full_batch import full_batch_forward
from components.learner.gradient_path import check_gradient
from components.learner.gradient_rows import OnPolicy, gradient_rows, recorded_outputs, sampled_keys
from components.learner.gradient_spike.median import MedianSpike
from components.learner.loss_value import loss_value
from components.learner.non_finite.skip import SkipNonFinite
from components.learner.trace import first_bad_gradient, trace
from components.learner.undo import undoing
from components.learner.values import Values
from rlcomp.arguments import MinLen, NonEmptyText, PositiveFloat, PositiveInt
from rlcomp.canonical import canonical
from rlcomp.checkpoint.optimizer_state import (
    check_moment_shapes,
    check_optimizer_state,
    match_optimizer_state,
)
from rlcomp.checkpoint.state_fields import field
from rlcomp.component import Component, asking
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.minibatch import micro_batches, minibatches
from rlcomp.errors import (
    CheckpointError,
    ConfigError,
    NonFiniteSteps,
    NumericalError,
    RlcompWarning,
)
from rlcomp.interfaces.loss import Loss
from rlcomp.interfaces.policy import PacksRows, Policy, ScoresRows
from rlcomp.metrics import progress as now
from rlcomp.metrics import record, record_total, recording
from rlcomp.model.memory_layout import check_dense, match_strides
from rlcomp.parallel.dealt import share_of
from rlcomp.parallel.share import Pass, Share
from rlcomp.seed import new_generator

# What the learner itself looks at; the rest is for the model and the losses to read.
_MASKS = ("attention_mask", "response_mask")
# What it adds to the batch for itself: no identifier, so that no key is declared by such a name.
PREPARED = "(prepared)"


def constant(progress: float) -> float:
    """Constant learning rate: multiplier 1."""
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
    share: Share

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
        check_micro_batches(losses, micro_batch_tokens)
        decoding = model.decoding if isinstance(model, Policy) else Decoding()
        check_sampling(decoding, num_minibatches * epochs)
        self.replayed = num_minibatches * epochs > 1 and decoding.truncates
        self.own = {name: loss for name, loss in losses.items() if isinstance(loss, Loss)}
        self.packed = isinstance(model, PacksRows) and model.packs
        self.unit_rows = math.lcm(*(loss.unit_rows for loss in self.own.values()))
        named = [(name, p) for name, p in self.named_parameters() if p.requires_grad]
        others = [p for p in self.losses.parameters() if p.requires_grad]
        # Past nn.Module: what it holds is the model's.
        share = share_of(model, others, sums=len(self.own) == len(self.losses))
        object.__setattr__(self, "share", share)
        named = [(name, share.part(p)) for name, p in named]
        self.trained = [parameter for _, parameter in named]
        self.trained_names = [name for name, _ in named]
        self.frozen: frozenset[str] = frozenset()
        self.moved = False
        self.optimizer = optimizer(named)
        share.check(self.optimizer)
        check_dense(self.optimizer)
        self.base_lr = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.wanted = wanted_keys(losses)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Take ``epochs * num_minibatches`` optimiser steps."""
        if self.share.together(self, "update", self._needed(batch)):
            self._updated()
        return batch

    def update(self, rows: TensorDict) -> bool:
        """Take these steps, on all ranks; whether one of them was taken: not of no rows."""
        if not len(rows):  # a filter has kept none
            record_total(f"{self.name}/tokens", 0.0)
            return False
        rows, self.moved = self._here(rows), False
        count = self._minibatch_count(len(rows) // self.unit_rows)
        try:
            for _ in range(self.epochs):
                for part in minibatches(rows, count, self.unit_rows, self.generator):
                    self.moved = self._step(part) or self.moved
        except NonFiniteSteps:
            self.share.gather()
            raise
        self.share.gather()
        taken, self.moved = self.moved, False
        return taken

    def _minibatch_count(self, units: int) -> int:
        """Return ``num_minibatches``, or the number of units where a filter has left fewer."""
        if 0 < units < self.num_minibatches:
            warnings.warn(
                f"{self.name}: num_minibatches is {self.num_minibatches}, but a batch has only "
                f"{units} units to share and takes {units} optimiser steps: lower num_minibatches "
                "or let more rows through",
                RlcompWarning,
                stacklevel=2,
            )
            return units
        return self.num_minibatches

    def _updated(self) -> None:
        if isinstance(self.model, ScoresRows):
            self.model.updated()

    def accumulate(self, batch: TensorDict) -> dict[str, float]:
        """Add the gradient of a batch to ``.grad``; give the losses by name.

        For loops of one's own, with :meth:`step`. The losses are means over this batch: the
        gradients of several batches are summed.

        Args:
            batch: the rows of an optimiser step, or some of them.

        Raises:
            ConfigError: it lacks keys that the losses read.
        """
        if self.model is not None:
            check_rows(type(self).__name__, batch, self.own.values(), {*self.model.out_keys})
        return Values(self.share.together(self, "differentiate", self._needed(batch)))

    def step(self, progress: float | None = None) -> float:
        """Take an optimiser step along the gradient in ``.grad``, and clear it.

        Args:
            progress: of the phase, in (0, 1], for the learning rate; in a run its own if not given.

        Returns:
            The norm of the gradient, before it is clipped.

        Raises:
            ConfigError: there is no run, and no progress; or it is out of its range.
            NumericalError: the gradient is not finite; names the first bad tensor. It is cleared,
                and nothing else has changed.
        """
        at = now() if progress is None else progress
        if not 0 < at <= 1:
            raise ConfigError(
                f"{self.name}.step: progress is {at}, and the learning rate follows it: give how "
                "much of the phase is over after this step, above 0 and at most 1"
            )
        norm = self.share.together(self, "step_along", at)
        self._updated()
        return float(norm)

    def step_along(self, progress: float) -> Tensor:
        """Take the step of :meth:`step`, on all ranks; its norm."""
        try:
            norm = self._norm()
            self._update(norm, progress)
        finally:
            self.optimizer.zero_grad()
        self.share.gather()
        return norm

    def trace(self, batch: TensorDict) -> dict[str, str | None]:
        """Repeat an optimiser step without taking it: of each stage what is not finite in it."""
        return trace(self, batch.to(self.trained[0].device))

    def _needed(self, batch: TensorDict) -> TensorDict:
        if len(self.own) < len(self.losses) or self.model is None:
            return batch.reshape(-1)
        if self.replayed and "sampling_mask" not in batch.keys():
            raise ConfigError(
                "decoding.replay is true and the learner takes several optimiser steps a batch, "
                "but the batch has no sampling_mask: its rows are not the policy's own rollouts; "
                "use decoding=full, or one optimiser step a batch"
            )
        check_routes(self.model, batch, self.wanted)
        needed = self.wanted | set(self.model.in_keys) | {"attention_mask"}
        if isinstance(self.model, Component):
            needed |= set(self.model.optional)
        needed |= sampled_keys(batch)
        rows = canonical(type(self).__name__, batch.select(*needed, strict=False), needed)
        return self._here(rows)

    def _here(self, rows: TensorDict) -> TensorDict:
        where = self.trained[0].device
        return rows if where.type == "cpu" else rows.to(where)

    def _step(self, batch: TensorDict) -> bool:
        """Take an optimiser step, unless its numbers say no; whether it was taken."""
        undo = undoing(self.parts_of_a_step())
        self.optimizer.zero_grad()
        try:
            norm = self._gradient(batch)
        except NumericalError as error:
            undo()
            self._skip(batch, error)
            return False
        spike = self.gradient_spike.is_spike(float(norm))
        skipped = spike and self.gradient_spike.action == "skip"
        if skipped:
            undo()
        else:
            self._update(norm)
        self._count(spike)
        return not skipped

    def parts_of_a_step(self) -> list[torch.nn.Module]:
        """What else than model and optimiser has state that a step changes."""
        return [*self.own.values()]

    def _gradient(self, batch: TensorDict) -> Tensor:
        """The gradient of an optimiser step in ``.grad``, and its norm."""
        if "response_mask" in batch.keys():
            record_total(f"{self.name}/tokens", float(batch["response_mask"].sum()))
        losses = self.differentiate(batch)
        norm = self._norm()
        for name, value in losses.items():
            if not math.isfinite(value):
                raise NumericalError(f"the loss {name} is {value}, its gradient is finite")
            record(f"loss/{name}", value)
        return norm

    def freeze(self, names: Iterable[str]) -> None:
        """Leave these parameters, and only these, out of the steps from here on."""
        self.frozen = frozenset(names)

    def forget_moments(self) -> None:
        """Go on as if the optimiser had never stepped."""
        self.share.together(self, "clear_moments")

    def clear_moments(self) -> None:
        """Clear them, on all ranks."""
        self.optimizer.state.clear()

    def _norm(self) -> Tensor:
        for name, parameter in zip(self.trained_names, self.trained, strict=True):
            if name in self.frozen:
                parameter.grad = None  # optimisers leave it as it is then, decay included
        norm = self.share.norm(self.trained)
        if not bool(norm.isfinite()):
            raise NumericalError(str(first_bad_gradient(self)))
        return norm

    def _skip(self, batch: TensorDict, error: NumericalError) -> None:
        """A step was not finite: count it, or stop."""
        record_total(f"{self.name}/non_finite", 1.0)
        if not self.non_finite.skipped():
            return
        number = self.non_finite.in_a_row
        steps = f"{number} optimiser steps in a row were" if number > 1 else "an optimiser step was"
        found = {stage: bad for stage, bad in self.trace(batch).items() if bad is not None}
        first = next((f"{bad} (in its {stage})" for stage, bad in found.items()), str(error))
        raise NonFiniteSteps(
            f"{steps} not finite ({self.name}.non_finite.limit is {self.non_finite.limit}); "
            f"first bad key: {first}; {error}: mend what writes that key, or lower the learning "
            "rate",
            self,
            batch,
        ) from error

    def _count(self, spike: bool) -> None:
        """A step was finite: say so, and whether it was a spike."""
        self.non_finite.taken()
        record_total(f"{self.name}/non_finite", 0.0)
        record_total(f"{self.name}/gradient_spikes", float(spike))

    def differentiate(self, batch: TensorDict) -> dict[str, float]:
        """Accumulate the gradient of an optimiser step in ``.grad``; return its losses by name."""
        seen = self._with_full_batch_forward(batch)
        fixed = {name: loss.prepare(loss.view(seen)) for name, loss in self.own.items()}
        rows = batch.copy().update({(PREPARED, name): entry for name, entry in fixed.items()})
        chosen, rest = self._split(rows)
        on_policy = OnPolicy(self.model, self.wanted, self.moved)
        compare = on_policy.compare if rest is not None else None
        totals = self.summed(chosen, partial(self._pass, compare=compare), list(self.losses))
        if rest is not None:
            self._without_gradient(rest, on_policy.knows(rest), totals)
        return totals

    def summed(self, rows: TensorDict, one: Pass, names: Sequence[str]) -> dict[str, float]:
        """What passes over the micro-batches of a step give, summed by name."""
        return self.share.add_up(
            rows,
            self.micro_batches,
            one,
            self._idle,
            names=names,
            parts=self.parts_of_a_step(),
        )

    def _pass(
        self, micro: TensorDict, compare: Callable[[TensorDict], None] | None = None
    ) -> dict[str, float]:
        """Add the gradient of a micro-batch to ``.grad``; its losses by name."""
        with torch.enable_grad(), asking(self.wanted):
            seen = self._read(micro)
            try:
                values = self._values(seen, micro)
            except NumericalError:
                self.share.nothing(seen)
                raise
            if not all(value.requires_grad for value in values.values()):
                views = {name: self._view(name, seen, micro) for name in self.losses}
                check_gradient(self.losses, values, views)
            total = sum(values.values(), torch.zeros(()))
            total.backward()  # type: ignore[no-untyped-call]
        if compare is not None:
            compare(seen)
        return {name: float(value.detach()) for name, value in values.items()}

    def _idle(self, micro: TensorDict) -> dict[str, float]:
        """A pass for the sake of other ranks: nothing is learnt from it."""
        with torch.enable_grad(), asking(self.wanted), recording():
            self.share.nothing(self._read(micro))
        return {}

    def _split(self, rows: TensorDict) -> tuple[TensorDict, TensorDict | None]:
        """Rows that the gradient flows through, and the others; None for none.

        Ranks read all: each has its part of the rows anyway, and all make equally many passes.
        """
        if len(self.own) < len(self.losses) or self.model is None:
            return rows, None
        needed = gradient_rows(self.own.values(), rows.exclude(PREPARED), self.unit_rows)
        if needed is None:
            return rows, None
        record(f"{self.name}/rows_without_gradient", ~needed)
        if not self.share.alone or bool(needed.all()):
            return rows, None
        return rows[needed], rows[~needed]

    def _without_gradient(self, rows: TensorDict, known: bool, totals: dict[str, float]) -> None:
        """Add the losses of rows without a gradient, and record their metrics."""
        with torch.no_grad(), asking(self.wanted):
            if known:
                seen = recorded_outputs(rows.exclude(PREPARED))
                _add(totals, self._values(seen, rows))
                return
            for micro in self.micro_batches(rows):
                _add(totals, self._values(self._read(micro), micro))

    def _values(self, seen: TensorDict, micro: TensorDict) -> dict[str, Tensor]:
        """The losses of a micro-batch, by name."""
        return {
            name: loss_value(name, loss, self._view(name, seen, micro))
            for name, loss in self.losses.items()
        }

    def micro_batches(self, rows: TensorDict, tokens: int | None = None) -> Iterator[TensorDict]:
        """The rows of an optimiser step, as the model reads them one after the other.

        Args:
            rows: of the step.
            tokens: the most of a micro-batch, where that is less than ``micro_batch_tokens``.
        """
        limits = [limit for limit in (tokens, self.micro_batch_tokens) if limit is not None]
        return micro_batches(rows, min(limits, default=None), self.unit_rows, packed=self.packed)

    def _with_full_batch_forward(self, batch: TensorDict) -> TensorDict:
        """Add no-gradient model outputs for all rows of the step, if a loss needs them."""
        if self.model is None or not any(
            loss.needs_full_batch_forward for loss in self.own.values()
        ):
            return batch
        forward = partial(full_batch_forward, self.share.module, batch, self.wanted)
        outputs = self.share.forward_of_all(forward, self.micro_batches)
        return batch.copy().update(outputs)

    def _read(self, micro: TensorDict) -> TensorDict:
        """A micro-batch with the model's outputs."""
        rows = micro.exclude(PREPARED)
        seen = rows if self.share.module is None else self.share.module(rows)
        if "entropy" in seen.keys() and "response_mask" in seen.keys():
            record("policy/entropy", seen["entropy"], where=seen["response_mask"])
        return seen

    def _view(self, name: str, seen: TensorDict, micro: TensorDict) -> TensorDict:
        """The micro-batch as a loss reads it, with its step-level keys."""
        return seen.copy().update(micro[PREPARED, name]) if name in self.own else seen

    def _update(self, norm: Tensor, at: float | None = None) -> None:
        limit = self.max_grad_norm or float("inf")
        torch.nn.utils.clip_grads_with_norm_(self.trained, limit, norm)
        multiplier = self.schedule(now() if at is None else at)
        for group, base in zip(self.optimizer.param_groups, self.base_lr, strict=True):
            group["lr"] = base * multiplier
        match_strides(self.trained)
        self.optimizer.step()
        for loss in self.own.values():
            loss.after_step()
        record(f"{self.name}/grad_norm", norm)
        record(f"{self.name}/lr", self.base_lr[0] * multiplier)

    def run_state(self) -> dict[str, object]:
        """The optimiser state, and the parameters that are frozen where some are."""
        frozen = {"frozen": sorted(self.frozen)} if self.frozen else {}
        return {"optimizer": self.share.together(self, "moments"), **frozen}

    def moments(self) -> dict[str, Any]:
        """The optimiser state, whole; on all ranks."""
        return self.share.whole(self.optimizer.state_dict(), self.optimizer)

    def load_run_state(self, state: dict[str, object]) -> None:
        """Restore the moments by the parameters' names; learning rate, betas, ... are the config's.

        Raises:
            CheckpointError: the state is another optimiser's, or of other parameters.
        """
        frozen = frozenset(field({"frozen": [], **state}, "frozen", list))
        if unknown := frozen.difference(self.trained_names):
            raise CheckpointError(f"frozen names parameters that {self.name} lacks: {unknown}")
        saved = check_optimizer_state(field(state, "optimizer", dict))
        matched = match_optimizer_state(self.name, saved, self.optimizer.state_dict())
        check_moment_shapes(matched["state"], self.optimizer, self.share.shape)
        self.share.together(self, "take_moments", matched)
        self.frozen = frozen

    def take_moments(self, whole: dict[str, Any]) -> None:
        """Load an optimiser state, on all ranks."""
        self.optimizer.load_state_dict(self.share.own(whole, self.optimizer))


def _add(totals: dict[str, float], values: dict[str, Tensor]) -> None:
    for name, value in values.items():
        totals[name] += float(value.detach())
