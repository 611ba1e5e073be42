"""Reward of a thought: log-likelihood of the true continuation (Quiet-STaR)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.engine.decoding import Decoding
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.reward import write_reward
from rlcomp.keys import Key
from rlcomp.text.thoughts import ThoughtEnd, first_targets, rows_after_thought


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
    is_free = True

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
        self.think_end = think_end
        # Not a submodule: the policy owns the model's tensors.
        object.__setattr__(self, "policy", policy)
        self._end = ThoughtEnd(policy.tokenizer, think_end)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row."""
        likelihood, valid = self._behind_thoughts(batch, self._targets(batch))
        rewards = {"thought_likelihood": torch.where(valid, likelihood, 0.0)}
        return write_reward(
            batch, likelihood, rewards, likelihood > -math.log(2), valid, decides=False
        )

    def _targets(self, batch: TensorDict) -> list[list[int]]:
        return first_targets(self.policy.tokenizer, batch, self.num_tokens)

    def _behind_thoughts(
        self, batch: TensorDict, targets: list[list[int]]
    ) -> tuple[Tensor, Tensor]:
        rows = rows_after_thought(self.policy.tokenizer, batch, targets, self._end)
        return self._scored(rows, None)

    def _scored(
        self, rows: TensorDict, weights: Mapping[str, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        """Return the targets' log-probs (nats, no gradient) and a mask of the scored rows."""
        limit = self.policy.context_length
        fits = rows["attention_mask"].sum(1) <= (limit or math.inf)
        valid = fits & rows["response_mask"].any(1)
        entries = {key: entry[:, :limit] for key, entry in rows.items()}
        device = self.policy.device
        cut = TensorDict(entries, batch_size=rows.batch_size).to(device)
        with torch.no_grad():
            scored = self.policy.log_probs(cut, weights, decoding=Decoding()).sum(1)
        return scored.float(), valid.to(device)
