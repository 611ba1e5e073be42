"""Laws of invariance: perturbations of a batch that must not change results.

The perturbations are corruption outside the mask, padding, holes, other orders of rows, other ids
of groups, and other dtypes and shapes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor

from rlcomp.keys import Key, lookup
from rlcomp.testing.batch import TOKEN_IDS
from rlcomp.testing.subject import Subject, leaves

_CANONICAL_LAW = "integer masks, half floats and an advantage a row are understood"


def corrupt_outside_masks(subject: Subject, value: float = float("nan")) -> TensorDict:
    """Return the batch with NaN (or another value) and other ids outside the masks.

    Per-token floats and ids change outside the response, or outside the attention mask for a
    component that reads only that mask. ``tokens`` change in the padding. Floats of rows, and
    the parts of ``rewards``, change in rows without a valid reward, if the component reads
    ``reward_valid``.
    """
    changed = subject.batch.copy()
    for key in subject.reads:
        spec, entry = subject.spec(key), subject.batch[key]
        if spec.along_tokens and spec.dtype == "float":
            inside = subject.inside if spec.per_token else subject.inside[..., None]
            changed[key] = torch.where(inside, entry, torch.full_like(entry, value))
        elif spec.per_token and spec.dtype == "int64":
            tokens = subject.names.get(key, key) == "tokens"
            mask = subject.attention if tokens else subject.inside
            changed[key] = torch.where(mask, entry, (entry + 1) % TOKEN_IDS)
        elif (spec.shape, spec.dtype) == ("B", "float") or subject.names.get(key, key) == "rewards":
            changed[key] = _corrupt_invalid_rows(subject, entry, value)
    return changed


def _corrupt_invalid_rows(
    subject: Subject, entry: Tensor | TensorDict, value: float
) -> Tensor | TensorDict:
    """Set the rows without a valid reward to a value; keep all if the component reads no mask."""
    if subject.name("reward_valid") not in subject.reads:
        return entry
    mask: Tensor = subject.batch[subject.name("reward_valid")]
    if isinstance(entry, Tensor):
        return torch.where(mask, entry, torch.full_like(entry, value))
    parts = {
        key: torch.where(mask, part, torch.full_like(part, value)) for key, part in entry.items()
    }
    return TensorDict(parts, batch_size=entry.batch_size)


def row_permutation(rows: int, unit_rows: int = 1) -> Tensor:
    """Return a permutation of the rows, not the identity; rows of a unit stay together."""
    draw = torch.Generator().manual_seed(1)
    units = torch.randperm(rows // unit_rows, generator=draw)
    return (units[:, None] * unit_rows + torch.arange(unit_rows)).flatten()


def relabel_groups(group_id: Tensor) -> Tensor:
    """Return the same groups under other ids, in another order."""
    _, index = torch.unique(group_id, return_inverse=True)
    relabelled_id: Tensor = 100 - 7 * index
    return relabelled_id


def relabel_ids(ids: Tensor, group_id: Tensor) -> Tensor:
    """Rename ids of groups as :func:`relabel_groups` does; other ids stay."""
    names = dict(zip(group_id.tolist(), relabel_groups(group_id).tolist(), strict=True))
    return torch.tensor([names.get(index, index) for index in ids.tolist()])


def add_padding(subject: Subject, batch: TensorDict, columns: int = 3) -> TensorDict:
    """Return the batch with additional right padding."""
    wide = batch.copy()
    for key in subject.reads:
        if subject.spec(key).along_tokens:
            beyond = (0, 0) * (batch[key].ndim - 2)
            wide[key] = F.pad(batch[key], (*beyond, 0, columns))
    return wide


def with_hole(
    subject: Subject, batch: TensorDict, place: int, columns: int = 3
) -> tuple[TensorDict, Tensor]:
    """Return a batch with columns of an observation, and their mask ``[T + columns]``.

    The columns are outside the response and hold NaN or the key's padding.

    Args:
        subject: reads ``response_mask``.
        batch: a batch of the keys it reads.
        place: index of the first new column.
        columns: number of new columns.
    """
    width = batch[subject.name("response_mask")].shape[1]
    copied = min(place, width - 1)
    origin = torch.tensor([*range(place), *[copied] * columns, *range(place, width)])
    hole = torch.zeros(len(origin), dtype=torch.bool)
    hole[place : place + columns] = True
    batch = batch.copy()
    for key in subject.reads:
        if subject.spec(key).along_tokens:
            batch[key] = batch[key][:, origin].clone()
            # The attention mask covers the new columns like the tokens after them.
            if key != subject.name("attention_mask"):
                filler = float("nan") if batch[key].is_floating_point() else subject.spec(key).fill
                batch[key][:, hole] = filler
    return batch, hole


def check_equal_entries(
    subject: Subject,
    law: str,
    key: Key,
    got: Tensor | TensorDict,
    want: Tensor | TensorDict,
    where: Tensor | None = None,
) -> None:
    """Check that two entries, tensors or TensorDicts, are equal at the selected positions."""
    if isinstance(got, Tensor) and isinstance(want, Tensor):
        subject.hold_equal(law, key, got, want, where)
    elif isinstance(got, TensorDict) and isinstance(want, TensorDict):
        for name, part in leaves(want).items():
            subject.hold_equal(law, f"{key}.{name}", leaves(got)[name], part, where)
    else:
        subject.refuse(law, f"'{key}' is a {type(got).__name__}, not a {type(want).__name__}")


def counting_mask(subject: Subject, key: Key, entry: Tensor) -> Tensor:
    """Return the mask of an entry's positions that count, in the entry's shape.

    All count in an entry without a token axis, or with other rows or another width than the batch.
    """
    if not subject.spec(key).along_tokens or entry.shape[:2] != subject.inside.shape:
        return torch.ones_like(entry, dtype=torch.bool)
    more = (1,) * (entry.ndim - 2)
    inside: Tensor = subject.inside.view(*subject.inside.shape, *more)
    return inside.expand_as(entry)


def _check_equal_results(subject: Subject, law: str, got: TensorDict, want: TensorDict) -> None:
    """Check the written entries, inside the mask and in rows with a valid reward."""
    for key in subject.writes:
        where = None
        if isinstance(want[key], Tensor):
            where = counting_mask(subject, key, want[key])
        elif subject.names.get(key, key) == "rewards":
            where = torch.ones(want.batch_size, dtype=torch.bool)
        valid = subject.name("reward_valid")
        if (
            where is not None
            and valid in subject.reads
            and where.shape == subject.batch[valid].shape
        ):
            where = where & subject.batch[valid]
        check_equal_entries(subject, law, key, got[key], want[key], where)


def check_outside_mask(subject: Subject) -> None:
    """Check that values outside the mask change nothing inside it, and leave no NaN."""
    changed = corrupt_outside_masks(subject)
    want, got = subject.run(subject.batch), subject.run(changed)
    _check_equal_results(subject, "nothing outside the mask matters", got, want)
    if not {subject.name("response_mask"), subject.name("attention_mask")} & set(subject.reads):
        return
    for key in subject.writes:
        entry = got[key]
        if isinstance(entry, Tensor) and entry.is_floating_point() and bool(entry.isnan().any()):
            subject.refuse("no NaN is left outside the mask", f"'{key}' has one")


def check_invariance(subject: Subject) -> None:
    """Check padding, observations within a response, the order of rows and the ids of groups."""
    _check_padding(subject)
    _check_observations(subject)
    _check_row_order(subject)
    _check_group_labels(subject)


def _check_padding(subject: Subject) -> None:
    want = subject.run(subject.batch)
    got = subject.run(add_padding(subject, subject.batch))
    narrow = {
        key: got[key][:, : want[key].shape[1]] if subject.spec(key).along_tokens else got[key]
        for key in subject.writes
    }
    got = TensorDict(narrow, batch_size=want.batch_size)
    _check_equal_results(subject, "padding on the right changes nothing", got, want)


def _check_observations(subject: Subject) -> None:
    """Check observations within a response, at two places."""
    mask, tokens = (subject.name(key) for key in ("response_mask", "tokens"))
    if mask not in subject.reads or tokens in subject.reads:  # it may use the observations
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
        _check_equal_results(subject, "observations within a response change nothing", got, want)


def _check_row_order(subject: Subject) -> None:
    batch = subject.batch
    order = row_permutation(batch.batch_size[0])
    want, got = subject.run(batch), subject.run(batch[order])
    inverse = torch.argsort(order)
    for key in subject.writes:
        back = got[key][inverse]
        where = counting_mask(subject, key, back) if isinstance(back, Tensor) else None
        check_equal_entries(subject, "rows may come in any order", key, back, want[key], where)


def _check_group_labels(subject: Subject) -> None:
    group_id = subject.name("group_id")
    if group_id not in subject.reads:
        return
    other = subject.batch.copy()
    other[group_id] = relabel_groups(subject.batch[group_id])
    offset = subject.spec(group_id).offset
    for key in set(other.keys()) - {group_id}:
        known = lookup(key)
        if known is not None and known.offset == offset:  # an id of groups
            other[key] = relabel_ids(subject.batch[key], subject.batch[group_id])
    result = subject.run(subject.batch)
    _check_equal_results(subject, "group ids are only labels", subject.run(other), result)


def check_canonical(subject: Subject) -> None:
    """Check that a component reads entries of other dtypes and shapes in canonical form."""
    canonical = _canonical_batch(subject)
    want = leaves(subject.run(canonical))
    for masks, floats, column in (
        (torch.int64, torch.bfloat16, False),
        (torch.float32, torch.float32, True),
    ):
        got = _run(subject, _other_form(subject, canonical, masks, floats, column))
        for key in want:
            if key.split(".")[0] in subject.writes or key not in subject.reads:
                # Entries that are both read and written may be passed on in the dtype of the input.
                value = got[key].to(want[key].dtype) if key in subject.reads else got[key]
                subject.hold_equal(_CANONICAL_LAW, key, value, want[key])


def _run(subject: Subject, batch: TensorDict) -> dict[str, Tensor]:
    try:
        return leaves(subject.run(batch))
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        subject.refuse(_CANONICAL_LAW, f"it raised {type(error).__name__}: {error}")


def _canonical_batch(subject: Subject) -> TensorDict:
    """Return the batch in float32, in numbers that bfloat16 can hold, one advantage per row."""
    batch = subject.batch.copy()
    for key in subject.reads:
        entry = batch[key]
        if isinstance(entry, Tensor) and entry.is_floating_point():
            batch[key] = entry.bfloat16().float()
    name = subject.name("advantage")
    if name in subject.reads:
        batch[name] = batch[name][:, :1].expand(batch[name].shape).clone()
    return batch


def _other_form(
    subject: Subject, canonical: TensorDict, masks: torch.dtype, floats: torch.dtype, column: bool
) -> TensorDict:
    """Return the batch with other dtypes, and an advantage ``[B, 1]`` (``column``) or ``[B]``."""
    batch = canonical.copy()
    for key in subject.reads:
        spec, entry = subject.spec(key), batch[key]
        if spec.dtype == "bool":
            batch[key] = entry.to(masks)
        elif spec.dtype == "float":
            batch[key] = entry.to(floats)
    name = subject.name("advantage")
    if name in subject.reads:
        batch[name] = batch[name][:, :1] if column else batch[name][:, 0]
    return batch
