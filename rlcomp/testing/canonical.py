"""The law of canonical entries: other dtypes and shapes are read by the schema."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.testing.subject import Subject, leaves

_LAW = "integer masks, half floats and an advantage a row are understood"


def check_canonical(subject: Subject) -> None:
    """Check that a component reads such entries as their canonical form."""
    plain = _plain(subject)
    want = leaves(subject.run(plain))
    for masks, floats, column in (
        (torch.int64, torch.bfloat16, False),
        (torch.float32, torch.float32, True),
    ):
        got = _result(subject, _written_otherwise(subject, plain, masks, floats, column))
        for key in want:
            if key.split(".")[0] in subject.writes or key not in subject.reads:
                # Entries that are both read and written may be passed on in the dtype of the input.
                value = got[key].to(want[key].dtype) if key in subject.reads else got[key]
                subject.hold_equal(_LAW, key, value, want[key])


def _result(subject: Subject, batch: TensorDict) -> dict[str, Tensor]:
    try:
        return leaves(subject.run(batch))
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        subject.refuse(_LAW, f"it raised {type(error).__name__}: {error}")


def _plain(subject: Subject) -> TensorDict:
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


def _written_otherwise(
    subject: Subject, plain: TensorDict, masks: torch.dtype, floats: torch.dtype, column: bool
) -> TensorDict:
    batch = plain.copy()
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
