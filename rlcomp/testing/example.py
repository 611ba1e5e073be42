"""Example batches with edge cases: ragged rows, mask holes, garbage, invalid rewards."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.batch import encode_columns, encode_texts
from rlcomp.keys import SCHEMA, Key, check_key
from rlcomp.seed import named_seed

WIDTH = 10
TOKEN_IDS = 8
_LONGEST_PROMPT = 3
_EMPTY_ROW, _INVALID_ROW = 2, 1
_POSITIVE = ("entropy", "loss_weight", "token_weight")
_PROBABILITIES = ("log_probs", "old_log_probs", "ref_log_probs", "rollout_log_probs")


def example_batch(
    keys: Iterable[Key], *, rows: int = 8, seed: int = 0, dtype: torch.dtype = torch.float32
) -> TensorDict:
    """A ragged batch that holds the given keys.

    Row 2 has an empty response, row 1 an invalid reward, the last row a group of its own; the other
    rows stand in two interleaved groups, with holes in their response masks. Wherever the response
    mask is False, per-token floats are garbage of size 5. An entry depends on its key, ``rows``
    and ``seed`` only, not on which other keys are asked for. Texts are sums of one-digit numbers;
    ``chosen`` alternates, so that rows ``2k`` and ``2k + 1`` are a pair.

    Args:
        keys: of :data:`rlcomp.keys.SCHEMA`.
        rows: ``B``.
        seed: of all that is drawn.
        dtype: of the float entries.

    Returns:
        ``[B]`` rows; ``T`` is 10, token ids are below 8.

    Raises:
        ConfigError: a key is unknown.

    Examples:
        >>> example_batch(("reward", "response_mask"))["response_mask"].sum(1)[2]
        tensor(0)
    """
    entries: dict[Key, Tensor | TensorDict] = {}
    for key in keys:
        check_key("example_batch", key)
        entries[key] = _entry(key, rows, seed, dtype)
    return TensorDict(entries, batch_size=[rows])


def masks(rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """``attention_mask`` and ``response_mask`` of an example, shape ``[B, T]``."""
    draw = _draw(seed, "masks")
    position = torch.arange(WIDTH)[None, :]
    start = torch.randint(1, _LONGEST_PROMPT + 1, (rows, 1), generator=draw)
    end = torch.randint(6, WIDTH, (rows, 1), generator=draw)
    attention = position < end
    holes = torch.rand(rows, WIDTH, generator=draw) < 0.2
    response = (position >= start) & attention & (~holes | (position == end - 1))
    if rows > _EMPTY_ROW:
        response[_EMPTY_ROW] = False
    return attention, response


def _draw(seed: int, name: str) -> torch.Generator:
    return torch.Generator().manual_seed(named_seed(seed, name))


def _entry(key: Key, rows: int, seed: int, dtype: torch.dtype) -> Tensor | TensorDict:
    spec = SCHEMA[key]
    if key in ("attention_mask", "response_mask"):
        attention, response = masks(rows, seed)
        return attention if key == "attention_mask" else response
    if spec.text:
        return encode_texts([_TEXTS[key](row) for row in range(rows)])
    if key in _ROWS:
        return _ROWS[key](torch.arange(rows))
    if spec.dtype == "nested":
        parts = {name: _entry("reward", rows, seed + n, dtype) for n, name in enumerate("ab", 1)}
        return TensorDict(parts, batch_size=[rows])
    return _drawn(key, rows, seed, dtype)


def _drawn(key: Key, rows: int, seed: int, dtype: torch.dtype) -> Tensor:
    spec, draw = SCHEMA[key], _draw(seed, key)
    if spec.shape == "B T V":
        return torch.randn(rows, WIDTH, TOKEN_IDS, generator=draw, dtype=dtype).log_softmax(-1)
    if spec.shape == "B T V/8":
        return torch.full((rows, WIDTH, TOKEN_IDS // 8), 255, dtype=torch.uint8)
    if spec.shape == "B T K":  # as many as there are rewards
        return torch.stack([_drawn("advantage", rows, seed + n, dtype) for n in (1, 2)], 2)
    if spec.dtype == "bool":
        return torch.rand(rows, WIDTH, generator=draw) < 0.5
    if spec.dtype == "int64":
        return torch.randint(TOKEN_IDS, (rows, WIDTH), generator=draw)
    if spec.shape == "B":
        return torch.rand(rows, generator=draw, dtype=torch.float64).to(dtype)
    inside = _floats(key, rows, seed, draw)
    # Not so large that a clamp would hide the gradient of whoever looks at it.
    garbage = 5 * torch.randn(rows, WIDTH, generator=draw, dtype=torch.float64)
    return torch.where(masks(rows, seed)[1], inside, garbage).to(dtype)


def _floats(key: Key, rows: int, seed: int, draw: torch.Generator) -> Tensor:
    """Plausible values of a per-token key; those of one policy are near those of another."""
    noise = torch.randn(rows, WIDTH, generator=draw, dtype=torch.float64)
    if key in _PROBABILITIES:
        common = torch.rand(rows, WIDTH, generator=_draw(seed, "log p"), dtype=torch.float64)
        return -0.5 - 2 * common + (0.2 * noise).clamp(-0.4, 0.4)
    if key == "ratio":
        return (0.3 * noise).exp()
    if key == "squared_probs":
        return torch.sigmoid(noise)
    return noise.abs() / WIDTH if key in _POSITIVE else noise


def _group_ids(row: Tensor) -> Tensor:
    ids = torch.where(row % 2 == 0, 7, 3)
    ids[-1:] = 12  # a group of one, when there are others
    return ids


def _greedy(row: Tensor) -> Tensor:
    """One row of each group."""
    greedy = row < 2
    greedy[-1:] = True
    return greedy


def _scales(row: Tensor) -> Tensor:
    """Of two objectives."""
    return torch.tensor([[2.0, 0.5]]).repeat(len(row), 1)


def _preferences(row: Tensor) -> Tensor:
    """One for each group, of two objectives."""
    first = torch.where(row % 2 == 0, 0.75, 0.25)
    return torch.stack([first, 1 - first], 1)


def _columns(row: Tensor) -> TensorDict:
    """A list in every row, a number in every other one."""
    return encode_columns([{"tests": [n], **({} if n % 2 else {"level": n})} for n in row.tolist()])


_ROWS: dict[Key, Callable[[Tensor], Tensor | TensorDict]] = {
    "advantage_scale": _scales,
    "answer_ends": lambda row: torch.tensor([[True, False]]).repeat(len(row), 1),
    "columns": _columns,
    "group_id": _group_ids,
    "reward_valid": lambda row: row != _INVALID_ROW,
    "chosen": lambda row: row % 2 == 0,
    "correct": lambda row: row % 3 == 0,
    "example_id": lambda row: torch.where(row % 2 == 0, 4, 1),
    "greedy": _greedy,
    "answers_group_id": lambda row: torch.where(row % 2 == 0, 3, -1),
    "is_proposer": lambda row: row % 2 == 0,
    "preference": _preferences,
    "truncated": lambda row: row % 4 == 3,
}

_TEXTS: dict[Key, Callable[[int], str]] = {
    "prompt": lambda row: f"{row % 2 + 1}+3=",
    "policy_prompt": lambda row: f"{3 - row % 2 * 2}{row % 2 * 2 + 1}={row % 2 + 1}+3=",
    "answer": lambda row: str(row % 2 + 4),
    "response": lambda row: "" if row == _EMPTY_ROW else str(row % 2 + 4 + (row > 4)),
}
