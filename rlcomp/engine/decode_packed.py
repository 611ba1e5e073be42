"""Native decode loop: shared prompt prefill, finished rows dropped, no padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rlcomp.engine.attention import attend_packed
from rlcomp.engine.cache import Cache, Memory
from rlcomp.engine.draw import Draw, Drawn, Sampled, Transcript, Uniforms
from rlcomp.engine.fused import Fused
from rlcomp.engine.memory import cache_budget
from rlcomp.engine.packing import pack_prompts
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.transformer import Transformer

# Prompt tokens read at a time; intermediate results of the layers are not kept.
_READ_TOKENS = 2**14


@torch.no_grad()
def decode(
    transformer: Transformer,
    prompts: Sequence[Sequence[int]],
    *,
    group_size: int,
    stop: StopRule,
    draw: Draw,
    uniforms: Uniforms,
    loop: type[Loop] | None = None,
) -> Sampled:
    """Sample ``group_size`` responses per prompt.

    With the same numbers it gives the tokens of :func:`rlcomp.engine.decode_transformers.decode`,
    unless rounding of the logits changes one.

    Takes memory for one more copy of the model's layers, and of its head where the kernel needs
    another layout; and for keys and values of each distinct prompt, once, and of each answer. Keys
    and values take no more than :func:`rlcomp.engine.memory.cache_budget` at a time, except
    for one prompt.

    Arguments and result are those of that function, except ``transformer``: the model, and
    ``loop``: the class that takes the steps, :class:`Loop` by default. Equal prompts are read once.
    """
    loop = loop or Loop
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, prompt in enumerate(prompts):
        answers = range(place * group_size, (place + 1) * group_size)
        groups.setdefault(tuple(prompt), []).extend(answers)
    longest, most = max(len(prompt) for prompt in groups), max(stop.limits)
    fused = Fused(transformer, longest + most)
    transcript = Transcript(uniforms.rows)
    budget = cache_budget(fused.device)
    for some in _passes(groups, most, fused.token_bytes, budget):
        for rows, start, steps in loop(fused, some, most).segments(draw, uniforms, stop):
            transcript.write(rows, start, steps)
    uniforms.rewind(max(stop.lengths))
    return transcript.sampled(stop)


Groups = dict[tuple[int, ...], list[int]]


def _passes(groups: Groups, new: int, token_bytes: int, budget: int) -> Iterator[Groups]:
    """Yield chunks of prompts with their rows that fit in memory."""
    some: Groups = {}
    longest = answers = 0
    for prompt, rows in groups.items():
        longest, answers = max(longest, len(prompt)), answers + len(rows)
        size = ((len(some) + 1) * longest + answers * new) * token_bytes
        if some and size > budget:
            yield some
            some, longest, answers = {}, len(prompt), len(rows)
        some[prompt] = rows
    yield some


class Loop:
    """Decode loop over prompts and their rows, one step at a time.

    Args:
        fused: the model.
        groups: prompts, and the rows that answer each of them.
        limit: the most tokens of a row.
    """

    cache_type = Cache

    def __init__(self, fused: Fused, groups: Groups, limit: int) -> None:
        prompts = list(groups)
        owners = [place for place, rows in enumerate(groups.values()) for _ in rows]
        self.fused = fused
        # Rows of the batch that are still computed; repeated rows at the end are padding.
        self.rows = [row for rows in groups.values() for row in rows]
        self.real = len(self.rows)
        lengths = [len(prompt) for prompt in prompts]
        memory, logits = read_prompts(fused, prompts)
        self.limit = limit
        self.cache = self.cache_type(memory, lengths, owners, limit)
        self.logits = logits[torch.tensor(owners, device=fused.device)]
        self.positions = torch.tensor([lengths[owner] for owner in owners], device=fused.device)

    def segments(
        self, draw: Draw, uniforms: Uniforms, stop: StopRule
    ) -> Iterator[tuple[list[int], int, list[Drawn]]]:
        """Yield runs of steps with the same rows: the rows, the first step, the draws."""
        start, steps = 0, list[Drawn]()
        while True:
            numbers = uniforms.at(start + len(steps))[self.rows].to(self.fused.device)
            steps.append(draw(self.logits, numbers))
            tokens = steps[-1].tokens
            over = stop.take(self.rows[: self.real], tokens[: self.real])
            left = [row for row, ended in enumerate(over) if not ended]
            if not left:
                break
            size = size_of(len(left))
            if size < len(self.rows):
                yield self.rows[: self.real], start, steps
                start, steps = start + len(steps), []
                tokens = self._compact(left, size, tokens)
            self._step(tokens)
        yield self.rows[: self.real], start, steps

    def _compact(self, left: list[int], size: int, tokens: Tensor) -> Tensor:
        """Keep the unfinished rows, padded with repeated ones to an efficient size.

        Returns ``tokens`` of those rows.
        """
        chosen = (left + left)[:size]
        self.rows = [self.rows[row] for row in chosen]
        self.real = len(left)
        self.cache.keep(chosen)
        index = torch.tensor(chosen, device=tokens.device)
        self.positions = self.positions[index]
        return tokens[index]

    def _step(self, tokens: Tensor) -> None:
        """Forward one more token per row."""
        self.cache.grow()
        x, rotation = self.fused.embed(tokens, self.positions)
        for number, block in enumerate(self.fused.blocks):
            q, k, v = block.project(x, rotation)
            x = block.finish(x, self.cache.attend(number, q, k, v, block.block.scale))
        self.logits = self.fused.logits(x)
        self.positions = self.positions + 1


def size_of(rows: int) -> int:
    """Return the batch size for unfinished rows: one of few sizes, as kernels adapt to each."""
    return 1 << (rows - 1).bit_length() if rows < 8 else -(-rows // 8) * 8


def read_prompts(fused: Fused, prompts: Sequence[Sequence[int]]) -> tuple[list[Memory], Tensor]:
    """Prefill prompts; return their keys and values for :class:`Cache`, and their logits."""
    memory = fused.memory(len(prompts), max(len(prompt) for prompt in prompts))
    logits: list[Tensor] = []
    start = tokens = 0
    for end, prompt in enumerate(prompts):
        if tokens and tokens + len(prompt) > _READ_TOKENS:
            logits.append(_read_some(fused, prompts, slice(start, end), memory))
            start, tokens = end, 0
        tokens += len(prompt)
    logits.append(_read_some(fused, prompts, slice(start, len(prompts)), memory))
    return memory, torch.cat(logits)


def _read_some(
    fused: Fused, prompts: Sequence[Sequence[int]], some: slice, memory: list[Memory]
) -> Tensor:
    packed = pack_prompts([list(prompt) for prompt in prompts[some]], fused.device)
    lengths = torch.tensor([len(prompt) for prompt in prompts[some]], device=fused.device)
    places = torch.arange(some.start, some.stop, device=fused.device).repeat_interleave(lengths)
    ends = lengths.cumsum(0) - 1
    # All prompts end in the column where the longest ends, so that answers continue behind it.
    columns = packed.positions + (memory[0][0].shape[2] - lengths)[places - some.start]
    x, rotation = fused.embed(packed.ids, packed.positions)
    for number, (block, (keys, values)) in enumerate(zip(fused.blocks, memory, strict=True)):
        q, k, v = block.project(x, rotation)
        keys[places, :, columns] = k
        values[places, :, columns] = v
        attended = attend_packed(q, k, v, packed, block.block.scale)
        if number + 1 == len(fused.blocks):
            # The last states of the other tokens are not used.
            x, attended = x[ends], attended[ends]
        x = block.finish(x, attended)
    return fused.logits(x)
