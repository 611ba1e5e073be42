"""Rewards of a thought."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonEmptyText, PositiveInt, Probability
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.engine.decoding import Decoding
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.reward import write_reward
from rlcomp.keys import Key
from rlcomp.metrics import record
from rlcomp.model.weight_snapshot import WeightSnapshot
from rlcomp.text.reasoning import (
    ThoughtEnd,
    first_targets,
    rows_after_thought,
    rows_without_thought,
)


class ThoughtLikelihood(Component):
    """Thought-likelihood reward (Quiet-STaR).

    ``R = log p_theta(x | context, thought)`` of the true continuation ``x``, in nats.

    The thought is the response up to and including ``think_end``; it is appended if the response
    lacks it. Later text does not count. The trained policy scores at temperature 1, for every
    decoding temperature. A thought is ``correct`` if the continuation has more than half of the
    probability. A row is invalid if the continuation is empty or if it exceeds the context (leave
    room for ``think_end`` and the continuation after ``max_new_tokens``).

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, ``answer`` and
    ``answer_ends`` ``[B, W]``. Writes ``reward``, float32 ``[B]``, ``rewards``
    (``{thought_likelihood: [B]}``), ``correct`` and ``reward_valid`` (bool ``[B]``). Records the
    metrics of :func:`rlcomp.interfaces.reward.write_reward`.

    Args:
        policy: the model that thinks and scores.
        num_tokens: number of tokens of the true continuation to score, by ``answer_ends``; answers
            with only one end are scored as a whole.
        think_end: the text that ends a thought.

    Raises:
        ConfigError: the tokenizer does not give the bytes of its tokens.
        DataError: the tokenizer cannot write ``think_end`` or a continuation.

    Source:
        Zelikman et al. 2024 (Quiet-STaR), arXiv:2403.09629.
    """

    reads: ClassVar[tuple[Key, ...]] = (
        "tokens",
        "attention_mask",
        "response_mask",
        "answer",
        "answer_ends",
    )
    optional: ClassVar[tuple[Key, ...]] = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid")
    has_verdict = False

    policy: Policy

    def __init__(
        self,
        *,
        policy: Policy,
        num_tokens: PositiveInt = 1,
        think_end: NonEmptyText = "</think>",
    ) -> None:
        super().__init__()
        self.num_tokens = num_tokens
        # Not a submodule: the policy owns the model's tensors.
        object.__setattr__(self, "policy", policy)
        self._end = ThoughtEnd(policy.tokenizer, think_end)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row."""
        likelihood, valid = self._thought_log_probs(batch, self._targets(batch))
        rewards = {"thought_likelihood": torch.where(valid, likelihood, 0.0)}
        return write_reward(
            batch, likelihood, rewards, likelihood > -math.log(2), valid, decides=False
        )

    def _targets(self, batch: TensorDict) -> list[list[int]]:
        return first_targets(self.policy.tokenizer, batch, self.num_tokens)

    def _thought_log_probs(
        self, batch: TensorDict, targets: list[list[int]]
    ) -> tuple[Tensor, Tensor]:
        rows = rows_after_thought(self.policy.tokenizer, batch, targets, self._end)
        return self._target_log_probs(rows, None)

    def _target_log_probs(
        self, rows: TensorDict, weights: Mapping[str, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        """Return the targets' log-probs (nats, no gradient) and a mask of the scored rows."""
        limit = self.policy.context_length
        fits = rows["attention_mask"].sum(1) <= (limit or math.inf)
        valid = fits & rows["response_mask"].any(1)
        # Rows that do not fit are invalid; they are cut so that the model accepts the batch.
        entries = {key: entry[:, :limit] for key, entry in rows.items()}
        device = self.policy.device
        cut = TensorDict(entries, batch_size=rows.batch_size).to(device)
        with torch.no_grad():
            scored = self.policy.log_probs(cut, weights, decoding=Decoding()).sum(1)
        return scored.float(), valid.to(device)


class InformationGain(ThoughtLikelihood):
    """RLP's information-gain reward of a thought.

    ``R = log p_theta(x | context, thought) - log p_phi(x | context)``, in nats.

    ``x`` is the true continuation, ``theta`` the policy and ``phi`` its EMA,
    ``phi <- tau phi + (1 - tau) theta`` after each training batch. With an EMA the policy gains
    nothing by becoming worse without thoughts. A phase's first batch is scored with
    ``phi = theta``. A thought is ``correct`` if ``R > 0``. Everything else is as in
    :class:`ThoughtLikelihood`.

    The EMA is updated at the first scoring after a change of the policy's version
    (``policy.version``), so that further calls in the same step, such as a ``Refill``'s, do not
    update ``phi``.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, ``prompt``, ``answer`` and
    ``answer_ends`` ``[B, W]``; ``policy_prompt`` ``[B, W]`` if present. Writes ``reward``,
    float32 ``[B]``, ``rewards`` (``{information_gain: [B]}``), ``correct`` and ``reward_valid``
    (bool ``[B]``). Records ``reward/with_thought`` and ``reward/without_thought``, the two mean
    log-probs, nats, and the metrics of :func:`rlcomp.interfaces.reward.write_reward`.

    Args:
        policy: the model that thinks and scores.
        tau: decay of ``phi`` per step; 1 keeps the weights of the phase's first batch.
        num_tokens: number of tokens of the true continuation to score, by ``answer_ends``; answers
            with only one end are scored as a whole.
        think_start: the text at the end of prompts; the context is the prompt without it.
        think_end: the text that ends a thought.

    Raises:
        ConfigError: the tokenizer does not give the bytes of its tokens.
        DataError: a prompt does not end with ``think_start``, or the tokenizer cannot write a text.

    Source:
        Hatamizadeh et al. 2025 (RLP), arXiv:2510.01265.
    """

    reads = ("tokens", "attention_mask", "response_mask", "prompt", "answer", "answer_ends")
    optional = ("policy_prompt", "episode_error")

    last_version: Tensor

    def __init__(
        self,
        *,
        policy: Policy,
        tau: Probability = 0.999,
        num_tokens: PositiveInt = 1,
        think_start: NonEmptyText = "<think>",
        think_end: NonEmptyText = "</think>",
    ) -> None:
        super().__init__(policy=policy, num_tokens=num_tokens, think_end=think_end)
        self.tau = tau
        self.think_start = think_start
        self.copied = WeightSnapshot(policy)
        # Version of the policy at the last scoring in this phase; -1: none yet.
        self.register_buffer("last_version", torch.tensor(-1))

    def begin_phase(self) -> None:
        """Reset: the next batch is scored with ``phi = theta``."""
        self.last_version.fill_(-1)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Update the EMA ``phi`` if there was a step, then score every row."""
        self._update_average()
        targets = self._targets(batch)
        with_thought, fits = self._thought_log_probs(batch, targets)
        prompts = batch["policy_prompt" if "policy_prompt" in batch.keys() else "prompt"]
        rows = rows_without_thought(
            self.policy.tokenizer, decode_texts(prompts), targets, self.think_start
        )
        without, also_fits = self._target_log_probs(rows, self.copied.weights())
        valid = fits & also_fits
        record("reward/with_thought", with_thought, where=valid)
        record("reward/without_thought", without, where=valid)
        gain = torch.where(valid, with_thought - without, 0.0)
        return write_reward(batch, gain, {"information_gain": gain}, gain > 0, valid, decides=False)

    def _update_average(self) -> None:
        now, last = self.policy.version, int(self.last_version)
        if last < 0:
            self.copied.take()
        elif now != last:
            self.copied.follow(1 - self.tau)
        self.last_version.fill_(now)
