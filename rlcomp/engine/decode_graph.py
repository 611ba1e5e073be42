"""Decode loop for a GPU: a step is one CUDA graph; the host reads tokens every few steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rlcomp.engine.cache import Cache, Memory
from rlcomp.engine.decode_packed import DecodeLoop, padded_size
from rlcomp.engine.draw import Draw, SampledTokens
from rlcomp.engine.fused import Fused
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.uniforms import Uniforms

# Steps between two reads of the drawn tokens; finished rows are computed until the next read.
STEPS_PER_READ = 16
# The rows' own memory grows by this many columns; every size needs its own graph.
_NEW_COLUMNS = 128
# The loop drops finished rows when at most this share of its rows is unfinished.
_COMPACT_BELOW = 0.8


class StaticCache(Cache):
    """KV cache that reads the index of its newest column from the device, as a graph requires.

    Takes the arguments of :class:`rlcomp.engine.cache.Cache`.
    """

    def __init__(
        self, prompts: list[Memory], lengths: Sequence[int], owners: Sequence[int], limit: int
    ) -> None:
        super().__init__(prompts, lengths, owners, limit)
        self.column = torch.tensor([self.length], device=self._bias_of_columns.device)

    @property
    def capacity(self) -> int:
        """Return the number of columns of the rows' own memory."""
        return self._bias_of_columns.shape[-1]

    def _growth(self, capacity: int, length: int) -> int:
        return -(-(length - capacity) // _NEW_COLUMNS) * _NEW_COLUMNS

    def open_column(self) -> None:
        """Unmask the column of the next write."""
        self._bias_of_columns.index_fill_(-1, self.column, 0.0)

    @property
    def _width(self) -> int:
        return self.capacity

    def _write(self, layer: int, k: Tensor, v: Tensor) -> None:
        for memory, new in zip(self._own[layer], (k, v), strict=True):
            memory.index_copy_(2, self.column, new[:, :, None])


class StepGraph:
    """One decode step on static buffers: a draw, then the forward pass of the drawn tokens.

    After a change of rows or memory, the first step runs eagerly. The next ones run as the graph
    captured after it. On a CPU every step runs eagerly.

    Args:
        fused: the model.
        cache: KV cache of the rows.
        logits: logits of the next token of each row, shape ``[R, V]``.
        positions: position of each row's next token, shape ``[R]``.
        draw: maps logits and uniform numbers to tokens; must not synchronise with the device.
    """

    def __init__(
        self, fused: Fused, cache: StaticCache, logits: Tensor, positions: Tensor, draw: Draw
    ) -> None:
        self.fused, self.cache, self.draw = fused, cache, draw
        self.logits, self.positions = logits, positions
        # Index of the next step in `numbers` and `buffers`.
        self.step = torch.zeros(1, dtype=torch.int64, device=fused.device)
        self.numbers = torch.zeros(
            STEPS_PER_READ, len(logits), 1, dtype=torch.float64, device=fused.device
        )
        self.buffers: SampledTokens | None = None  # the draws of the steps, stacked
        self.graph: torch.cuda.CUDAGraph | None = None

    def run(self, numbers: Tensor) -> list[SampledTokens]:
        """Take decode steps and return the draw of each step.

        Args:
            numbers: uniform numbers in [0, 1), shape ``[steps, R, 1]``, float64; at most
                ``STEPS_PER_READ`` steps.
        """
        count = len(numbers)
        self.numbers[:count].copy_(numbers, non_blocking=True)
        self.step.zero_()
        for number in range(count):
            if self.graph is not None:
                self.graph.replay()
                continue
            self._step()
            if self.fused.device.type == "cuda" and number + 1 < count:
                self._capture()
        assert self.buffers is not None
        masks = self.buffers.sampling_mask
        tokens, log_probs = (
            each[:count].clone() for each in (self.buffers.tokens, self.buffers.log_probs)
        )
        row_masks = [None] * count if masks is None else [*masks[:count].clone()]
        return [SampledTokens(*step) for step in zip(tokens, log_probs, row_masks, strict=True)]

    def _capture(self) -> None:
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._step()

    def _step(self) -> None:
        numbers = self.numbers.index_select(0, self.step)[0]
        sample = self.draw(self.logits, numbers)
        self._store(sample)
        self.cache.open_column()
        x, rotation = self.fused.embed(sample.tokens, self.positions)
        for layer, block in enumerate(self.fused.blocks):
            q, k, v = block.project(x, rotation)
            x = block.finish(x, self.cache.attend(layer, q, k, v, block.block.scale))
        self.logits.copy_(self.fused.logits(x))
        for counter in (self.positions, self.cache.column, self.step):
            counter.add_(1)

    def _store(self, sample: SampledTokens) -> None:
        """Store the draw of this step in the buffers."""
        if self.buffers is None:
            masks = None if sample.sampling_mask is None else _step_buffer(sample.sampling_mask)
            self.buffers = SampledTokens(
                _step_buffer(sample.tokens), _step_buffer(sample.log_probs), masks
            )
        buffers = self.buffers
        buffers.tokens.index_copy_(0, self.step, sample.tokens[None])
        buffers.log_probs.index_copy_(0, self.step, sample.log_probs[None])
        if buffers.sampling_mask is not None and sample.sampling_mask is not None:
            buffers.sampling_mask.index_copy_(0, self.step, sample.sampling_mask[None])


def _step_buffer(values: Tensor) -> Tensor:
    return values.new_zeros(STEPS_PER_READ, *values.shape)


class GraphDecodeLoop(DecodeLoop):
    """Decode loop over prompts and their rows, several steps at a time.

    Takes the arguments of :class:`rlcomp.engine.decode_packed.DecodeLoop`; the tokens are the same.
    """

    cache: StaticCache
    cache_type = StaticCache

    def segments(
        self, draw: Draw, uniforms: Uniforms, stop: StopRule
    ) -> Iterator[tuple[list[int], int, list[SampledTokens]]]:
        """Yield segments of steps with the same rows: the rows, the first step, the draws."""
        start, limit, graph = 0, self.limit, None
        while True:
            count = min(STEPS_PER_READ, limit - start)
            graph = self._graph(draw, count, graph)
            numbers = uniforms.steps_from(start, count)[:, self.rows]
            steps = graph.run(numbers)
            self.cache.length += count
            rows = self.rows[: self.num_unfinished]
            tokens = torch.stack([step.tokens[: self.num_unfinished] for step in steps]).cpu()
            finished = stop.take_steps(rows, tokens)
            yield rows, start, steps
            start += count
            unfinished = [row for row, ended in enumerate(finished) if not ended]
            if not unfinished:
                return
            if (size := padded_size(len(unfinished))) <= _COMPACT_BELOW * len(self.rows):
                self.positions = graph.positions
                self.logits = self._compact(unfinished, size, graph.logits)
                graph = None

    def _graph(self, draw: Draw, count: int, graph: StepGraph | None) -> StepGraph:
        """Return the graph for the current rows, with memory for ``count`` more steps."""
        capacity = self.cache.capacity
        self.cache.reserve(self.cache.length + count)
        if graph is not None and self.cache.capacity == capacity:
            return graph
        if graph is not None:
            self.logits, self.positions = graph.logits, graph.positions
        self.cache.column.fill_(self.cache.length)
        return StepGraph(self.fused, self.cache, self.logits, self.positions, draw)
