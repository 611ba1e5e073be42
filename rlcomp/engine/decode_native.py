"""Decode loop in C++: one library call takes all steps of a rollout."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch

from rlcomp.engine.decode_packed import Groups, group_by_prompt, split_by_memory
from rlcomp.engine.draw import Draw, SampledResponses, TokenDraw
from rlcomp.engine.memory import cache_budget
from rlcomp.engine.native.library import int64_tensor, library
from rlcomp.engine.native.session import DecodeRequest, StopConditions, join_rows
from rlcomp.engine.native.weights import NativeModel
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.transformer import Transformer
from rlcomp.engine.uniforms import Uniforms


@torch.no_grad()
def decode(
    transformer: Transformer,
    prompts: Sequence[Sequence[int]],
    *,
    group_size: int,
    stop: StopRule,
    draw: Draw,
    uniforms: Uniforms,
) -> SampledResponses:
    """Sample ``group_size`` responses per prompt and return them.

    It samples the tokens of :func:`rlcomp.engine.decode_packed.decode`, up to rounding of the
    logits. A row's tokens and log-probs are bitwise independent of the other rows.

    Memory: keys and values of each distinct prompt, once, and of each unfinished answer, in pages
    of 32 tokens; at most :func:`rlcomp.engine.memory.cache_budget` at a time, unless a single
    prompt exceeds it.

    Args:
        transformer: the model.
        prompts: ``P`` non-empty lists of token ids.
        group_size: ``G``; row ``p * G + g`` answers prompt ``p``.
        stop: the rule that ends rows.
        draw: a :class:`rlcomp.engine.draw.TokenDraw` without filters.
        uniforms: uniform numbers of the rows.
    """
    assert isinstance(draw, TokenDraw)
    groups = group_by_prompt(prompts, group_size)
    limit = max(stop.limits)
    model = NativeModel(transformer, max(len(prompt) for prompt in groups) + limit)
    numbers = uniforms.steps_from(0, limit)[..., 0]
    tokens = torch.zeros(uniforms.rows, limit, dtype=torch.int64)
    log_probs = torch.zeros(uniforms.rows, limit, dtype=torch.float32)
    budget = cache_budget(torch.device("cpu"))
    for chunk in split_by_memory(groups, limit, model.token_bytes, budget):
        rows = [row for answers in chunk.values() for row in answers]
        request = DecodeRequest(
            range(len(rows)),
            limits=[stop.limits[row] for row in rows],
            uniform=numbers[:, rows],
            draw=draw,
            ends=StopConditions(stop.ids, stop.texts, stop.table),
            closes=True,
        )
        _rollout(model, chunk, request)
        tokens[rows], log_probs[rows] = request.tokens, request.log_probs
        stop.finish(rows, request.lengths.tolist(), request.ended.bool().tolist())
    uniforms.rewind(longest := max(stop.lengths))
    lengths, truncated = stop.results(tokens.device)
    return SampledResponses(tokens[:, :longest], log_probs[:, :longest], lengths, truncated)


def _rollout(model: NativeModel, groups: Groups, request: DecodeRequest) -> None:
    """Sample the rows of some prompts until they end; write the results into the request."""
    tokens, lengths = join_rows(list(groups))
    owners = int64_tensor([prompt for prompt, rows in enumerate(groups.values()) for _ in rows])
    library().rlcomp_rollout(
        model.pointer,
        tokens.data_ptr(),
        lengths.data_ptr(),
        len(groups),
        owners.data_ptr(),
        ctypes.byref(request.struct),
    )
