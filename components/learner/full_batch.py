"""What the model says of all rows of an optimiser step, before the first of them is learnt from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from rlcomp.component import asking
from rlcomp.keys import lookup

# No identifier, so that no key is declared by such a name.
_ROW = "(row)"


def full_batch_forward(
    model: TensorDictModuleBase,
    batch: TensorDict,
    wanted: Set[str],
    micro_batches: Callable[[TensorDict], Iterator[TensorDict]],
) -> dict[str, Tensor]:
    """The model's outputs for all rows, without a gradient, in the rows' order.

    Args:
        model: writes some of the wanted keys.
        batch: rows ``[B]`` of ``T`` tokens.
        wanted: what losses read. Full distributions are left out: ``[B, T, V]`` of a whole step is
            too large.
        micro_batches: splits rows as the model reads them, in any order.

    Returns:
        By key, shape ``[B, T]``.
    """
    rows = batch.copy()
    rows[_ROW] = torch.arange(batch.shape[0], device=batch["attention_mask"].device)
    small = {key for key in wanted if not (spec := lookup(key)) or spec.per_token}
    outputs: dict[str, Tensor] = {}
    with torch.no_grad(), asking(small):
        for micro in micro_batches(rows):
            seen = model(micro.copy())
            for key in small & set(model.out_keys):
                empty = seen[key].new_zeros(batch["attention_mask"].shape)
                outputs.setdefault(key, empty)[micro[_ROW], : seen[key].shape[1]] = seen[key]
    return outputs
