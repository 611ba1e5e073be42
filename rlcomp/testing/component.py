"""The contract of every component, as property checks."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import Component
from rlcomp.errors import nearest
from rlcomp.interfaces.loss import Loss
from rlcomp.keys import SCHEMA, Key, Spec, lookup
from rlcomp.run.check_flow import built_flow
from rlcomp.run.stages import empty_batch
from rlcomp.testing.advantage import check_advantage
from rlcomp.testing.canonical import check_canonical
from rlcomp.testing.corrupt import (
    corrupted,
    relabelled,
    renamed_groups,
    shuffled_rows,
    widened,
    with_hole,
)
from rlcomp.testing.example import example_batch
from rlcomp.testing.loss import check_loss
from rlcomp.testing.subject import Subject, leaves, optional_keys

_DTYPES = {"int64": torch.int64, "bool": torch.bool, "uint8": torch.uint8}
_BYSTANDERS = ("old_value", "truncated", "policy_version")
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
      ``label_logits``; and ``ratio``, ``surrogate``, ``score``, ``pair_loss``, ``flipped_loss`` of
      the parts of a loss)
    - integer masks, half-precision floats and one advantage per row (``[B]``, ``[B, 1]``) are read
      in the schema's form (:mod:`rlcomp.canonical`)
    - padding on the right and observations within a response (tokens that the policy did not write;
      not checked if the component reads ``tokens``) change nothing, rows may come in any order, and
      group ids are only labels; not checked for components that draw (a ``torch.Generator`` named
      ``generator`` in them or in a part) or start a new batch
    - a fresh component keeps nothing of the batch before; one without inputs runs on an empty batch

    Args:
        component: the component under test; its state is restored.
        batch: replaces the :func:`example_batch` of the keys it reads.

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
    """Check all laws."""
    try:
        _keys_and_state(subject)
        if subject.writes:
            _written(subject)
            _deterministic(subject)
            _masked(subject)
            _gradient(subject)
            check_canonical(subject)
        if subject.writes and not (subject.draws or subject.fresh):
            _padded(subject)
            _observed(subject)
            _permuted(subject)
            _labels(subject)
        if subject.writes:
            _without_graph(subject)
    finally:
        subject.restore()


def _keys_and_state(subject: Subject) -> None:
    batch = subject.batch.copy()
    rows = batch.batch_size[0] if batch.batch_size else 0
    others = [key for key in _BYSTANDERS if key not in (*subject.reads, *subject.writes)]
    strangers = example_batch(others, rows=rows or 8)
    if subject.reads:
        batch.update(strangers)
    else:
        batch = strangers
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
    keeps_rest = not (subject.fresh or subject.component.drops_rows)
    for key in sorted(set(before) - set(subject.writes)) if keeps_rest else ():
        _hold_same(subject, "nothing else changes", key, result[key], before[key])
    if not subject.reads:
        subject.restore()
        with torch.no_grad():
            subject.component(empty_batch())


def check_untouched(subject: Subject, batch: TensorDict) -> None:
    """Check that the input batch is not changed in place."""
    held = leaves(batch)
    copies = {key: tensor.clone() for key, tensor in held.items()}
    subject.run(batch)
    for key, tensor in held.items():
        subject.hold_equal("no tensor is changed in place", key, tensor, copies[key])


def _hold_same(
    subject: Subject,
    law: str,
    key: Key,
    got: Tensor | TensorDict,
    want: Tensor | TensorDict,
    where: Tensor | None = None,
) -> None:
    if isinstance(got, Tensor) and isinstance(want, Tensor):
        subject.hold_equal(law, key, got, want, where)
    elif isinstance(got, TensorDict) and isinstance(want, TensorDict):
        for name, part in leaves(want).items():
            subject.hold_equal(law, f"{key}.{name}", leaves(got)[name], part)
    else:
        subject.refuse(law, f"'{key}' is a {type(got).__name__}, not a {type(want).__name__}")


def _written(subject: Subject) -> None:
    result = subject.run(subject.batch)
    for key in (*subject.writes, *sorted(subject.may_write & set(result.keys()))):
        _check_shape(subject, key, result)
        entry, spec = result[key], subject.spec(key)
        for name, part in (
            leaves(entry).items() if isinstance(entry, TensorDict) else [(key, entry)]
        ):
            where = _where(subject, key, part)
            # NaN marks a part that a row lacks, and a number that is unknown, by the schema.
            lacking = spec.dtype == "nested" or isinstance(spec.absent, float)
            where = where & ~part.isnan() if lacking else where
            if part.is_floating_point() and not bool((part.isfinite() | ~where).all()):
                subject.refuse("what is written is finite", f"'{name}' is not")


def _instead(key: Key, spec: Spec, of_rows: bool) -> str:
    """Return the likely meaning of an entry with another shape, as the end of a message."""
    if not of_rows:
        return ""
    if spec.per_token:
        return "; one number a row is spread with x[:, None].expand_as(batch['response_mask'])"
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
        subject.refuse(law, f"{fault}; it is {spec.meaning}{_instead(key, spec, shape == [rows])}")
    wanted = _DTYPES.get(spec.dtype)
    if entry.dtype != wanted if wanted else not entry.is_floating_point():
        subject.refuse(law, f"'{key}' has dtype {entry.dtype}, not {spec.dtype}")


def _where(subject: Subject, key: Key, entry: Tensor) -> Tensor:
    """Return the mask of the places of an entry that count."""
    if not subject.spec(key).along_tokens or entry.shape[:2] != subject.inside.shape:
        return torch.ones_like(entry, dtype=torch.bool)
    more = (1,) * (entry.ndim - 2)
    inside: Tensor = subject.inside.view(*subject.inside.shape, *more)
    return inside.expand_as(entry)


def _compare(subject: Subject, law: str, got: TensorDict, want: TensorDict) -> None:
    for key in subject.writes:
        where = None
        if isinstance(want[key], Tensor):
            where = _where(subject, key, want[key])
        valid = subject.name("reward_valid")
        if (
            where is not None
            and valid in subject.reads
            and where.shape == subject.batch[valid].shape
        ):
            where = where & subject.batch[valid]
        _hold_same(subject, law, key, got[key], want[key], where)


def _deterministic(subject: Subject) -> None:
    first, second = subject.run(subject.batch), subject.run(subject.batch)
    for key in subject.writes:
        _hold_same(subject, "the same state gives the same result", key, second[key], first[key])


def _masked(subject: Subject) -> None:
    changed = corrupted(subject)
    want, got = subject.run(subject.batch), subject.run(changed)
    _compare(subject, "nothing outside the mask matters", got, want)
    if not {subject.name("response_mask"), subject.name("attention_mask")} & set(subject.reads):
        return
    for key in subject.writes:
        entry = got[key]
        if isinstance(entry, Tensor) and entry.is_floating_point() and bool(entry.isnan().any()):
            subject.refuse("no NaN is left outside the mask", f"'{key}' has one")


def _gradient(subject: Subject) -> None:
    inputs = [k for k in subject.floats() if subject.names.get(k, k) in _DIFFERENTIABLE]
    for batch in (subject.batch, corrupted(subject)) if inputs else ():
        subject.restore()
        with torch.enable_grad():
            variables = {key: batch[key].clone().requires_grad_() for key in inputs}
            result = subject.component(batch.copy().update(variables))
            total = torch.zeros(())
            for key in subject.writes:
                entry = result[key]
                if isinstance(entry, Tensor) and entry.requires_grad:
                    where = _where(subject, key, entry)
                    total = total + torch.where(where, entry, torch.zeros_like(entry)).sum()
        if not total.requires_grad:
            return
        torch.autograd.backward(total)
        for key, leaf in variables.items():
            check_gradient(subject, key, leaf.grad)


def _without_graph(subject: Subject) -> None:
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
        of_parts = leaves(entry) if isinstance(entry, TensorDict) else {key: entry}
        names = [name for name, part in of_parts.items() if part.requires_grad]
        if names and subject.names.get(key, key) not in _WITH_GRAPH:
            subject.refuse("what is written has no graph", f"'{names[0]}' has one")


def check_gradient(subject: Subject, key: Key, gradient: Tensor | None) -> None:
    """Check that a gradient is finite, and 0 outside the mask."""
    if gradient is None:
        return
    outside = torch.where(subject.inside, torch.zeros_like(gradient), gradient)
    subject.hold_equal(
        "the gradient is 0 outside the mask", key, outside, torch.zeros_like(outside)
    )
    if not bool(gradient.isfinite().all()):
        subject.refuse("the gradient is finite", f"that of '{key}' is not")


def _padded(subject: Subject) -> None:
    want = subject.run(subject.batch)
    got = subject.run(widened(subject, subject.batch))
    narrow = {
        key: got[key][:, : want[key].shape[1]] if subject.spec(key).along_tokens else got[key]
        for key in subject.writes
    }
    got = TensorDict(narrow, batch_size=want.batch_size)
    _compare(subject, "padding on the right changes nothing", got, want)


def _observed(subject: Subject) -> None:
    """Check observations within a response, at two places."""
    mask, tokens = (subject.name(key) for key in ("response_mask", "tokens"))
    if mask not in subject.reads or tokens in subject.reads:  # a reader may use them
        return
    want, middle = subject.run(subject.batch), subject.inside.shape[1] // 2
    for place in (middle, middle + 1):
        batch, hole = with_hole(subject, subject.batch, place)
        got = subject.run(batch)
        columns = {
            key: got[key][:, ~hole] if subject.spec(key).along_tokens else got[key]
            for key in subject.writes
        }
        got = TensorDict(columns, batch_size=want.batch_size)
        _compare(subject, "observations within a response change nothing", got, want)


def _permuted(subject: Subject) -> None:
    batch = subject.batch
    order = shuffled_rows(batch.batch_size[0])
    want, got = subject.run(batch), subject.run(batch[order])
    inverse = torch.argsort(order)
    for key in subject.writes:
        back = got[key][inverse]
        where = _where(subject, key, back) if isinstance(back, Tensor) else None
        _hold_same(subject, "rows may come in any order", key, back, want[key], where)


def _labels(subject: Subject) -> None:
    group_id = subject.name("group_id")
    if group_id not in subject.reads:
        return
    other = subject.batch.copy()
    other[group_id] = relabelled(subject.batch[group_id])
    family = subject.spec(group_id).offset
    for key in set(other.keys()) - {group_id}:
        known = lookup(key)
        if known is not None and known.offset == family:  # it names groups
            other[key] = renamed_groups(subject.batch[key], subject.batch[group_id])
    result = subject.run(subject.batch)
    _compare(subject, "group ids are only labels", subject.run(other), result)
