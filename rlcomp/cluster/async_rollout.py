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

from rlcomp.cluster.slot_scheduler import RolloutGroup, RolloutRow, SlotScheduler
from rlcomp.cluster.worker import StageWorker, version_of
from rlcomp.engine.draw import SampledResponses
from rlcomp.engine.uniforms import RequestUniforms
from rlcomp.errors import ProcessEnded, refuse_exit
from rlcomp.interfaces.cluster import (
    AsyncSettings,
    PromptRange,
    RefillingCollector,
    RolloutReply,
    RolloutRequest,
)
from rlcomp.metrics import Ledger, recording
from rlcomp.text.rows import pad_id, rollout_rows


class RequestedPrompt(NamedTuple):
    """Prompt of a request.

    Attributes:
        request: the request.
        part: the place of the prompt in the whole batch.
        prompt: token ids.
        batch: the prompt's row of the batch, shape ``[1]``.
    """

    request: RolloutRequest
    part: PromptRange
    prompt: list[int]
    batch: TensorDict


class AsyncWorker(StageWorker):
    """Worker that samples its groups by continuous batching.

    Args:
        stages: data of :class:`rlcomp.cluster.serialization.SerializedStages`: one collector
            that supports continuous batching.
        settings: settings of ``schedule=free``.
    """

    def __init__(self, stages: bytes, settings: AsyncSettings) -> None:
        super().__init__(stages)
        collector = self.stages[0]
        assert isinstance(collector, RefillingCollector)
        self.collector = collector
        # The scheduler makes the slots only after the first weights have arrived, because the slots
        # compute values from buffers once.
        self.scheduler = SlotScheduler(
            partial(collector.policy.decode_slots, reread=settings.recompute_cache), settings
        )
        is_own = [generator is collector.generator for generator in self.generators]
        self._generator_index = is_own.index(True)
        # By request; only its rows refer to the numbers, which are freed with the last row.
        self._uniforms = WeakValueDictionary[int, RequestUniforms]()
        self._seconds = 0.0  # working time since the previous reply

    @property
    def busy(self) -> bool:
        """Return whether a group is unfinished."""
        return self.scheduler.busy

    def load(self, weights: Sequence[Tensor]) -> None:
        """Load weights; the next step decodes with them."""
        super().load(weights)
        with torch.no_grad():
            self.scheduler.renew()

    def take(self, request: RolloutRequest) -> None:
        """Queue the prompts of a request."""
        size, limit = self.collector.group_size, self.collector.max_new_tokens
        prompts = self.collector.encode(request.batch)
        self.collector.policy.check_prompts(prompts, limit)
        uniforms = self._uniforms.get(request.number)
        if uniforms is None:
            uniforms = RequestUniforms(
                request.part.total * size, request.seeds[self._generator_index]
            )
            self._uniforms[request.number] = uniforms
        for index, prompt in enumerate(prompts):
            first = request.part.first + index
            rows = [
                RolloutRow(prompt, partial(uniforms.row_numbers, first * size + answer), limit)
                for answer in range(size)
            ]
            part = PromptRange(first, 1, request.part.total)
            batch = request.batch[index : index + 1]
            self.scheduler.add(RolloutGroup(RequestedPrompt(request, part, prompt, batch), rows))

    def turn(self) -> list[RolloutReply]:
        """Take up to ``look_every`` decode steps; return a reply for each finished group."""
        start = time.perf_counter()
        version = version_of(self.stages)
        with torch.no_grad(), refuse_exit("a stage on a worker", ProcessEnded):
            finished = self.scheduler.turn(version or 0)
            results = [self._finish(group) for group in finished]
        self._seconds += time.perf_counter() - start
        return [
            self._reply(group.data, version, *result)
            for group, result in zip(finished, results, strict=True)
        ]

    def _finish(self, group: RolloutGroup) -> tuple[TensorDict, Ledger]:
        """Return the rows of a finished group, and what the collector recorded about them."""
        prompt_request: RequestedPrompt = group.data
        request = prompt_request.request
        rows = rollout_rows(
            [prompt_request.prompt],
            sampled_responses(group),
            pad=pad_id(self.collector.policy.tokenizer),
            version=0,  # each token gets its own version below
        )
        versions = [version for row in group.rows for version in row.versions]
        rows["policy_version"][rows["response_mask"]] = torch.tensor(versions)
        with recording(progress=request.progress, step=request.step) as ledger:
            return self.collector.finish_rollout(prompt_request.batch, rows).cpu(), ledger

    def _reply(
        self, prompt_request: RequestedPrompt, version: int | None, rows: TensorDict, ledger: Ledger
    ) -> RolloutReply:
        seconds, self._seconds = self._seconds, 0.0
        number, part = prompt_request.request.number, prompt_request.part
        return RolloutReply(number, version, rows, ledger, seconds, part)


def sampled_responses(group: RolloutGroup) -> SampledResponses:
    """Return the sampled responses of a finished group, padded with 0.

    Each row has at least one token, also in a group that its time limit ended.
    """
    lengths = [len(row.tokens) for row in group.rows]
    tokens = torch.zeros(len(lengths), max(lengths), dtype=torch.int64)
    log_probs = torch.zeros(len(lengths), max(lengths))
    masks = [torch.cat(row.sampling_mask) for row in group.rows if row.sampling_mask]
    padded_masks = masks[0].new_zeros(*tokens.shape, masks[0].shape[1]) if masks else None
    for index, row in enumerate(group.rows):
        tokens[index, : len(row.tokens)] = torch.tensor(row.tokens)
        log_probs[index, : len(row.tokens)] = torch.tensor(row.log_probs)
        if padded_masks is not None:
            padded_masks[index, : len(row.tokens)] = masks[index]
    truncated = torch.tensor([not row.stopped for row in group.rows])
    return SampledResponses(tokens, log_probs, torch.tensor(lengths), truncated, padded_masks)
