"""Batches for tests: of given values, of graded answers, and examples with edge cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.batch import encode_columns, encode_texts
from rlcomp.keys import Key, Spec, spec
from rlcomp.seed import named_seed

WIDTH = 10
TOKEN_IDS = 8
_LONGEST_PROMPT = 3
_EMPTY_ROW, _INVALID_ROW = 2, 1
# Seed and name of the parts of nested entries, which are also the objectives.
_PARTS = ((1, "a"), (2, "b"))


def make_batch(**entries: object) -> TensorDict:
    """Return a batch of these entries, one value per row.

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

    Returns:
        ``reward``, ``rewards`` (part ``exact_match``), ``reward_valid``, ``correct``,
        ``response_mask``, and ``group_id`` if given.

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


def example_batch(
    keys: Iterable[Key], *, rows: int = 8, seed: int = 0, dtype: torch.dtype = torch.float32
) -> TensorDict:
    """Return a ragged batch of some keys.

    Row 2 has an empty response, row 1 an invalid reward, the last row a group of its own. The other
    rows are in two interleaved groups. Response masks have holes. Where the response mask is False,
    per-token floats (not distributions) are garbage of size 5. An entry depends only on its key,
    ``rows``, ``seed`` and ``dtype``, not on the other keys. Prompts are sums of one-digit numbers;
    ``chosen`` alternates, so that rows ``2k`` and ``2k + 1`` are a pair.

    Args:
        keys: keys of :data:`rlcomp.keys.SCHEMA` or of components.
        rows: ``B``.
        seed: seed of all random entries.
        dtype: dtype of the float entries.

    Returns:
        ``[B]`` rows; ``T`` is 10, token ids are below 8.

    Raises:
        ConfigError: a key is unknown.

    Examples:
        >>> example_batch(("reward", "response_mask"))["response_mask"].sum(1)[2]
        tensor(0)
    """
    entries = {key: _entry(key, spec(key), rows, seed, dtype) for key in keys}
    return TensorDict(entries, batch_size=[rows])


def masks(rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return ``attention_mask`` and ``response_mask`` of an example, shape ``[B, T]``."""
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


def _turns(rows: int, seed: int, *, states: bool) -> Tensor:
    """Return the ids of two turns, the second from the middle on; or ids of three states.

    -1 outside the response.
    """
    response = masks(rows, seed)[1]
    turn = (torch.arange(WIDTH) >= WIDTH // 2).long().expand(rows, -1)
    values = (turn + torch.arange(rows)[:, None]) % 3 if states else turn
    return torch.where(response, values, -1)


def _draw(seed: int, name: str) -> torch.Generator:
    return torch.Generator().manual_seed(named_seed(seed, name))


def _entry(key: Key, spec: Spec, rows: int, seed: int, dtype: torch.dtype) -> Tensor | TensorDict:
    if key in ("attention_mask", "response_mask"):
        attention, response = masks(rows, seed)
        return attention if key == "attention_mask" else response
    if key in ("turn_id", "anchor_id"):
        return _turns(rows, seed, states=key == "anchor_id")
    if spec.text:
        return encode_texts([_TEXTS.get(key, _note)(row) for row in range(rows)])
    if key in _ROWS:
        return _ROWS[key](torch.arange(rows))
    if spec.dtype == "nested":
        texts = isinstance(spec.absent, str) and spec.absent
        part = Spec("B W", "uint8", "") if texts else Spec("B", "float", "")
        parts = {name: _entry("part", part, rows, seed + n, dtype) for n, name in _PARTS}
        return TensorDict(parts, batch_size=[rows])
    if spec.dtype == "float":
        return _floats(key, spec, rows, seed, dtype)
    return _integers(key, spec, rows, seed)


def _integers(key: Key, spec: Spec, rows: int, seed: int) -> Tensor:
    """Return plausible values of bools, ids or bytes."""
    draw, row = _draw(seed, key), torch.arange(rows)
    if spec.dtype == "uint8":  # all bits set: every token is in the sampling set
        return torch.full((rows, *_sizes(spec)), 255, dtype=torch.uint8)
    if spec.shape != "B":
        shape = (rows, *_sizes(spec))
        bits = torch.rand(shape, generator=draw) < 0.5
        return bits if spec.dtype == "bool" else torch.randint(TOKEN_IDS, shape, generator=draw)
    if spec.dtype == "bool":
        return _first_of_group(row) if spec.example == "first_of_group" else row % 2 == 0
    # One of the ids of the example's groups, or none.
    return torch.where(row % 2 == 0, 3, -1) if spec.offset else row % 2


def _sizes(spec: Spec) -> list[int]:
    """Return the dimensions behind ``B``, consistent with other entries."""
    sizes = {"T": WIDTH, "V": TOKEN_IDS, "V/8": TOKEN_IDS // 8}
    return [sizes.get(letter, len(_PARTS)) for letter in spec.shape.split()[1:]]


def _floats(key: Key, spec: Spec, rows: int, seed: int, dtype: torch.dtype) -> Tensor:
    draw, sizes = _draw(seed, key), _sizes(spec)
    if spec.shape == "B T V":
        return torch.randn(rows, *sizes, generator=draw, dtype=dtype).log_softmax(-1)
    if spec.shape == "B T K":  # one per reward
        each = Spec("B T", "float", "", example=spec.example)
        return torch.stack([_floats(key, each, rows, seed + n, dtype) for n, _ in _PARTS], 2)
    if not spec.along_tokens:
        values = torch.rand(rows, *sizes, generator=draw, dtype=torch.float64).to(dtype)
        same = spec.example == "same_in_all_rows"
        return values[:1].expand(rows, *sizes).contiguous() if same else values
    inside = _token_floats(spec, rows, seed, draw)
    # Not so large that a clamp would hide a gradient.
    garbage = 5 * torch.randn(rows, WIDTH, generator=draw, dtype=torch.float64)
    return torch.where(masks(rows, seed)[1], inside, garbage).to(dtype)


def _token_floats(spec: Spec, rows: int, seed: int, draw: torch.Generator) -> Tensor:
    """Return plausible values of a per-token key; values of two policies are close."""
    noise = torch.randn(rows, WIDTH, generator=draw, dtype=torch.float64)
    if spec.example == "log_prob":
        common = torch.rand(rows, WIDTH, generator=_draw(seed, "log p"), dtype=torch.float64)
        return -0.5 - 2 * common + (0.2 * noise).clamp(-0.4, 0.4)
    if spec.example == "ratio":
        return (0.3 * noise).exp()
    if spec.example == "probability":
        return torch.sigmoid(noise)
    return noise.abs() / WIDTH if spec.example == "positive" else noise


def _group_ids(row: Tensor) -> Tensor:
    ids = torch.where(row % 2 == 0, 7, 3)
    ids[-1:] = 12  # a group of one, if there are others
    return ids


def _first_of_group(row: Tensor) -> Tensor:
    """Return one row of each group."""
    first = row < 2
    first[-1:] = True
    return first


def _note(row: int) -> str:
    return f"note {row % 2}"


def _preferences(row: Tensor) -> Tensor:
    """Return one preference per group, of two objectives."""
    first = torch.where(row % 2 == 0, 0.75, 0.25)
    return torch.stack([first, 1 - first], 1)


def _columns(row: Tensor) -> TensorDict:
    """Return a list in every row, and a number in every second row."""
    return encode_columns([{"tests": [n], **({} if n % 2 else {"level": n})} for n in row.tolist()])


_ROWS: dict[Key, Callable[[Tensor], Tensor | TensorDict]] = {
    "answer_ends": lambda row: torch.tensor([[True, False]]).repeat(len(row), 1),
    "columns": _columns,
    "group_id": _group_ids,
    "reward_valid": lambda row: row != _INVALID_ROW,
    "chosen": lambda row: row % 2 == 0,
    "correct": lambda row: row % 3 == 0,
    "example_id": lambda row: torch.where(row % 2 == 0, 4, 1),
    "preference": _preferences,
    "truncated": lambda row: row % 4 == 3,
    "trajectory_id": lambda row: row + 5,
}

_TEXTS: dict[Key, Callable[[int], str]] = {
    "episode_error": lambda row: "it fell over" if row == _INVALID_ROW else "",
    "prompt": lambda row: f"{row % 2 + 1}+3=",
    "policy_prompt": lambda row: f"{3 - row % 2 * 2}{row % 2 * 2 + 1}={row % 2 + 1}+3=",
    "teacher_prompt": lambda row: f"{row % 2 + 4}={row % 2 + 1}+3=",
    "answer": lambda row: str(row % 2 + 4),
    "response": lambda row: "" if row == _EMPTY_ROW else str(row % 2 + 4 + (row > 4)),
}
