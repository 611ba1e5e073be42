"""Batches by hand: one call turns lists of values into the entries of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.batch import encode_columns, encode_texts


def make_batch(**entries: object) -> TensorDict:
    """Return a batch of the given entries, one value per row.

    Args:
        entries: values by key, as many as the batch has rows. A list of strings becomes an encoded
            text, a list of mappings becomes encoded columns, a mapping becomes nested entries, and
            any other list becomes a tensor. Tensors and TensorDicts are taken unchanged.

    Returns:
        ``[B]`` rows; ``B`` is the length of the first entry.

    Examples:
        >>> from rlcomp.batch import decode_texts
        >>> batch = make_batch(
        ...     prompt=["1+1=", "1+2="], rewards={"exact": [1.0, 0.0]}, group_id=[0, 0]
        ... )
        >>> batch["rewards", "exact"]
        tensor([1., 0.])
        >>> decode_texts(batch["prompt"])
        ['1+1=', '1+2=']
    """
    encoded = {key: _encode_entry(value) for key, value in entries.items()}
    rows = len(next(iter(encoded.values()))) if encoded else 0
    return TensorDict(encoded, batch_size=[rows])


def graded_answers(
    lengths: Sequence[int],
    correct: Sequence[bool],
    group_id: Sequence[int] | None = None,
    valid: Sequence[bool] | None = None,
) -> TensorDict:
    """Return a batch of graded answers: reward 1 for right ones, 0 for wrong ones.

    Args:
        lengths: tokens of each answer; ``response_mask`` ``[B, max(lengths)]`` begins with them.
        correct: True for right answers, ``[B]``.
        group_id: group of each answer, ``[B]``; None: the batch has no groups.
        valid: False for answers without a valid reward, ``[B]``; None: all are valid.

    Examples:
        >>> graded_answers([1, 2], [True, False])["response_mask"].tolist()
        [[True, False], [True, True]]
    """
    right = torch.tensor(correct, dtype=torch.bool)
    groups = {} if group_id is None else {"group_id": group_id}
    return make_batch(
        reward=right.double(),
        rewards={"exact_match": right.double()},
        reward_valid=[True] * len(lengths) if valid is None else valid,
        correct=right,
        response_mask=torch.arange(max(lengths)) < torch.tensor(lengths)[:, None],
        **groups,
    )


def _encode_entry(value: object) -> Tensor | TensorDict:
    if isinstance(value, (Tensor, TensorDict)):
        return value
    if isinstance(value, Mapping):
        return make_batch(**value)
    if isinstance(value, (list, tuple)) and value:
        if isinstance(value[0], str):
            return encode_texts(value)
        if isinstance(value[0], Mapping):
            return encode_columns(value)
    return torch.tensor(value)
