"""New continuations of truncated responses: Monte-Carlo samples from a state."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.batch import encode_texts, keep_prompt
from rlcomp.errors import ShapeError
from rlcomp.interfaces.policy import SupportsTurns
from rlcomp.text.rows import rows_from_ids
from rlcomp.text.tokenizer import decode_rows


def state_ids(batch: TensorDict, cuts: Tensor) -> tuple[list[list[int]], list[list[int]]]:
    """Return the prompt, and the first part of the response, as ids of each row.

    Args:
        batch: ``tokens``, ``response_mask`` ``[B, T]``; each response is contiguous.
        cuts: length of the first part of each response, int64 ``[B]``.

    Raises:
        ShapeError: a response has holes, as episodes have.
    """
    mask = batch["response_mask"].int()
    if bool((mask[:, 1:] > mask[:, :-1]).sum(1).gt(1 - mask[:, 0]).any()):
        raise ShapeError(
            "a response has holes, as those of episodes have, and cannot be continued from within: "
            "advantage=vine with collector@rollout=vine continues episodes"
        )
    starts = mask.argmax(1).tolist()
    rows = zip(batch["tokens"].tolist(), starts, cuts.tolist(), strict=True)
    prompts, heads = zip(
        *((ids[:start], ids[start : start + cut]) for ids, start, cut in rows), strict=True
    )
    return list(prompts), list(heads)


def continue_rows(
    policy: SupportsTurns,
    batch: TensorDict,
    cuts: Tensor,
    *,
    continuations: int,
    max_new_tokens: int,
    horizon: int | None = None,
    generator: torch.Generator,
) -> TensorDict:
    """Sample continuations of rows from a place in their responses, ``continuations`` of each.

    Args:
        policy: samples.
        batch: ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and the entries that
            belong to prompts.
        cuts: tokens kept of each response, int64 ``[B]``, below ``max_new_tokens``.
        continuations: of each row; those of row 0 come first.
        max_new_tokens: longest response, the kept tokens included.
        horizon: the most tokens that are sampled; None: up to the response's end.
        generator: on the CPU.

    Returns:
        ``B * continuations`` rows: ``tokens``, ``attention_mask``, ``response_mask`` ``[., T]`` (of
        the whole response), ``response`` texts, ``truncated``, ``group_id`` (the row that is
        continued), and the entries that belong to the prompt.
    """
    prompts, heads = state_ids(batch, cuts)
    of = torch.arange(len(prompts)).repeat_interleave(continuations)
    rows = of.tolist()
    session = policy.session([prompts[row] + heads[row] for row in rows], generator=generator)
    left = [max_new_tokens - len(heads[row]) for row in rows]
    limits = left if horizon is None else [min(horizon, most) for most in left]
    turns = session.generate(range(len(rows)), limits=limits)
    session.close(range(len(rows)))
    responses = [heads[row] + turn.tokens for row, turn in zip(rows, turns, strict=True)]
    new = rows_from_ids(policy.tokenizer, [prompts[row] for row in rows], responses)
    new["response"] = encode_texts(decode_rows(policy.tokenizer, responses))
    new["truncated"] = torch.tensor([turn.truncated for turn in turns])
    new["group_id"] = of
    return keep_prompt(new, batch.cpu(), of).to(policy.device)
