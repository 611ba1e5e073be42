"""Decode loop of the packed forward pass: prompts are prefilled once, finished rows dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rlcomp.engine.cache import Cache, Memory
from rlcomp.engine.draw import Draw, SampledResponses, SampledTokens, Transcript
from rlcomp.engine.fused import Fused
from rlcomp.engine.memory import cache_budget
from rlcomp.engine.packing import pack_prompts
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.transformer import Transformer
from rlcomp.engine.uniforms import Uniforms

# Maximum number of tokens of a prefill pass, unless a single prompt has more.
_PREFILL_TOKENS = 2**14


@torch.no_grad()
def decode(
    transformer: Transformer,
    prompts: Sequence[Sequence[int]],
    *,
    group_size: int,
    stop: StopRule,
    draw: Draw,
    uniforms: Uniforms,
    loop: type[DecodeLoop] | None = None,
) -> SampledResponses:
    """Sample ``group_size`` responses per prompt and return them.

    The tokens are the same as in :func:`rlcomp.engine.decode_transformers.decode`, up to rounding
    of the logits. Equal prompts are computed once.

    Memory: a copy of the model's layers (and of its head if the kernel needs another layout), and
    the KV cache of distinct prompts and of answers. The cache has at most
    :func:`rlcomp.engine.memory.cache_budget` bytes, unless a single prompt needs more.

    Args:
        transformer: the model.
        prompts: ``P`` non-empty lists of token ids.
        group_size: ``G``; row ``p * G + g`` answers prompt ``p``.
        stop: the rule that ends rows.
        draw: maps logits and uniform numbers to tokens.
        uniforms: uniform numbers of the rows.
        loop: class of the decode loop; None for :class:`DecodeLoop`.
    """
    loop = loop or DecodeLoop
    groups = group_by_prompt(prompts, group_size)
    longest, limit = max(len(prompt) for prompt in groups), max(stop.limits)
    fused = Fused(transformer, longest + limit)
    transcript = Transcript(uniforms.rows)
    budget = cache_budget(fused.device)
    for chunk in split_by_memory(groups, limit, fused.token_bytes, budget):
        for rows, start, steps in loop(fused, chunk, limit).segments(draw, uniforms, stop):
            transcript.write(rows, start, steps)
    uniforms.rewind(max(stop.lengths))
    return transcript.responses(stop)


# Distinct prompts, and the rows that answer each of them.
Groups = dict[tuple[int, ...], list[int]]


def group_by_prompt(prompts: Sequence[Sequence[int]], group_size: int) -> Groups:
    """Return the rows that answer each distinct prompt; row ``p * G + g`` answers prompt ``p``."""
    groups: Groups = {}
    for number, prompt in enumerate(prompts):
        rows = range(number * group_size, (number + 1) * group_size)
        groups.setdefault(tuple(prompt), []).extend(rows)
    return groups


def split_by_memory(groups: Groups, new: int, token_bytes: int, budget: int) -> Iterator[Groups]:
    """Yield chunks of prompts within a memory budget of keys and values.

    Args:
        groups: distinct prompts and their rows.
        new: maximum number of sampled tokens of a row.
        token_bytes: bytes of the keys and values of a token.
        budget: bytes; a chunk of one prompt may exceed it.
    """
    chunk: Groups = {}
    longest = num_rows = 0
    for prompt, rows in groups.items():
        longest, num_rows = max(longest, len(prompt)), num_rows + len(rows)
        size = ((len(chunk) + 1) * longest + num_rows * new) * token_bytes
        if chunk and size > budget:
            yield chunk
            chunk, longest, num_rows = {}, len(prompt), len(rows)
        chunk[prompt] = rows
    yield chunk


class DecodeLoop:
    """Decode loop over prompts and their rows, one step at a time.

    Args:
        fused: the model.
        groups: distinct prompts, and the rows that answer each of them.
        limit: maximum number of sampled tokens of a row.
    """

    cache_type = Cache

    def __init__(self, fused: Fused, groups: Groups, limit: int) -> None:
        prompts = list(groups)
        owners = [prompt for prompt, rows in enumerate(groups.values()) for _ in rows]
        self.fused = fused
        # Unfinished rows of the batch; repeated rows at the end are padding.
        self.rows = [row for rows in groups.values() for row in rows]
        self.num_unfinished = len(self.rows)
        lengths = [len(prompt) for prompt in prompts]
        memory, logits = prefill(fused, prompts)
        self.limit = limit
        self.cache = self.cache_type(memory, lengths, owners, limit)
        self.logits = logits[torch.tensor(owners, device=fused.device)]
        self.positions = torch.tensor([lengths[owner] for owner in owners], device=fused.device)

    def segments(
        self, draw: Draw, uniforms: Uniforms, stop: StopRule
    ) -> Iterator[tuple[list[int], int, list[SampledTokens]]]:
        """Yield segments of steps with the same rows.

        Yields:
            The rows, the number of the first step, and the draws of each step; the draws may have
            additional rows at the end, which are padding.
        """
        start, steps = 0, list[SampledTokens]()
        while True:
            numbers = uniforms.at(start + len(steps))[self.rows].to(self.fused.device)
            steps.append(draw(self.logits, numbers))
            tokens = steps[-1].tokens
            finished = stop.take(self.rows[: self.num_unfinished], tokens[: self.num_unfinished])
            unfinished = [row for row, ended in enumerate(finished) if not ended]
            if not unfinished:
                break
            size = padded_size(len(unfinished))
            if size < len(self.rows):
                yield self.rows[: self.num_unfinished], start, steps
                start, steps = start + len(steps), []
                tokens = self._compact(unfinished, size, tokens)
            self._step(tokens)
        yield self.rows[: self.num_unfinished], start, steps

    def _compact(self, unfinished: list[int], size: int, values: Tensor) -> Tensor:
        """Drop finished rows, and pad with repeated rows to ``size`` rows.

        Args:
            unfinished: indices of the rows to keep.
            size: number of rows afterwards, from ``len(unfinished)`` to twice as many.
            values: values of the rows before, such as their last tokens.

        Returns:
            The values of the rows afterwards.
        """
        chosen = (unfinished + unfinished)[:size]
        self.rows = [self.rows[row] for row in chosen]
        self.num_unfinished = len(unfinished)
        self.cache.keep(chosen)
        index = torch.tensor(chosen, device=values.device)
        self.positions = self.positions[index]
        return values[index]

    def _step(self, tokens: Tensor) -> None:
        """Compute one more token of each row."""
        self.cache.grow()
        x, rotation = self.fused.embed(tokens, self.positions)
        for number, block in enumerate(self.fused.blocks):
            q, k, v = block.project(x, rotation)
            x = block.finish(x, self.cache.attend(number, q, k, v, block.block.scale))
        self.logits = self.fused.logits(x)
        self.positions = self.positions + 1


def padded_size(rows: int) -> int:
    """Return the number of rows after padding: few sizes, because kernels adapt to each size."""
    return 1 << (rows - 1).bit_length() if rows < 8 else -(-rows // 8) * 8


def prefill(fused: Fused, prompts: Sequence[Sequence[int]]) -> tuple[list[Memory], Tensor]:
    """Compute prompts; return their keys and values by layer, and their next-token logits."""
    memory = fused.memory(len(prompts), max(len(prompt) for prompt in prompts))
    logits: list[Tensor] = []
    start = tokens = 0
    for end, prompt in enumerate(prompts):
        if tokens and tokens + len(prompt) > _PREFILL_TOKENS:
            logits.append(_prefill_chunk(fused, prompts, slice(start, end), memory))
            start, tokens = end, 0
        tokens += len(prompt)
    logits.append(_prefill_chunk(fused, prompts, slice(start, len(prompts)), memory))
    return memory, torch.cat(logits)


def _prefill_chunk(
    fused: Fused, prompts: Sequence[Sequence[int]], chunk: slice, memory: list[Memory]
) -> Tensor:
    """Compute a range of the prompts in one pass; return their next-token logits, ``[n, V]``.

    Their keys and values are written to ``memory``, padded on the left.
    """
    packed = pack_prompts([list(prompt) for prompt in prompts[chunk]], fused.device)
    lengths = torch.tensor([len(prompt) for prompt in prompts[chunk]], device=fused.device)
    prompt_indices = torch.arange(chunk.start, chunk.stop, device=fused.device).repeat_interleave(
        lengths
    )
    ends = lengths.cumsum(0) - 1
    # Left padding: all prompts end in the last column, and answers follow it.
    columns = packed.positions + (memory[0][0].shape[2] - lengths)[prompt_indices - chunk.start]
    x, rotation = fused.embed(packed.ids, packed.positions)
    for number, (block, (keys, values)) in enumerate(zip(fused.blocks, memory, strict=True)):
        q, k, v = block.project(x, rotation)
        keys[prompt_indices, :, columns] = k
        values[prompt_indices, :, columns] = v
        attended = packed.attend(q, k, v, block.block.scale)
        if number + 1 == len(fused.blocks):
            # The last layer computes only the last token of each prompt.
            x, attended = x[ends], attended[ends]
        x = block.finish(x, attended)
    return fused.logits(x)
