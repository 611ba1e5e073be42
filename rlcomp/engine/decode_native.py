"""Decode loop in C++: one call takes all steps of a rollout."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch

from rlcomp.engine.decode_packed import _passes
from rlcomp.engine.draw import Draw, Sampled, TokenDraw, Uniforms
from rlcomp.engine.memory import cache_budget
from rlcomp.engine.native import abi
from rlcomp.engine.native.library import library
from rlcomp.engine.native.turn import Ends, Steps
from rlcomp.engine.native.weights import NativeModel
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.transformer import Transformer


@torch.no_grad()
def decode(
    transformer: Transformer,
    prompts: Sequence[Sequence[int]],
    *,
    group_size: int,
    stop: StopRule,
    draw: Draw,
    uniforms: Uniforms,
) -> Sampled:
    """Sample ``group_size`` responses per prompt.

    With the same numbers it gives the tokens of :func:`rlcomp.engine.decode_packed.decode`, unless
    rounding of the logits changes one. The tokens and log-probs of a row are the same to the last
    bit, whatever other rows are in the batch.

    Reads the weights in place. Takes memory for the keys and values of each distinct prompt, once,
    and of each unfinished answer, in pages of 32 tokens. Keys and values take no more than
    :func:`rlcomp.engine.memory.cache_budget` at a time, except for a single prompt.

    Arguments and result are those of that function; ``draw`` is a
    :class:`rlcomp.engine.draw.TokenDraw` without filters.
    """
    assert isinstance(draw, TokenDraw)
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, prompt in enumerate(prompts):
        answers = range(place * group_size, (place + 1) * group_size)
        groups.setdefault(tuple(prompt), []).extend(answers)
    most = max(stop.limits)
    model = NativeModel(transformer, max(len(prompt) for prompt in groups) + most)
    numbers = uniforms.some(0, most)[..., 0]
    tokens = torch.zeros(uniforms.rows, most, dtype=torch.int64)
    log_probs = torch.zeros(uniforms.rows, most, dtype=torch.float32)
    for some in _passes(groups, most, model.token_bytes, cache_budget(torch.device("cpu"))):
        rows = [row for answers in some.values() for row in answers]
        steps = Steps(
            range(len(rows)),
            limits=[stop.limits[row] for row in rows],
            uniform=numbers[:, rows],
            draw=draw,
            ends=Ends(stop.ids, stop.texts, stop.table),
            closes=True,
        )
        _rollout(model, some, steps)
        tokens[rows], log_probs[rows] = steps.tokens, steps.log_probs
        stop.settle(rows, steps.lengths.tolist(), steps.ended.bool().tolist())
    uniforms.rewind(longest := max(stop.lengths))
    lengths, truncated = stop.ends(tokens.device)
    return Sampled(tokens[:, :longest], log_probs[:, :longest], lengths, truncated)


def _rollout(model: NativeModel, groups: dict[tuple[int, ...], list[int]], steps: Steps) -> None:
    """Sample the rows of some prompts, each until it ends."""
    prompts = abi.integers([token for prompt in groups for token in prompt])
    lengths = abi.integers([len(prompt) for prompt in groups])
    owners = abi.integers([place for place, rows in enumerate(groups.values()) for _ in rows])
    library().rlcomp_rollout(
        model.pointer,
        prompts.data_ptr(),
        lengths.data_ptr(),
        len(groups),
        owners.data_ptr(),
        ctypes.byref(steps.struct),
    )
