"""Answers to the problems of a suite, and their verdicts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import torch
from tensordict import TensorDict

from rlcomp.batch import decode_texts
from rlcomp.data.examples import prompt_batch
from rlcomp.engine.decoding import Decoding
from rlcomp.interfaces.protocols import Suite
from rlcomp.interfaces.task import Example
from rlcomp.metrics import recording
from rlcomp.seed import named_seed
from rlcomp.text.answers import answer_prompts

# Largest number of responses in a batch.
_ROWS = 64


def hash_problems(suite: Suite) -> str:
    """Hash the texts and columns of a suite's problems: other problems have another hash."""
    digest = hashlib.sha256()
    for example in suite.examples:
        columns = json.dumps(dict(example.columns), sort_keys=True, default=str)
        digest.update(f"{example.prompt!r}{example.answer!r}{columns}\n".encode("utf-8", "replace"))
    return digest.hexdigest()[:16]


def evaluate_suite(suite: Suite, *, sampled: bool) -> Iterator[dict[str, object]]:
    """Yield every problem with its answers, greedy ones first.

    Args:
        suite: its policy answers.
        sampled: also sample ``samples_per_prompt`` answers, with the policy's sampling settings.

    Yields:
        ``problem`` (a number from 0), ``prompt``, ``answer``, ``decoding`` (``greedy`` or
        ``sampled``), ``level`` (empty without any) and ``responses``, each with ``text``,
        ``correct`` (null if it could not be judged), ``reward``, ``tokens`` and ``truncated``.
    """
    yield from _evaluate(suite, "greedy", 1, Decoding(temperature=0.0))
    if sampled:
        yield from _evaluate(suite, "sampled", suite.samples_per_prompt, None)


def _evaluate(
    suite: Suite, name: str, group_size: int, decoding: Decoding | None
) -> Iterator[dict[str, object]]:
    problems_per_batch = max(1, _ROWS // group_size)
    for start in range(0, len(suite.examples), problems_per_batch):
        examples = suite.examples[start : start + problems_per_batch]
        seed = named_seed(suite.seed, f"{name}/{start}")
        responses = _responses(_sample_answers(suite, examples, group_size, decoding, seed))
        for offset, example in enumerate(examples):
            yield {
                "problem": start + offset,
                "prompt": example.prompt,
                "answer": example.answer,
                "decoding": name,
                "level": suite.levels[start + offset],
                "responses": responses[offset * group_size : (offset + 1) * group_size],
            }


def _sample_answers(
    suite: Suite, examples: list[Example], group_size: int, decoding: Decoding | None, seed: int
) -> TensorDict:
    """Return responses with rewards, ``group_size`` rows a problem."""
    prompts = [example.prompt for example in examples]
    with torch.no_grad():
        rows = answer_prompts(
            suite.policy,
            prompts,
            prompt_ids=suite.prompt.encode(prompts, [example.columns for example in examples]),
            group_size=group_size,
            max_new_tokens=suite.max_new_tokens,
            decoding=decoding,
            generator=torch.Generator().manual_seed(seed),
        )
        device = rows["tokens"].device
        for key, entry in prompt_batch(examples).items():
            rows[key] = entry.repeat_interleave(group_size, 0).to(device)
        with recording():  # a ledger of its own: these are no metrics of a run
            rewarded: TensorDict = suite.reward(rows)
    return rewarded


def _responses(rows: TensorDict) -> list[dict[str, object]]:
    columns = zip(
        decode_texts(rows["response"]),
        rows["correct"].tolist(),
        rows["reward"].tolist(),
        rows["reward_valid"].tolist(),
        rows["response_mask"].sum(1).tolist(),
        rows["truncated"].tolist(),
        strict=True,
    )
    return [
        {
            "text": text,
            "correct": correct if valid else None,
            "reward": reward if valid else None,
            "tokens": tokens,
            "truncated": truncated,
        }
        for text, correct, reward, valid, tokens, truncated in columns
    ]
