"""Worker under schedule ``free``: continuous batching, weights may change between decode steps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple
from weakref import WeakValueDictionary

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.cluster.slot_scheduler import Group, Row, Seating
from rlcomp.cluster.worker import Worker, version_of
from rlcomp.engine.draw import SampledResponses
from rlcomp.engine.uniforms import RequestUniforms
from rlcomp.errors import ProcessEnded, exit_refused
from rlcomp.interfaces.cluster import Free, Part, RefillsSeats, Reply, Request
from rlcomp.metrics import Ledger, recording
from rlcomp.text.rows import pad_id, rollout_rows


class _Asked(NamedTuple):
    """A prompt of a request."""

    request: Request
    part: Part
    prompt: list[int]
    batch: TensorDict


class FreeWorker(Worker):
    """Worker that samples its groups by continuous batching.

    Args:
        stages: of :class:`rlcomp.cluster.serialization.Carried`: one, which supports continuous
            batching.
        settings: of the decoding.
    """

    def __init__(self, stages: bytes, settings: Free) -> None:
        super().__init__(stages)
        collector = self.stages[0]
        assert isinstance(collector, RefillsSeats)
        self.collector = collector
        # Not before there are weights: values derived from buffers are computed once.
        self.seating = Seating(
            partial(collector.policy.seats, reread=settings.recompute_cache), settings
        )
        self._place = [one is collector.generator for one in self.generators].index(True)
        self._numbers = WeakValueDictionary[int, RequestUniforms]()
        self._seconds = 0.0

    @property
    def busy(self) -> bool:
        """Return whether there is something to sample."""
        return self.seating.busy

    def load(self, weights: Sequence[Tensor]) -> None:
        """Load weights; the next step decodes with them."""
        super().load(weights)
        with torch.no_grad():
            self.seating.renew()

    def take(self, request: Request) -> None:
        """Queue the prompts of a request."""
        size, limit = self.collector.group_size, self.collector.max_new_tokens
        prompts = self.collector.encode(request.batch)
        self.collector.policy.check_prompts(prompts, limit)
        numbers = self._numbers.get(request.number)
        if numbers is None:
            numbers = RequestUniforms(request.part.of * size, request.seeds[self._place])
            self._numbers[request.number] = numbers
        for place, prompt in enumerate(prompts):
            first = request.part.first + place
            rows = [
                Row(prompt, partial(numbers.of, first * size + answer), limit)
                for answer in range(size)
            ]
            part = Part(first, 1, request.part.of)
            prompt_request = _Asked(request, part, prompt, request.batch[place : place + 1])
            self.seating.add(Group(prompt_request, rows))

    def turn(self) -> list[Reply]:
        """Take some decode steps; return the groups that they complete."""
        start = time.perf_counter()
        version = version_of(self.stages)
        with torch.no_grad(), exit_refused("a stage on a worker", ProcessEnded):
            over = self.seating.turn(version or 0)
            results = [self._made(group) for group in over]
        self._seconds += time.perf_counter() - start
        return [self._reply(g.told, version, *each) for g, each in zip(over, results, strict=True)]

    def _made(self, group: Group) -> tuple[TensorDict, Ledger]:
        prompt_request: _Asked = group.told
        request = prompt_request.request
        rows = rollout_rows(
            [prompt_request.prompt],
            sampled(group),
            pad=pad_id(self.collector.policy.tokenizer),
            version=0,
        )
        versions = [version for row in group.rows for version in row.versions]
        rows["policy_version"][rows["response_mask"]] = torch.tensor(versions)
        with recording(progress=request.progress, step=request.step) as ledger:
            return self.collector.answered(prompt_request.batch, rows).cpu(), ledger

    def _reply(
        self, prompt_request: _Asked, version: int | None, rows: TensorDict, ledger: Ledger
    ) -> Reply:
        seconds, self._seconds = self._seconds, 0.0
        return Reply(
            prompt_request.request.number, version, rows, ledger, seconds, prompt_request.part
        )


def sampled(group: Group) -> SampledResponses:
    """Return the samples of a group's rows."""
    lengths = [len(row.tokens) for row in group.rows]
    tokens = torch.zeros(len(lengths), max(lengths), dtype=torch.int64)
    log_probs = torch.zeros(len(lengths), max(lengths))
    masks = [torch.cat(row.sampling_mask) for row in group.rows if row.sampling_mask]
    padded_masks = masks[0].new_zeros(*tokens.shape, masks[0].shape[1]) if masks else None
    for place, row in enumerate(group.rows):
        tokens[place, : len(row.tokens)] = torch.tensor(row.tokens)
        log_probs[place, : len(row.tokens)] = torch.tensor(row.log_probs)
        if padded_masks is not None:
            padded_masks[place, : len(row.tokens)] = masks[place]
    truncated = torch.tensor([not row.stopped for row in group.rows])
    return SampledResponses(tokens, log_probs, torch.tensor(lengths), truncated, padded_masks)
