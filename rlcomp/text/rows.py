"""Rows of tokens from prompts and responses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.batch import decode_columns, decode_texts, encode_texts, keep_prompt
from rlcomp.columns import CONVERSATION
from rlcomp.engine.draw import SampledResponses
from rlcomp.engine.routing import UNKNOWN
from rlcomp.errors import DataError, NumericalError
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.prompt import Demonstration, PromptFormat
from rlcomp.text.prompt import TextPrompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def pad_rows(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Right-pad rows to ids ``[B, T]``, int64, and the mask of real tokens ``[B, T]``.

    Examples:
        >>> pad_rows([[5], [6, 7]], 0)[0]
        tensor([[5, 0],
                [6, 7]])
    """
    width = max(len(row) for row in rows)
    tokens = torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    return tokens, torch.arange(width) < lengths[:, None]


def response_columns(
    prompts: Sequence[Sequence[int]], sampled: SampledResponses, pad: int
) -> dict[str, Tensor]:
    """Return the per-token entries of sampled rows, one for each of ``B`` prompts.

    ``tokens``, ``attention_mask``, ``response_mask``, ``rollout_log_probs``, ``[B, T]`` with ``T``
    the longest row; ``sampling_mask`` ``[B, T, ceil(V / 8)]`` if masks were recorded. The end of a
    response follows from its length, never from the ids in it: the pad id may be EOS, and may be
    sampled.
    """
    device, steps = sampled.tokens.device, sampled.tokens.shape[1]
    starts = torch.tensor([len(prompt) for prompt in prompts], device=device)[:, None]
    ends = starts + sampled.lengths[:, None]
    width = int(ends.max())
    tokens = pad_rows([[*prompt, *[pad] * steps] for prompt in prompts], pad)[0][:, :width]
    position = torch.arange(width, device=device)
    response = (position >= starts) & (position < ends)
    source = (position - starts).clamp(0, steps - 1)
    columns = {
        "tokens": torch.where(response, sampled.tokens.gather(1, source), tokens.to(device)),
        "attention_mask": position < ends,
        "response_mask": response,
        "rollout_log_probs": masked(sampled.log_probs.gather(1, source), response),
    }
    if sampled.sampling_mask is not None:
        index = source[..., None].expand(-1, -1, sampled.sampling_mask.shape[-1])
        columns["sampling_mask"] = masked(
            sampled.sampling_mask.gather(1, index), response[..., None]
        )
    return columns


def encode_rows(
    tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str], responses: Sequence[str]
) -> TensorDict:
    """Encode prompts and responses (without EOS, which is added) as rows, for SFT and for scoring.

    Prompt and response are tokenised separately, as they are when the response is sampled. The rows
    are ``tokens`` (prompt, response, EOS), ``attention_mask``, ``response_mask`` (response and
    EOS), ``[B, T]``, on the CPU. DataError if a text has a character that the tokenizer cannot
    encode.

    Examples:
        >>> from rlcomp.text.tokenizer import character_tokenizer
        >>> encode_rows(character_tokenizer(characters="ab"), ["aa"], ["b"])["tokens"]
        tensor([[2, 2, 3, 1]])
    """
    columns = [dict[str, object]()] * len(prompts)
    demonstrations = TextPrompt(tokenizer=tokenizer).demonstrations(prompts, responses, columns)
    return demonstration_rows(tokenizer, demonstrations)


def rows_from_ids(
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Sequence[int]],
    responses: Sequence[Sequence[int]],
) -> TensorDict:
    """Build rows from the ids of ``B`` non-empty prompts and their responses, on the CPU.

    ``tokens`` (prompt, response), ``attention_mask``, ``response_mask`` (response), ``[B, T]``.

    Examples:
        >>> from rlcomp.text.tokenizer import byte_tokenizer
        >>> rows_from_ids(byte_tokenizer(), [[5, 6], [5]], [[7], [8]])["response_mask"]
        tensor([[False, False,  True],
                [False,  True, False]])
    """
    rows = [Demonstration.of(*pair) for pair in zip(prompts, responses, strict=True)]
    return demonstration_rows(tokenizer, rows)


def demonstration_rows(
    tokenizer: PreTrainedTokenizerBase, rows: Sequence[Demonstration]
) -> TensorDict:
    """Build rows to imitate, on the CPU.

    ``tokens``, ``attention_mask`` and ``response_mask``, ``[B, T]``. The response mask is true on
    the trained tokens, which need not be contiguous.

    Examples:
        >>> from rlcomp.text.tokenizer import byte_tokenizer
        >>> row = Demonstration([5, 6, 7, 8], [False, True, False, True])
        >>> demonstration_rows(byte_tokenizer(), [row])["response_mask"]
        tensor([[False,  True, False,  True]])
    """
    tokens, attention_mask = pad_rows([row.ids for row in rows], pad_id(tokenizer))
    response = pad_rows([[*map(int, row.trained)] for row in rows], 0)[0].bool()
    columns = {"tokens": tokens, "attention_mask": attention_mask, "response_mask": response}
    return TensorDict(columns, batch_size=[len(rows)])


def rollout_rows(
    prompts: Sequence[Sequence[int]], sampled: SampledResponses, *, pad: int, version: int
) -> TensorDict:
    """Build rows of sampled responses, sorted by prompt.

    Args:
        prompts: ``P`` lists of token ids.
        sampled: the samples, ``B`` rows, the same number for each prompt.
        pad: the padding id.
        version: version of the sampling weights (:attr:`rlcomp.interfaces.policy.Policy.version`).

    Returns:
        ``tokens``, ``attention_mask``, ``response_mask``, ``rollout_log_probs`` (nats),
            ``policy_version`` ``[B, T]``; ``group_id``, the index of the prompt, and ``truncated``
            ``[B]``; ``sampling_mask`` ``[B, T, ceil(V / 8)]`` and ``routed_experts``
            ``[B, T, L, E]`` if they were recorded.

    Raises:
        NumericalError: the log-prob of a sampled token is not finite.
    """
    device = sampled.tokens.device
    group = torch.arange(len(prompts)).repeat_interleave(len(sampled.tokens) // len(prompts))
    columns = response_columns([prompts[n] for n in group.tolist()], sampled, pad)
    if not bool(columns["rollout_log_probs"].isfinite().all()):
        raise NumericalError("the policy sampled a token whose log-prob is not finite")
    columns["policy_version"] = columns["response_mask"] * version
    if sampled.routes is not None:
        columns["routed_experts"] = _pad_routes(sampled.routes, columns["tokens"].shape[1])
    columns["truncated"] = sampled.truncated
    columns["group_id"] = group
    return TensorDict(
        {key: column.to(device) for key, column in columns.items()}, batch_size=[len(group)]
    )


def _pad_routes(routes: Tensor, width: int) -> Tensor:
    """Pad routes to ``width`` columns with :data:`UNKNOWN`: the model chooses there."""
    padded = routes.new_full((len(routes), width, *routes.shape[2:]), UNKNOWN)
    padded[:, : routes.shape[1]] = routes[:, :width]
    return padded


def check_room(
    lengths: Sequence[int],
    new: Sequence[int],
    limit: int | None,
    prompt: Callable[[int], str],
) -> None:
    """Raise DataError if a prompt and ``new`` tokens exceed the model's limit (None: no limit).

    ``lengths`` are tokens of the prompts; ``prompt`` returns the text of a prompt by its index.
    """
    for index, (length, more) in enumerate(zip(lengths, new, strict=True)):
        if limit is not None and length + more > limit:
            raise DataError(
                f"prompt {prompt(index)[:60]!r} has {length} tokens; with {more} more that is "
                f"{length + more}, and the limit is {limit}: lower max_new_tokens, shorten the "
                "prompt, or raise context_length up to the model's limit"
            )


def pad_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the padding id: of the pad token, or EOS if there is none."""
    pad = tokenizer.pad_token_id
    return int(tokenizer.eos_token_id if pad is None else pad)


def response_rows(
    batch: TensorDict,
    responses: Sequence[str],
    *,
    prompt: PromptFormat,
    tokenizer: PreTrainedTokenizerBase,
) -> TensorDict:
    """Return rows of a batch's prompts with other responses, to imitate or to score.

    Args:
        batch: ``[B]`` rows with ``prompt`` and ``group_id``, and ``columns`` if there are any.
        responses: ``B`` texts, without the token that ends a response, which is added.
        prompt: encodes prompts and responses.
        tokenizer: tokenizer of the policy.

    Returns:
        ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, ``prompt``, ``response``,
            ``group_id``, and the entries that belong to prompts; no entry of a rollout.

    Raises:
        DataError: a text has a character that the tokenizer cannot encode.
    """
    columns = decode_columns(batch, [CONVERSATION])
    texts = decode_texts(batch["prompt"])
    rows = demonstration_rows(tokenizer, prompt.demonstrations(texts, list(responses), columns))
    rows["response"] = encode_texts(list(responses))
    device = batch["group_id"].device
    rows = rows.to(device)
    rows["prompt"], rows["group_id"] = batch["prompt"], batch["group_id"]
    return keep_prompt(rows, batch, torch.arange(len(texts), device=device))
