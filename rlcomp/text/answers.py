"""Text adapter of a policy: sampled answers and continuations, and demonstrations as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.batch import decode_texts, encode_texts, keep_prompt
from rlcomp.canonical import canonical
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError, DataError, ShapeError
from rlcomp.interfaces.policy import Policy, SupportsTurns
from rlcomp.text.rows import check_room, encode_rows, rows_from_ids
from rlcomp.text.tokenizer import decode_rows, encode_prompts


def answer_prompts(
    policy: Policy,
    prompts: Sequence[str],
    *,
    prompt_ids: Sequence[Sequence[int]] | None = None,
    group_size: int,
    max_new_tokens: int,
    decoding: Decoding | None = None,
    suppressed_tokens: Sequence[int] = (),
    generator: torch.Generator,
) -> TensorDict:
    """Sample ``group_size`` answers to every text.

    EOS is an action with a log-prob; an answer that is not truncated ends with a stop token.

    Args:
        policy: the policy; its tokenizer encodes the prompts and decodes the answers.
        prompts: ``P`` texts.
        prompt_ids: the policy's input for each text, from a
            :class:`rlcomp.interfaces.prompt.PromptFormat`; None: the tokens of the texts.
        group_size: answers per prompt; those of prompt 0 come first.
        max_new_tokens: maximum number of tokens of an answer, EOS included.
        decoding: the distribution to draw from; by default the policy's own.
        suppressed_tokens: ids that are not drawn.
        generator: random generator on the CPU.

    Returns:
        The ``B = P * group_size`` rows of :meth:`rlcomp.interfaces.policy.Policy.generate`, and the
            texts ``prompt`` and ``response`` (without special tokens) ``[B, W]``.

    Raises:
        ConfigError: the prompts are one text, a size is below 1, or the policy breaks its rules.
        DataError: there are no prompts, or a prompt cannot be tokenised or leaves no room for
            ``max_new_tokens``.
    """
    _check_prompts(prompts)
    rows = policy.generate(
        encode_prompts(policy.tokenizer, prompts) if prompt_ids is None else prompt_ids,
        group_size=group_size,
        max_new_tokens=max_new_tokens,
        decoding=decoding,
        suppressed_tokens=suppressed_tokens,
        generator=generator,
    )
    return add_texts(policy, prompts, rows, group_size)


def add_texts(
    policy: Policy, prompts: Sequence[str], rows: TensorDict, group_size: int
) -> TensorDict:
    """Check rows of ``generate``, and add the texts ``prompt`` and ``response`` ``[B, W]``.

    ``rows`` hold ``group_size`` answers to each of ``P`` prompts, those of prompt 0 first.
    ConfigError if they break the interface.
    """
    rows = _check_rows(type(policy).__name__, rows, len(prompts), group_size)
    device, mask = rows["tokens"].device, rows["response_mask"]
    starts, lengths = mask.int().argmax(1), mask.sum(1)
    spans = zip(rows["tokens"].tolist(), starts.tolist(), lengths.tolist(), strict=True)
    answers = decode_rows(policy.tokenizer, [row[start : start + n] for row, start, n in spans])
    repeated = [prompt for prompt in prompts for _ in range(group_size)]
    rows["prompt"] = encode_texts(repeated).to(device)
    rows["response"] = encode_texts(answers).to(device)
    return rows


class SampledAnswer(NamedTuple):
    """A sampled answer to a text, without special tokens."""

    text: str
    truncated: bool


def answer_prompts_in_context(
    policy: Policy,
    prompts: Sequence[str],
    *,
    prompt_ids: Sequence[Sequence[int]],
    max_new_tokens: int,
    generator: torch.Generator,
) -> list[SampledAnswer | None]:
    """Sample an answer to each text by the policy's own decoding.

    The answer is None if the context has no room for it: a text that contains samples may be of any
    length, and a long one must not stop a run. ``prompt_ids`` are the policy's inputs.
    """
    limit = policy.context_length
    lengths = [len(ids) + max_new_tokens for ids in prompt_ids]
    fitting = [n for n, length in enumerate(lengths) if limit is None or length <= limit]
    answers: list[SampledAnswer | None] = [None] * len(prompts)
    if fitting:
        rows = answer_prompts(
            policy,
            [prompts[n] for n in fitting],
            prompt_ids=[prompt_ids[n] for n in fitting],
            group_size=1,
            max_new_tokens=max_new_tokens,
            generator=generator,
        )
        samples = zip(decode_texts(rows["response"]), rows["truncated"].tolist(), strict=True)
        for n, answer in zip(fitting, samples, strict=True):
            answers[n] = SampledAnswer(*answer)
    return answers


# Entries that generate returns, in every implementation.
_ROLLOUT = (
    "tokens",
    "attention_mask",
    "response_mask",
    "rollout_log_probs",
    "policy_version",
    "group_id",
    "truncated",
)


def _check_rows(policy: str, rows: TensorDict, prompts: int, group_size: int) -> TensorDict:
    """Check rows against the interface: all keys, sorted by prompt, each response contiguous."""
    owner = f"{policy}.generate"
    missing = [key for key in _ROLLOUT if key not in rows.keys()]
    if missing:
        raise ConfigError(
            f"{owner} returned no '{missing[0]}': build the rows with rlcomp.text.rows.rollout_rows"
        )
    rows = canonical(owner, rows, _ROLLOUT)
    expected = torch.arange(prompts).repeat_interleave(group_size)
    if not torch.equal(rows["group_id"].cpu(), expected):
        raise ConfigError(
            f"{owner} returned {rows.shape[0]} rows of prompts {rows['group_id'].tolist()[:8]}...: "
            f"it must give {group_size} rows to each of {prompts} prompts, those of prompt 0 first"
        )
    if _has_holes(rows["response_mask"]):
        raise ConfigError(f"{owner} returned a response_mask with holes: a response is one piece")
    return rows


def _has_holes(mask: Tensor) -> bool:
    """Return whether a row of a mask ``[B, T]`` has true values in more than one piece."""
    starts = mask[:, 1:] & ~mask[:, :-1]
    return bool((mask[:, 0].int() + starts.sum(1) > 1).any())


def encode_answers(policy: Policy, prompts: Sequence[str], responses: Sequence[str]) -> TensorDict:
    """Encode prompts and answers as rows, for supervised learning and for scoring.

    As :func:`rlcomp.text.rows.encode_rows`, on the policy's device. DataError if there are no
    prompts, a text cannot be tokenised, or a row is longer than the policy's context. ConfigError
    if the prompts are one text.
    """
    _check_prompts(prompts)
    rows = encode_rows(policy.tokenizer, prompts, responses)
    answers = rows["response_mask"].sum(1)
    lengths = rows["attention_mask"].sum(1) - answers
    limit = policy.context_length
    check_room(lengths.tolist(), answers.tolist(), limit, lambda row: prompts[row])
    return rows.to(policy.device)


def _check_prompts(prompts: Sequence[str]) -> None:
    if isinstance(prompts, str):  # each of its characters would be a prompt
        raise ConfigError(
            f"the prompts are a text, {prompts[:60]!r}: hand over a list of texts, "
            f"[{prompts[:20]!r}]"
        )
    if not prompts:
        raise DataError("there are no prompts to answer: hand over at least one")


def state_ids(batch: TensorDict, cuts: Tensor) -> tuple[list[list[int]], list[list[int]]]:
    """Return the prompt, and the first ``cuts`` ``[B]`` tokens of the response, as ids of each row.

    ShapeError if a response has holes, as in episodes.
    """
    if _has_holes(batch["response_mask"]):
        raise ShapeError(
            "a response has holes, as those of episodes have, and cannot be continued from within: "
            "advantage=vine with collector@rollout=vine continues episodes"
        )
    starts = batch["response_mask"].int().argmax(1).tolist()
    rows = zip(batch["tokens"].tolist(), starts, cuts.tolist(), strict=True)
    prompts, prefixes = zip(
        *((ids[:start], ids[start : start + cut]) for ids, start, cut in rows), strict=True
    )
    return list(prompts), list(prefixes)


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
    """Sample ``continuations`` of each row after the first ``cuts`` tokens of its response.

    Args:
        policy: the policy that samples.
        batch: ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and the entries that
            belong to prompts.
        cuts: int64 ``[B]``, below ``max_new_tokens``.
        continuations: number of continuations of each row; row 0's come first.
        max_new_tokens: longest response, the first ``cuts`` tokens included.
        horizon: maximum number of tokens that are sampled; None: up to ``max_new_tokens``.
        generator: random generator on the CPU.

    Returns:
        ``B * continuations`` rows: ``tokens``, ``attention_mask``, ``response_mask`` ``[., T]`` and
            the texts ``response``, of the whole response with its first ``cuts`` tokens;
            ``truncated``, ``group_id`` (row of the batch), and the entries that belong to prompts.
    """
    prompts, prefixes = state_ids(batch, cuts)
    source = torch.arange(len(prompts)).repeat_interleave(continuations)
    rows = source.tolist()
    session = policy.session([prompts[row] + prefixes[row] for row in rows], generator=generator)
    remaining = [max_new_tokens - len(prefixes[row]) for row in rows]
    limits = remaining if horizon is None else [min(horizon, n) for n in remaining]
    turns = session.generate(range(len(rows)), limits=limits)
    session.close(range(len(rows)))
    responses = [prefixes[row] + turn.tokens for row, turn in zip(rows, turns, strict=True)]
    continued = rows_from_ids(policy.tokenizer, [prompts[row] for row in rows], responses)
    continued["response"] = encode_texts(decode_rows(policy.tokenizer, responses))
    continued["truncated"] = torch.tensor([turn.truncated for turn in turns])
    continued["group_id"] = source
    return keep_prompt(continued, batch.cpu(), source).to(policy.device)
