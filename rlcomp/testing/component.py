"""The contract of every component, as property checks."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import Component
from rlcomp.errors import nearest
from rlcomp.interfaces.loss import Loss
from rlcomp.keys import SCHEMA, Key, Spec
from rlcomp.run.check_flow import built_flow
from rlcomp.run.stages import empty_batch
from rlcomp.testing.advantage import check_advantage
from rlcomp.testing.batch import example_batch
from rlcomp.testing.invariance import (
    check_canonical,
    check_equal_entries,
    check_invariance,
    check_outside_mask,
    corrupt_outside_masks,
    counting_mask,
)
from rlcomp.testing.loss import check_loss
from rlcomp.testing.subject import Subject, leaves, optional_keys

_DTYPES = {"int64": torch.int64, "bool": torch.bool, "uint8": torch.uint8}
# Keys that are added to the batch of a component that does not use them: it must not change them.
_UNUSED_KEYS = ("old_value", "truncated", "policy_version")
# Inputs whose gradients are checked.
_DIFFERENTIABLE = (
    *("entropy", "label_logits", "log_probs", "model_score", "objective_values", "ratio"),
    *("surrogate", "value"),
)
# Entries that a loss differentiates: outputs of models, and of the parts of a policy loss.
_WITH_GRAPH = {*_DIFFERENTIABLE, "log_distribution", "score", "pair_loss", "flipped_loss"}


def check_component(component: Component, batch: TensorDict | None = None) -> None:
    """Check that a component keeps the contract of components.

    A loss is also checked by :func:`check_loss`, and a component that writes ``advantage`` by
    :func:`check_advantage`. The laws, each quoted in the error:

    - every key belongs to the schema or is declared by a component
    - all written keys are declared, all declared keys are written (``may_write``: optionally), and
      nothing else changes
    - entries that belong to a prompt pass a component that ``keeps_prompt``
    - no tensor of the batch is changed in place
    - written entries have the schema's shape and dtype, and are finite inside the mask
    - the same state gives the same result (generators and run states are restored)
    - NaN, other ids and invalid rewards outside the mask change nothing inside it, and leave no NaN
      outside it if the component reads a mask
    - the gradient is 0 outside the mask
    - written entries are data, without a graph, except those that a loss differentiates
      (``log_probs``, ``log_distribution``, ``entropy``, ``value``, ``model_score``,
      ``label_logits``, ``objective_values``; and ``ratio``, ``surrogate``, ``score``,
      ``pair_loss``, ``flipped_loss`` of the parts of a loss)
    - integer masks, half-precision floats and one advantage per row (``[B]``, ``[B, 1]``) are read
      in the schema's form (:mod:`rlcomp.canonical`)
    - padding on the right and observations within a response (tokens that the policy did not write;
      not checked if the component reads ``tokens``) change nothing, rows may come in any order, and
      group ids are only labels; not checked for components that draw (a ``torch.Generator`` named
      ``generator`` in them or in a part) or start a new batch
    - a fresh component keeps nothing of the batch before; one without inputs runs on an empty batch

    Args:
        component: the component under test; its state is restored.
        batch: replaces the :func:`example_batch` of the keys it reads; the optional keys are then
            not added to it.

    Raises:
        ContractError: names the component, the law, the key, the place and the size of the fault.
    """
    if isinstance(component, Loss):
        check_loss(component, batch)
        return
    subject = Subject(component, batch)
    check_laws(subject)
    if batch is None and (optional_keys(component) or built_flow(component).carries):
        check_laws(Subject(component, None, optional=True))
    if subject.name("advantage") in subject.writes:
        check_advantage(component, batch)


def check_laws(subject: Subject) -> None:
    """Check the laws of every component on the subject's batch."""
    try:
        _check_keys(subject)
        if subject.writes:
            _check_written(subject)
            _check_deterministic(subject)
            check_outside_mask(subject)
            _check_gradients(subject)
            check_canonical(subject)
        if subject.writes and not (subject.draws or subject.fresh):
            check_invariance(subject)
        if subject.writes:
            _check_without_graph(subject)
    finally:
        subject.restore()


def _check_keys(subject: Subject) -> None:
    """Check which keys are written and kept, and that no input tensor is changed in place."""
    batch = subject.batch.copy()
    rows = batch.batch_size[0] if batch.batch_size else 0
    other_keys = [key for key in _UNUSED_KEYS if key not in (*subject.reads, *subject.writes)]
    others = example_batch(other_keys, rows=rows or 8)
    batch = batch.update(others) if subject.reads else others
    before = dict(batch.items())
    check_untouched(subject, batch)
    with torch.no_grad():
        subject.restore()
        result = subject.component(batch)
    expected = set(subject.writes) if subject.fresh else {*before, *subject.writes}
    undeclared = sorted(set(result.keys()) - expected - subject.may_write)
    if undeclared:
        law = "a fresh component keeps nothing" if subject.fresh else "what is written is declared"
        subject.refuse(law, f"'{undeclared[0]}' is in the result")
    lacking = sorted(expected - set(result.keys()))
    if lacking:
        subject.refuse("what is declared is written", f"'{lacking[0]}' is not in the result")
    keeps_entries = not (subject.fresh or subject.component.drops_rows)
    for key in sorted(set(before) - set(subject.writes)) if keeps_entries else ():
        check_equal_entries(subject, "nothing else changes", key, result[key], before[key])
    if not subject.reads:
        subject.restore()
        with torch.no_grad():
            subject.component(empty_batch())


def check_untouched(subject: Subject, batch: TensorDict) -> None:
    """Check that the input batch is not changed in place."""
    tensors = leaves(batch)
    copies = {key: tensor.clone() for key, tensor in tensors.items()}
    subject.run(batch)
    for key, tensor in tensors.items():
        subject.hold_equal("no tensor is changed in place", key, tensor, copies[key])


def _check_written(subject: Subject) -> None:
    result = subject.run(subject.batch)
    for key in (*subject.writes, *sorted(subject.may_write & set(result.keys()))):
        _check_shape(subject, key, result)
        entry, spec = result[key], subject.spec(key)
        for name, part in (
            leaves(entry).items() if isinstance(entry, TensorDict) else [(key, entry)]
        ):
            where = counting_mask(subject, key, part)
            # In the schema NaN is a missing part of a row, or an unknown number.
            may_be_nan = spec.dtype == "nested" or isinstance(spec.absent, float)
            where = where & ~part.isnan() if may_be_nan else where
            if part.is_floating_point() and not bool((part.isfinite() | ~where).all()):
                subject.refuse("what is written is finite", f"'{name}' is not")


def _suggestion(key: Key, spec: Spec, is_row_entry: bool) -> str:
    """Return a remedy for an entry of shape ``[B]``, as the end of a message; else empty."""
    if not is_row_entry:
        return ""
    if spec.per_token:
        return "; x[:, None].expand_as(batch['response_mask']) has a value for each token"
    # The end of the hint, a list of known keys, is cut off.
    return nearest(str(key), {*SCHEMA} - {key}).partition(" (known")[0]


def _check_shape(subject: Subject, key: Key, result: TensorDict) -> None:
    spec, entry, law = subject.spec(key), result[key], "the schema's shape and dtype"
    if spec.dtype == "nested":
        if not isinstance(entry, TensorDict):
            subject.refuse(law, f"'{key}' is a {type(entry).__name__}, not named parts")
        return
    if subject.fresh or subject.component.drops_rows:
        rows, width = result.batch_size[0] if result.batch_size else -1, None
    else:
        rows, width = subject.batch.batch_size[0], subject.inside.shape[1]
    shape = list(entry.shape)
    fits = shape == [rows] if spec.shape == "B" else len(shape) >= 2 and shape[0] == rows
    if spec.per_token and width is not None:
        fits = shape == [rows, width]
    if not fits:
        fault = f"'{key}' has shape {shape}, not [{spec.shape}] with B = {rows}"
        subject.refuse(
            law, f"{fault}; it is {spec.meaning}{_suggestion(key, spec, shape == [rows])}"
        )
    wanted = _DTYPES.get(spec.dtype)
    if entry.dtype != wanted if wanted else not entry.is_floating_point():
        subject.refuse(law, f"'{key}' has dtype {entry.dtype}, not {spec.dtype}")


def _check_deterministic(subject: Subject) -> None:
    first, second = subject.run(subject.batch), subject.run(subject.batch)
    for key in subject.writes:
        check_equal_entries(
            subject, "the same state gives the same result", key, second[key], first[key]
        )


def _check_gradients(subject: Subject) -> None:
    """Check the gradients of the written entries, also with NaN outside the masks."""
    inputs = [k for k in subject.floats() if subject.names.get(k, k) in _DIFFERENTIABLE]
    for batch in (subject.batch, corrupt_outside_masks(subject)) if inputs else ():
        subject.restore()
        with torch.enable_grad():
            variables = {key: batch[key].clone().requires_grad_() for key in inputs}
            result = subject.component(batch.copy().update(variables))
            total = torch.zeros(())
            for key in subject.writes:
                entry = result[key]
                if isinstance(entry, Tensor) and entry.requires_grad:
                    where = counting_mask(subject, key, entry)
                    total = total + torch.where(where, entry, torch.zeros_like(entry)).sum()
        if not total.requires_grad:
            return
        torch.autograd.backward(total)
        for key, leaf in variables.items():
            check_gradient(subject, key, leaf.grad)


def _check_without_graph(subject: Subject) -> None:
    """Check that data has no graph when every float of the batch requires a gradient."""
    batch = subject.batch.copy()
    for key in set(subject.reads) - set(subject.writes):  # entries passed on may have one
        entry = batch[key]
        if isinstance(entry, Tensor) and entry.is_floating_point():
            batch[key] = entry.clone().requires_grad_()
    subject.restore()
    with torch.enable_grad():
        result = subject.component(batch)
    for key in subject.writes:
        entry = result[key]
        parts = leaves(entry) if isinstance(entry, TensorDict) else {key: entry}
        names = [name for name, part in parts.items() if part.requires_grad]
        if names and subject.names.get(key, key) not in _WITH_GRAPH:
            subject.refuse("what is written has no graph", f"'{names[0]}' has one")


def check_gradient(subject: Subject, key: Key, gradient: Tensor | None) -> None:
    """Check that a gradient is finite, and 0 outside the mask; None counts as 0."""
    if gradient is None:
        return
    outside = torch.where(subject.inside, torch.zeros_like(gradient), gradient)
    subject.hold_equal(
        "the gradient is 0 outside the mask", key, outside, torch.zeros_like(outside)
    )
    if not bool(gradient.isfinite().all()):
        subject.refuse("the gradient is finite", f"that of '{key}' is not")
