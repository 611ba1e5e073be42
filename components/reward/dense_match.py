"""RPT's dense reward: 1 for correct next tokens, else the probability of the wrong prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from tensordict import TensorDict
from torch import Tensor

from components.reward.prefix_match import PrefixMatch
from rlcomp.arguments import Probability
from rlcomp.batch import decode_texts
from rlcomp.engine.decoding import Decoding
from rlcomp.interfaces.policy import Policy
from rlcomp.model.copied import CopiedWeights
from rlcomp.text.thoughts import rows_without_thought


class DenseMatch(PrefixMatch):
    """RPT's dense reward.

    ``R = 1`` for a correct prediction, else ``scale * p_ref(x_1 | context)`` of its first token
    ``x_1``.

    The reference is the policy at the start of the phase, at temperature 1, without a thought: its
    context is the prompt up to ``think_start``. ``x_1`` is the longest token that is a prefix of
    the prediction; 0 without a box, with an empty one, or where no token is a prefix.

    Only correct predictions are ``correct``. What counts as correct, and how a response without a
    box is scored: see :class:`components.reward.prefix_match.PrefixMatch`.

    Reads ``prompt``, ``answer``, ``answer_ends`` ``[B, W]``, ``tokens``, ``response_mask``
    ``[B, T]``, ``group_id`` ``[B]``. Writes ``reward``, float32 ``[B]``, ``rewards``
    (``{dense_match: [B]}``), ``correct`` and ``reward_valid`` (bool ``[B]``). Records what
    ``PrefixMatch`` does.

    Args:
        policy: its tokenizer wrote the responses, and a copy of its weights is the reference.
        match: as in ``PrefixMatch``.
        think_start: what prompts end with so that the response starts with a thought; empty: a
            prompt is the context alone.
        think_end: as in ``PrefixMatch``.
        unanswered: as in ``PrefixMatch``.
        conditional: wrong predictions are worth something only in a group with a right one.
        scale: what the probability is multiplied with.

    Raises:
        ConfigError: as ``PrefixMatch``.
        DataError: a prompt does not end with ``think_start``.

    Source:
        Dong et al. 2025 (RPT), arXiv:2506.08007, the dense and the conditional reward that prefix
        matching is compared with.
    """

    reads = ("prompt", "tokens", "response_mask", "answer", "answer_ends", "group_id")

    name = "dense_match"

    policy: Policy

    def __init__(
        self,
        *,
        policy: Policy,
        match: Literal["prefix", "first_token"] = "prefix",
        think_start: str = "<think>",
        think_end: str = "</think>",
        unanswered: Literal["wrong", "invalid"] = "wrong",
        conditional: bool = False,
        scale: Probability = 1.0,
    ) -> None:
        super().__init__(
            tokenizer=policy.tokenizer, match=match, think_end=think_end, unanswered=unanswered
        )
        self.think_start = think_start
        self.conditional = conditional
        self.scale = scale
        # Past nn.Module: the policy's tensors belong to the policy, in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)
        self.copied = CopiedWeights(policy)
        # The last of several: byte tokens come first, and stand only for what has no piece.
        self._ids = {part: index for index, part in enumerate(self.table) if part}
        self._longest = max(map(len, self._ids))

    def begin_phase(self) -> None:
        """Take a fresh copy."""
        self.copied.take()

    def valued(
        self, batch: TensorDict, predictions: Sequence[bytes | None], right: Tensor
    ) -> Tensor:
        """1 if correct, else the scaled probability."""
        prompts = decode_texts(batch["prompt"])
        paid = ~right
        if self.conditional:
            paid = paid & torch.isin(batch["group_id"], batch["group_id"][right])
        firsts = {
            row: first
            for row in paid.nonzero()[:, 0].tolist()
            if (first := self._first_token(predictions[row] or b"")) is not None
        }
        reward = right.float()
        if firsts:
            likely = self._likelihood([prompts[row] for row in firsts], list(firsts.values()))
            reward[list(firsts)] = self.scale * likely.to(reward)
        return reward

    def _first_token(self, prediction: bytes) -> int | None:
        sizes = range(min(len(prediction), self._longest), 0, -1)
        return next((self._ids[prediction[:n]] for n in sizes if prediction[:n] in self._ids), None)

    def _likelihood(self, prompts: Sequence[str], tokens: Sequence[int]) -> Tensor:
        """The reference's probability of each token after its context, shape ``[N]``."""
        targets = [[token] for token in tokens]
        rows = rows_without_thought(self.tokenizer, prompts, targets, self.think_start)
        rows = rows.to(self.policy.device)
        with torch.no_grad():
            scored = self.policy.log_probs(rows, self.copied.weights(), decoding=Decoding())
        return scored.sum(1).exp()
