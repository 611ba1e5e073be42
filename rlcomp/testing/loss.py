"""The contract of losses, as property checks."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.interfaces.loss import Loss, RowLoss, TokenLoss
from rlcomp.keys import Key
from rlcomp.metrics import recording
from rlcomp.testing.invariance import (
    add_padding,
    check_canonical,
    corrupt_outside_masks,
    row_permutation,
    with_hole,
)
from rlcomp.testing.subject import Subject, leaves

# Outputs of the model; other entries of a batch are data and must get no gradient.
_MODEL_OUTPUTS = (
    *("entropy", "label_logits", "log_distribution", "log_probs", "model_score"),
    *("objective_values", "token_score", "value"),
)


def check_loss(loss: Loss, batch: TensorDict | None = None) -> None:
    """Check that a loss keeps the contract of losses; in float64, log-ratios of +-100 in float32.

    - it returns scalars, at least one of them named ``loss...``, in a new TensorDict, and does not
      change the batch
    - loss and gradient are finite, also for log-ratios of +-100
    - the gradient is 0 outside the mask and for entries that are no outputs of the model
    - integer masks, half-precision floats and one advantage per row are accepted
    - NaN and infinities outside the mask, further padding, observations within a response and the
      order of rows change nothing
    - prepared on the whole batch and summed over parts, loss, gradient and metrics equal those of
      the whole batch
    - without response tokens the gradient is 0; for a :class:`TokenLoss` with units of one row the
      loss is 0 too, and an empty response changes nothing
    - a unit (row or pair) without a valid reward changes nothing and is not counted
    - a zero advantage gives no gradient; not checked for losses that read ``entropy``, ``value`` or
      ``ref_log_probs``, or have a part that ``has_own_gradient``
    - at ratio 1 the gradient is ``-advantage * loss_weight``, plus the gradient at a zero
      advantage; a loss without ``old_log_probs`` is always at ratio 1; not checked for losses with
      a part that ``changes_on_policy_gradient``

    Checks of keys that the loss does not read are skipped.

    Args:
        loss: the loss under test; its state is restored.
        batch: replaces the :func:`example_batch`; log-ratios of +-100 are then not checked.

    Raises:
        ContractError: a check fails; names the loss, the law and the size of the difference.
    """
    subject = Subject(loss, batch, torch.float64)
    if not _inputs(subject):
        subject.refuse("a loss reads what a model computes", f"it reads {subject.reads}")
    try:
        _check_scalars(subject)
        case = _Case(loss, subject)
        case.check_batch_unchanged()
        case.check_gradients()
        case.check_outside_mask()
        case.check_order_and_padding()
        case.check_observations()
        case.check_micro_batches()
        case.check_empty()
        if isinstance(loss, (RowLoss, TokenLoss)):
            case.check_invalid_unit()
        if isinstance(loss, TokenLoss) and {"advantage", "log_probs"} <= case.reads:
            case.check_policy_gradient()
        check_canonical(subject)
        if batch is None:
            _check_extremes(loss)
    finally:
        subject.restore()


def _check_scalars(subject: Subject) -> None:
    result = subject.run(subject.batch)
    law = "a loss returns scalars"
    if result.batch_size != torch.Size([]):
        subject.refuse(law, f"the result has batch size {list(result.batch_size)}")
    if not any(key.startswith("loss") for key in list(result.keys())):
        subject.refuse(law, f"none of {sorted(result.keys())} is named loss...")
    for key, value in result.items():
        if value.shape != torch.Size([]):
            subject.refuse(law, f"'{key}' has shape {list(value.shape)}")
        if not bool(value.isfinite()):
            subject.refuse("the loss is finite", f"'{key}' is {value.item()}")


class _Case:
    """One loss on one batch."""

    def __init__(self, loss: Loss, subject: Subject) -> None:
        self.loss = loss
        self.subject = subject
        self.batch = subject.batch
        self.rows = self.batch.batch_size[0]
        self.reads = {subject.names.get(key, key) for key in subject.reads}
        self.value, self.gradient = self.evaluate(self.batch)

    def evaluate(
        self, batch: TensorDict, parts: list[Tensor] | None = None
    ) -> tuple[Tensor, dict[Key, Tensor]]:
        """Compute loss and gradients; with ``parts`` (rows): prepared whole, summed over parts."""
        self.subject.restore()
        with torch.enable_grad():
            inputs = _inputs(self.subject)
            leaves = {k: batch[k].detach().clone().requires_grad_() for k in inputs}
            rows = batch.copy().update(leaves)
            if parts is None:
                total = _total(self.loss(rows))
            else:
                rows = rows.update(self.loss.prepare(self.loss.view(rows)))
                total = torch.stack([_total(self.loss(rows[part])) for part in parts]).sum()
            if not total.requires_grad:
                self.subject.refuse("the loss has a gradient", "it does not depend on the model")
            torch.autograd.backward(total)
        zeros = {key: torch.zeros_like(leaf) for key, leaf in leaves.items()}
        gradients = {k: zeros[k] if leaf.grad is None else leaf.grad for k, leaf in leaves.items()}
        return total.detach(), gradients

    def check_same(
        self, law: str, result: tuple[Tensor, dict[Key, Tensor]], select: Tensor | None = None
    ) -> None:
        """Check that loss and gradient equal those of the unchanged batch, on the selected rows."""
        value, gradient = result
        self.subject.hold_equal(law, "loss", value, self.value)
        for key, expected in self.gradient.items():
            part = expected if select is None else expected[select]
            got = gradient[key] if expected.ndim == 1 else gradient[key][:, : expected.shape[1]]
            self.subject.hold_equal(law, f"gradient of {key}", got, part)

    def check_batch_unchanged(self) -> None:
        """Check that no entry of the batch is added, replaced or changed in place."""
        batch = self.batch.copy()
        tensors = leaves(batch)
        copies = {key: tensor.clone() for key, tensor in tensors.items()}
        self.subject.restore()
        with torch.no_grad():
            self.loss(batch)
        added = sorted(set(batch.keys()) - set(self.batch.keys()))
        if added:
            self.subject.refuse("a loss leaves the batch alone", f"it wrote '{added[0]}' into it")
        for key, tensor in tensors.items():
            self.subject.hold_equal("no tensor is changed in place", key, tensor, copies[key])
            after = leaves(batch)[key]
            self.subject.hold_equal("a loss leaves the batch alone", key, after, tensor)

    def check_gradients(self) -> None:
        """Check that gradients are finite, 0 outside the mask, and absent for data."""
        for key, gradient in self.gradient.items():
            if not bool(gradient.isfinite().all()):
                self.subject.refuse("the gradient is finite", f"that of '{key}' is not")
            zero = torch.zeros_like(gradient)
            if self.subject.names.get(key, key) not in _MODEL_OUTPUTS:
                law, remedy = "no gradient reaches data", f": detach it, batch['{key}'].detach()"
                self.subject.hold_equal(law, key, gradient, zero, remedy=remedy)
            if not self.subject.spec(key).along_tokens:  # a row has no mask
                continue
            inside = self.subject.inside
            inside = inside.view(*inside.shape, *(1,) * (gradient.ndim - 2))
            outside = torch.where(inside, zero, gradient)
            self.subject.hold_equal("the gradient is 0 outside the mask", key, outside, zero)

    def check_outside_mask(self) -> None:
        """Check that values outside the mask have no effect."""
        for value in (float("nan"), float("-inf"), float("inf")):
            result = self.evaluate(corrupt_outside_masks(self.subject, value))
            self.check_same("nothing outside the mask matters", result)

    def check_order_and_padding(self) -> None:
        """Check rows in another order, and a wider batch."""
        order = row_permutation(self.rows, self.loss.unit_rows)
        self.check_same("rows may come in any order", self.evaluate(self.batch[order]), order)
        wide = self.evaluate(add_padding(self.subject, self.batch))
        self.check_same("padding on the right changes nothing", wide)

    def check_observations(self) -> None:
        """Check observations within a response, at two places."""
        if self.subject.name("response_mask") not in self.subject.reads:
            return
        middle = self.subject.inside.shape[1] // 2
        for place in (middle, middle + 1):
            batch, hole = with_hole(self.subject, self.batch, place)
            value, gradient = self.evaluate(batch)
            visible = {k: g if g.ndim == 1 else g[:, ~hole] for k, g in gradient.items()}
            self.check_same("observations within a response change nothing", (value, visible))

    def check_micro_batches(self) -> None:
        """Check the sum over parts: one unit, two units, and the other rows."""
        unit = self.loss.unit_rows
        rows = row_permutation(self.rows, unit)
        parts = [rows[:unit], rows[unit : 3 * unit], rows[3 * unit :]]
        with recording() as split:
            result = self.evaluate(self.batch, [part for part in parts if len(part)])
        self.check_same("micro-batches sum to the whole", result)
        with recording() as whole:
            self.evaluate(self.batch, [torch.arange(self.rows)])
        for name, mean in whole.means().items():
            means = torch.tensor([split.means().get(name, float("nan")), mean])
            self.subject.hold_equal("micro-batches keep the metrics", name, *means)

    def check_empty(self) -> None:
        """Check a batch without response tokens, and one with an empty response."""
        mask = self.subject.name("response_mask")
        if mask not in self.subject.reads:
            return
        nothing = self.batch.copy()
        nothing[mask] = torch.zeros_like(self.batch[mask])
        value, gradient = self.evaluate(nothing)
        law = "an empty batch has loss 0 and gradient 0"
        for key, entry in gradient.items():
            self.subject.hold_equal(law, f"gradient of {key}", entry, torch.zeros_like(entry))
        if isinstance(self.loss, TokenLoss) and self.loss.unit_rows == 1:
            self.subject.hold_equal(law, "loss", value, torch.zeros_like(value))
            full = self.batch[mask].any(1).nonzero().flatten()
            law = "an empty response changes nothing"
            self.check_same(law, self.evaluate(self.batch[full]), full)

    def check_invalid_unit(self) -> None:
        """Check the first unit without a valid row, against a batch without it."""
        unit, valid = self.loss.unit_rows, torch.ones(self.rows, dtype=torch.bool)
        name = self.loss.renames.get("reward_valid", "reward_valid")
        valid[:unit] = False
        value, gradient = self.evaluate(self.batch.copy().set(name, valid))
        valid_rows = self.batch.copy().set(name, torch.ones_like(valid))[unit:]
        expected_value, expected_gradient = self.evaluate(valid_rows)
        law = "a unit without a valid row changes nothing"
        self.subject.hold_equal(law, "loss", value, expected_value)
        for key, expected in expected_gradient.items():
            whole = torch.cat([torch.zeros_like(gradient[key][:unit]), expected])
            self.subject.hold_equal(law, f"gradient of {key}", gradient[key], whole)

    def check_policy_gradient(self) -> None:
        """Check the policy-gradient property: zero and unit advantages, ratio 1."""
        log_probs = self.subject.name("log_probs")
        has_own_gradient = any(part.has_own_gradient for part in self.loss.parts())
        if not has_own_gradient and not self.reads & {"entropy", "value", "ref_log_probs"}:
            gradient = self._gradient_at(self.batch, torch.zeros(()))
            law = "a zero advantage gives no gradient"
            self.subject.hold_equal(law, log_probs, gradient, torch.zeros_like(gradient))
        if any(part.changes_on_policy_gradient for part in self.loss.parts()):
            return
        batch = self.batch.copy()
        for key in ("old_log_probs", "rollout_log_probs"):
            if self.subject.name(key) in self.subject.reads:
                batch[self.subject.name(key)] = batch[log_probs]
        # One advantage per response, so that a ratio shared by its tokens gives the same gradient.
        outcome = torch.linspace(-1.5, 2.0, self.rows, dtype=torch.float64)[:, None]
        # Terms that do not depend on the advantage cancel in the difference.
        result = self._gradient_at(batch, outcome) - self._gradient_at(batch, torch.zeros(()))
        expected = -torch.where(self.subject.response, outcome, 0.0)
        expected = expected * self.loss.weighted(batch)["loss_weight"]
        law = "at ratio 1 the gradient is -advantage * loss_weight"
        self.subject.hold_equal(law, log_probs, result, expected.to(result.dtype))

    def _gradient_at(self, batch: TensorDict, outcome: Tensor) -> Tensor:
        """Compute the gradient of the log-probs at the advantage ``outcome`` of each response."""
        name = self.subject.name("advantage")
        advantage = torch.where(self.subject.response, outcome, 0.0).expand_as(self.subject.inside)
        batch = batch.copy().set(name, advantage.to(batch[name].dtype))
        _, gradient = self.evaluate(batch)
        return gradient[self.subject.name("log_probs")]


def _inputs(subject: Subject) -> list[Key]:
    """Return the keys that a loss may differentiate: per-token floats, and scores of rows."""
    scores = [subject.name(key) for key in ("model_score", "label_logits")]
    return [*subject.floats(), *(score for score in scores if score in subject.reads)]


def _total(result: TensorDict) -> Tensor:
    losses = [value for key, value in result.items() if key.startswith("loss")]
    return torch.stack(losses).sum() if losses else torch.zeros(())


def _check_extremes(loss: Loss) -> None:
    subject = Subject(loss, None, torch.float32)
    case = _Case(loss, subject)
    for key, shift in _shifts(subject):
        batch = case.batch.copy()
        batch[key] = batch[case.subject.name("log_probs")] + shift
        value, gradient = case.evaluate(batch)
        if not all(bool(result.isfinite().all()) for result in (value, *gradient.values())):
            law = "extreme log-ratios stay finite"
            subject.refuse(law, f"not for '{key}' at log_probs {shift:+}")


def _shifts(subject: Subject) -> list[tuple[Key, float]]:
    """Return the keys of other log-probs that a loss reads, each with two log-ratios."""
    if subject.name("log_probs") not in subject.reads:
        return []
    keys = map(subject.name, ("old_log_probs", "ref_log_probs", "rollout_log_probs"))
    return [(key, shift) for key in keys if key in subject.reads for shift in (-100.0, 100.0)]
