"""RPT's dense reward, with the probability of wrong predictions."""

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
    """RPT's dense reward: 1 for a correct prediction, else the probability of the prediction.

    ``R = 1`` for a correct prediction, else ``scale * p_ref(x_1 | context)`` with its first token
    ``x_1``.

    The reference is the policy at the start of the phase, at temperature 1, without a thought: its
    context is the prompt up to ``think_start``. ``x_1`` is the longest token that is a prefix of
    the prediction. The reward is 0 without a box, with an empty box, or if no token is a prefix.

    Only correct predictions are ``correct``. For the rules of correctness and for responses without
    a box see :class:`components.reward.prefix_match.PrefixMatch`.

    Reads ``prompt``, ``answer``, ``answer_ends`` ``[B, W]``, ``tokens``, ``response_mask``
    ``[B, T]``, ``group_id`` ``[B]``. Writes ``reward``, float32 ``[B]``, ``rewards``
    (``{dense_match: [B]}``), ``correct`` and ``reward_valid`` (bool ``[B]``). Records the metrics
    of ``PrefixMatch``.

    Args:
        policy: the policy that wrote the responses; a copy of its weights is the reference.
        match: as in ``PrefixMatch``.
        think_start: the text at the end of prompts that starts a thought; empty: the whole prompt
            is the context.
        think_end: as in ``PrefixMatch``.
        unanswered: as in ``PrefixMatch``.
        conditional: whether wrong predictions are rewarded only in a group with a right one.
        scale: factor of the probability.

    Raises:
        ConfigError: as in ``PrefixMatch``.
        DataError: a prompt does not end with ``think_start``.

    Source:
        Dong et al. 2025 (RPT), arXiv:2506.08007: the dense and the conditional reward, alternatives
        to prefix matching.
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
        # Not a submodule: the policy owns its tensors in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)
        self.copied = CopiedWeights(policy)
        # Keep the last of equal tokens: byte tokens come first and only serve missing pieces.
        self._ids = {part: index for index, part in enumerate(self.table) if part}
        self._longest = max(map(len, self._ids))

    def begin_phase(self) -> None:
        """Take a new copy."""
        self.copied.take()

    def valued(
        self, batch: TensorDict, predictions: Sequence[bytes | None], right: Tensor
    ) -> Tensor:
        """Return 1 if correct, else the scaled probability."""
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
        """Return the reference's probability of each token after its context, shape ``[N]``."""
        targets = [[token] for token in tokens]
        rows = rows_without_thought(self.tokenizer, prompts, targets, self.think_start)
        rows = rows.to(self.policy.device)
        with torch.no_grad():
            scored = self.policy.log_probs(rows, self.copied.weights(), decoding=Decoding())
        return scored.sum(1).exp()
