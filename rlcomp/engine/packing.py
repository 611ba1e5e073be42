"""Sequence packing without padding, with shared prompts (prefix sharing)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict
from torch import Tensor

from rlcomp.functional.masked import masked

# Tokens whose attention is worked out together. Smaller tiles mean fewer pairs that the mask throws
# away, larger ones fewer calls; on a CPU 128 was the cheapest per token.
_TILE = 128
# Numbers of a mask from which doing without is better, whatever it costs: 16 MB.
_LARGE_MASK = 2**22

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Tile:
    """A tile: tokens that attend to each other, with one mask.

    Attributes:
        rows: the tokens that ask, as a range of the packed list.
        prefix: number of the tile that they see as well, whole; None if all that they see is
            among themselves.
        mask: 0 where a token (first dimension) may see another, ``-inf`` elsewhere; the others are
            the prefix, then the tile itself. None where the tile, behind its prefix, is one
            sequence in which every token sees all before itself.
    """

    rows: slice
    prefix: int | None
    mask: Tensor | None


@dataclass(frozen=True)
class Packed:
    """Packed sequences: ``N`` tokens without padding.

    Attributes:
        ids: shape ``[N]``, int64.
        positions: shape ``[N]``, int64: columns of the rows they come from.
        tiles: cover the tokens in order.
    """

    ids: Tensor
    positions: Tensor
    tiles: list[Tile]


@dataclass(frozen=True)
class Listed:
    """The response tokens of a batch as one list of length ``R``.

    Attributes:
        states: shape ``[R]``, int64: which packed token predicts each.
        places: shape ``[R]``, int64: where each stands in the flattened batch.
        targets: shape ``[R]``, int64: which token it is.
    """

    states: Tensor
    places: Tensor
    targets: Tensor


def pack(batch: TensorDict) -> tuple[Packed, Listed]:
    """Pack the tokens needed to predict the response tokens of a batch.

    A row's prompt is what stands before its first response token. Equal prompts are read once,
    wherever their rows stand. A row is read up to the token before its last response token, and a
    row without one not at all. A response token in column 0 has nothing before it and is left out.

    Args:
        batch: holds ``tokens``, ``attention_mask`` and ``response_mask``, shape ``[B, T]``.

    Returns:
        The tokens to read, at least one; and the tokens they predict.
    """
    ids = masked(batch["tokens"], batch["attention_mask"])
    wanted = batch["response_mask"].clone()
    wanted[:, 0] = False
    rows, columns = wanted.nonzero(as_tuple=True)
    starts, ends = _spans(wanted)
    layout = _Layout(ids.cpu().numpy(), starts, ends)
    source = columns - 1
    begin = torch.from_numpy(layout.prefixes).to(ids.device)[rows]
    own = torch.from_numpy(layout.answers).to(ids.device)[rows]
    length = torch.from_numpy(starts).to(ids.device)[rows]
    places = rows * ids.shape[1] + columns
    listed = Listed(
        states=torch.where(source < length, begin + source, own + source - length),
        places=places,
        targets=ids.flatten()[places],
    )
    taken = torch.from_numpy(layout.taken).to(ids.device)
    return Packed(ids.flatten()[taken], taken % ids.shape[1], layout.tiles(ids.device)), listed


def pack_prompts(prompts: list[list[int]], device: torch.device) -> Packed:
    """Pack prompts for prefill, each a sequence of its own.

    Args:
        prompts: non-empty lists of ids; equal ones are not merged.
        device: where the tensors go.
    """
    lengths = np.array([len(prompt) for prompt in prompts])
    groups = [_Group(int(length), []) for length in lengths]
    return Packed(
        torch.tensor([token for prompt in prompts for token in prompt], device=device),
        torch.cat([torch.arange(length, device=device) for length in lengths.tolist()]),
        _tiles(groups, device),
    )


def _spans(wanted: Tensor) -> tuple[Indices, Indices]:
    """Columns where a row's response starts, and where its reading ends; 0, 0 without one."""
    mask = wanted.cpu().numpy()
    some = mask.any(1)
    starts = np.where(some, mask.argmax(1), 0)
    ends = np.where(some, mask.shape[1] - 1 - mask[:, ::-1].argmax(1), 0)
    return starts, ends


@dataclass(frozen=True)
class _Group:
    """Tokens of one prompt, and of each answer to it."""

    prompt: int
    answers: list[int]

    @property
    def size(self) -> int:
        """All of its tokens."""
        return self.prompt + sum(self.answers)

    @property
    def single(self) -> bool:
        """Whether it is a plain sequence."""
        return len([length for length in self.answers if length]) <= 1


def packed_pieces(batch: TensorDict, budget: int, unit_rows: int = 1) -> list[Tensor]:
    """Micro-batches of rows within a packed token budget; rows of one prompt stay together.

    Args:
        batch: holds ``tokens`` and ``response_mask``, shape ``[B, T]``.
        budget: the most tokens of a piece; a single unit may exceed it.
        unit_rows: rows that stay together; divides ``B``.

    Returns:
        Indices of rows, int64; every row once.

    Examples:
        >>> mask = torch.tensor([[False, True], [False, True], [False, True]])
        >>> batch = TensorDict(tokens=torch.tensor([[1, 0], [2, 0], [1, 0]]), response_mask=mask)
        >>> packed_pieces(batch, 1)
        [tensor([0, 2]), tensor([1])]
    """
    wanted = batch["response_mask"].clone()
    wanted[:, 0] = False
    starts, ends = _spans(wanted)
    rank = np.full(len(starts), -1)  # rows that are not read cost nothing
    for index, rows in enumerate(_members(batch["tokens"].cpu().numpy(), starts, ends)):
        rank[rows] = index
    found: list[list[int]] = [[]]
    held, seen = 0, set[int]()
    for unit in rank[::unit_rows].argsort(kind="stable").tolist():
        rows = list(range(unit * unit_rows, (unit + 1) * unit_rows))
        prompts = {int(rank[row]): int(starts[row]) for row in rows}
        answers = int((ends - starts)[rows].sum())
        new = sum(prompts[prompt] for prompt in prompts.keys() - seen)
        if found[-1] and held + answers + new > budget:
            found.append([])
            held, seen, new = 0, set(), sum(prompts.values())
        found[-1] += rows
        held += answers + new
        seen |= prompts.keys()
    return [torch.tensor(rows) for rows in found]


def _members(ids: Indices, starts: Indices, ends: Indices) -> list[list[int]]:
    """Rows of each distinct prompt, by first appearance; rows that are not read are left out."""
    members: dict[bytes, list[int]] = {}
    for row in ends.nonzero()[0].tolist():
        members.setdefault(ids[row, : starts[row]].tobytes(), []).append(row)
    return list(members.values())


class _Layout:
    """Packing layout: which tokens of a flattened batch are read, in which order.

    Attributes:
        taken: their places, shape ``[N]``.
        prefixes: where each row's prompt begins in the list, shape ``[B]``.
        answers: where what follows it begins, shape ``[B]``.
        groups: one for each distinct prompt.
    """

    def __init__(self, ids: Indices, starts: Indices, ends: Indices) -> None:
        width = ids.shape[1]
        self.prefixes, self.answers = np.zeros_like(starts), np.zeros_like(starts)
        self.groups: list[_Group] = []
        # Where each stretch of the list begins in the batch, and how long it is.
        begins, lengths, offset = list[int](), list[int](), 0
        for rows in _members(ids, starts, ends):
            prompt = int(starts[rows[0]])
            answers = (ends[rows] - prompt).tolist()
            self.prefixes[rows] = offset
            self.answers[rows] = offset + prompt + np.cumsum([0, *answers[:-1]])
            begins += [rows[0] * width, *(row * width + prompt for row in rows)]
            lengths += [prompt, *answers]
            offset += prompt + sum(answers)
            self.groups.append(_Group(prompt, answers))
        if not lengths:
            # One token that nobody reads keeps the result connected to the weights.
            begins, lengths, self.groups = [0], [1], [_Group(1, [])]
        shifts = np.array(begins) - np.cumsum([0, *lengths[:-1]])
        self.taken = np.repeat(shifts, lengths) + np.arange(sum(lengths))

    def tiles(self, device: torch.device) -> list[Tile]:
        """Ranges of the list that attend together."""
        return _tiles(self.groups, device)


def _tiles(groups: list[_Group], device: torch.device) -> list[Tile]:
    """Small groups share a tile; a large one is cut, and its later tiles see the prompt."""
    tiles: list[Tile] = []
    offset, waiting = 0, list[_Group]()
    for group in groups:
        held = sum(each.size for each in waiting)
        if waiting and held + group.size > _TILE:
            tiles.append(_shared_tile(waiting, offset, device))
            offset, waiting = offset + held, []
        if group.size <= _TILE:
            waiting.append(group)
            continue
        if group.single:
            tiles.append(Tile(slice(offset, offset + group.size), None, None))
        else:
            tiles += _cut(group, offset, len(tiles), device)
        offset += group.size
    if waiting:
        tiles.append(_shared_tile(waiting, offset, device))
    return tiles


def _shared_tile(groups: list[_Group], offset: int, device: torch.device) -> Tile:
    """Whole groups, each of which sees only itself."""
    rows = slice(offset, offset + sum(group.size for group in groups))
    plain = len(groups) == 1 and groups[0].single
    return Tile(rows, None, None if plain else _visible(groups, device))


def _cut(group: _Group, offset: int, number: int, device: torch.device) -> Iterator[Tile]:
    """The prompt by itself, as tile ``number``, then its answers, some at a time."""
    prefix = slice(offset, offset + group.prompt)
    yield Tile(prefix, None, None)
    start, waiting = prefix.stop, list[int]()
    for index, length in enumerate(group.answers):
        waiting.append(length)
        last = index + 1 == len(group.answers)
        if sum(waiting) and (last or sum(waiting) + group.answers[index + 1] > _TILE):
            rows = slice(start, start + sum(waiting))
            part = _Group(group.prompt, waiting)
            mask = None if _reads_on(part) else _visible([part], device)[group.prompt :]
            yield Tile(rows, number, mask)
            start, waiting = rows.stop, []


def _reads_on(part: _Group) -> bool:
    """Whether a response is packed as a sequence after its prompt instead of with a mask.

    Then the prompt asks once more, in vain. A mask is as large as the answer times all it sees, and
    with one nothing is skipped of what lies ahead.
    """
    answer = sum(part.answers)
    return part.single and (answer >= part.prompt or answer * part.size > _LARGE_MASK)


def _visible(groups: list[_Group], device: torch.device) -> Tensor:
    """Attention bias: 0 within the prompt and the own response (causal), ``-inf`` elsewhere."""
    lengths = [length for group in groups for length in (group.prompt, *group.answers)]
    prompts, count = list[int](), 0
    for group in groups:
        prompts += [count] * (1 + len(group.answers))
        count += 1 + len(group.answers)
    part = np.repeat(np.arange(count), lengths)
    prompt = np.array(prompts)[part]
    related = (part[:, None] == part) | (prompt[:, None] == part)
    seen = related & np.tri(len(part), dtype=bool)
    bias = np.where(seen, np.float32(0), np.float32(-np.inf))
    return torch.from_numpy(bias).to(device)
