"""Text adapter of a policy: sampled answers to texts, and demonstrations as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from tensordict import TensorDict

from rlcomp.batch import decode_texts, encode_texts
from rlcomp.canonical import canonical
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.policy import Policy
from rlcomp.text.rows import check_room, encode_rows
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

    EOS is an action like any other: it is in ``tokens`` with its log-prob, as the last token.

    Args:
        policy: samples; its tokenizer encodes and decodes.
        prompts: ``P`` texts.
        prompt_ids: the policy's input for each text, from a
            :class:`rlcomp.interfaces.prompt.PromptFormat`; None: the tokens of the texts.
        group_size: answers per prompt; those of prompt 0 come first.
        max_new_tokens: the most tokens of an answer, EOS included.
        decoding: the distribution to draw from; by default the policy's own.
        suppressed_tokens: ids that are not drawn.
        generator: on the CPU.

    Returns:
        The ``B = P * group_size`` rows of :meth:`rlcomp.interfaces.policy.Policy.generate`, and
        the texts ``prompt`` and ``response`` (without special tokens) ``[B, W]``.

    Raises:
        ConfigError: the prompts are one text.
        DataError: a prompt cannot be tokenised or leaves no room for ``max_new_tokens``.
    """
    _check_any(prompts)
    rows = policy.generate(
        encode_prompts(policy.tokenizer, prompts) if prompt_ids is None else prompt_ids,
        group_size=group_size,
        max_new_tokens=max_new_tokens,
        decoding=decoding,
        suppressed_tokens=suppressed_tokens,
        generator=generator,
    )
    return with_texts(policy, prompts, rows, group_size)


def with_texts(
    policy: Policy, prompts: Sequence[str], rows: TensorDict, group_size: int
) -> TensorDict:
    """Check sampled rows, and add the texts ``prompt`` and ``response`` ``[B, W]``.

    Args:
        policy: sampled the rows; its tokenizer decodes.
        prompts: ``P`` texts.
        rows: result of :meth:`rlcomp.interfaces.policy.Policy.generate`.
        group_size: answers per prompt; those of prompt 0 come first.

    Raises:
        ConfigError: the rows break the interface.
    """
    rows = _checked(type(policy).__name__, rows, len(prompts), group_size)
    device, mask = rows["tokens"].device, rows["response_mask"]
    starts, lengths = mask.int().argmax(1), mask.sum(1)
    spans = zip(rows["tokens"].tolist(), starts.tolist(), lengths.tolist(), strict=True)
    answers = decode_rows(policy.tokenizer, [row[start : start + n] for row, start, n in spans])
    repeated = [prompt for prompt in prompts for _ in range(group_size)]
    rows["prompt"] = encode_texts(repeated).to(device)
    rows["response"] = encode_texts(answers).to(device)
    return rows


class SampledAnswer(NamedTuple):
    """A sampled answer to a text.

    Attributes:
        text: without special tokens.
        truncated: whether it was cut off.
    """

    text: str
    truncated: bool


def answers_where_room(
    policy: Policy,
    prompts: Sequence[str],
    *,
    prompt_ids: Sequence[Sequence[int]],
    max_new_tokens: int,
    generator: torch.Generator,
) -> list[SampledAnswer | None]:
    """Sample an answer to each text, by the policy's own decoding; None if the context has no room.

    Texts that contain samples may be of any length; one that is too long must not stop a run.

    Args:
        policy: samples.
        prompts: the texts.
        prompt_ids: the policy's inputs for each.
        max_new_tokens: the most tokens of an answer, EOS included.
        generator: on the CPU.
    """
    limit = policy.context_length
    taken = [len(ids) + max_new_tokens for ids in prompt_ids]
    read = [number for number, length in enumerate(taken) if limit is None or length <= limit]
    answers: list[SampledAnswer | None] = [None] * len(prompts)
    if read:
        rows = answer_prompts(
            policy,
            [prompts[number] for number in read],
            prompt_ids=[prompt_ids[number] for number in read],
            group_size=1,
            max_new_tokens=max_new_tokens,
            generator=generator,
        )
        samples = zip(decode_texts(rows["response"]), rows["truncated"].tolist(), strict=True)
        for number, answer in zip(read, samples, strict=True):
            answers[number] = SampledAnswer(*answer)
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


def _checked(policy: str, rows: TensorDict, prompts: int, group_size: int) -> TensorDict:
    """Check rows against the interface: all keys, sorted by prompt, each response contiguous."""
    owner = f"{policy}.generate"
    missing = [key for key in _ROLLOUT if key not in rows.keys()]
    if missing:
        raise ConfigError(f"{owner} returned no '{missing[0]}': rlcomp.text.rows.rollout_rows does")
    rows = canonical(owner, rows, _ROLLOUT)
    expected = torch.arange(prompts).repeat_interleave(group_size)
    if not torch.equal(rows["group_id"].cpu(), expected):
        raise ConfigError(
            f"{owner} returned {rows.shape[0]} rows of prompts {rows['group_id'].tolist()[:8]}...: "
            f"it must give {group_size} rows to each of {prompts} prompts, those of prompt 0 first"
        )
    mask = rows["response_mask"].int()
    if bool(((mask[:, 1:] - mask[:, :-1]) == 1).sum(1).gt(1 - mask[:, 0]).any()):
        raise ConfigError(f"{owner} returned a response_mask with holes: a response is one piece")
    return rows


def encode_answers(policy: Policy, prompts: Sequence[str], responses: Sequence[str]) -> TensorDict:
    """Encode prompts and answers as rows, for supervised learning and for scoring.

    Prompt and response are tokenised separately, as they are when the response is sampled.

    Args:
        policy: its tokenizer encodes.
        prompts: ``B`` texts.
        responses: ``B`` texts, without EOS, which is added.

    Returns:
        ``tokens`` (prompt, response, EOS), ``attention_mask``, ``response_mask`` (response and
        EOS), shape ``[B, T]``, on the policy's device.

    Raises:
        DataError: a text cannot be tokenised, or a row is longer than the policy's context.
    """
    _check_any(prompts)
    rows = encode_rows(policy.tokenizer, prompts, responses)
    answers = rows["response_mask"].sum(1)
    lengths = rows["attention_mask"].sum(1) - answers
    room = policy.context_length
    check_room(lengths.tolist(), answers.tolist(), room, lambda row: prompts[row])
    return rows.to(policy.device)


def _check_any(prompts: Sequence[str]) -> None:
    if isinstance(prompts, str):  # whose characters would be prompts
        raise ConfigError(
            f"the prompts are a text, {prompts[:60]!r}: hand over a list of texts, "
            f"[{prompts[:20]!r}]"
        )
    if not prompts:
        raise DataError("there are no prompts to answer: hand over at least one")
