"""Rewards of next-token reasoning."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar, Literal

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import Probability
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.functional.prefix_match import begins_with_first, last_boxed, matched_tokens, text_after
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.reward import write_reward
from rlcomp.keys import Key
from rlcomp.metrics import record
from rlcomp.model.weight_snapshot import WeightSnapshot
from rlcomp.text.reasoning import rows_without_thought
from rlcomp.text.token_bytes import row_bytes, token_bytes

# By the argument ``prediction``: functions of the response's bytes and the end of a thought that
# return the prediction, None if there is none.
_PREDICTIONS: dict[str, Callable[[bytes, bytes], bytes | None]] = {
    "box": lambda text, end: last_boxed(text, after=end),
    "rest": text_after,
}

# By the argument ``match``: functions of the prediction, the true text and the ends of the true
# text's tokens that return the number of right tokens.
_MATCHES: dict[str, Callable[[bytes, bytes, Collection[int]], int]] = {
    "prefix": matched_tokens,
    "first_token": begins_with_first,
}


class PrefixMatch(Component):
    r"""RPT's prefix-matching reward.

    ``R = 1`` if the prediction is a prefix of the true continuation in bytes and ends where a token
    of the continuation ends, else 0.

    The bytes of the response's tokens are compared with those of the answer, not decoded text: a
    leading space counts, and an incomplete character is unchanged. Only tokens under
    ``response_mask`` are read, so a box in the prompt is not a prediction. A prediction longer than
    the answer is wrong.

    A response without a prediction is wrong by default and not invalid: otherwise a policy could
    avoid a loss by not answering.

    Reads ``tokens``, ``response_mask`` ``[B, T]``, ``answer``, ``answer_ends`` ``[B, W]``. Writes
    ``reward``, float32 ``[B]``, ``rewards`` (``{prefix_match: [B]}``), ``correct`` and
    ``reward_valid`` (bool ``[B]``). Records ``reward/answered``, the share of responses with a
    prediction, ``reward/matched_tokens``, the number of tokens of right predictions, and the
    metrics of :func:`rlcomp.interfaces.reward.write_reward`.

    Args:
        tokenizer: the policy's tokenizer.
        match: ``prefix``: the prediction ends at the end of a token of the answer;
            ``first_token``: it begins with the answer's whole first token.
        think_end: the prediction is searched after the first one of these; empty: in the whole
            response.
        unanswered: the verdict on a response without a prediction; ``invalid`` leaves it out of
            training.
        prediction: ``box``: the content of the last box; ``rest``: all text after ``think_end``,
            for policies that continue the text (RLP).

    Raises:
        ConfigError: the tokenizer does not give the bytes of its tokens, or ``think_end`` is a
            special token, which has no bytes.

    Source:
        Dong et al. 2025 (RPT), arXiv:2506.08007.
    """

    reads: ClassVar[tuple[Key, ...]] = ("tokens", "response_mask", "answer", "answer_ends")
    optional: ClassVar[tuple[Key, ...]] = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid")

    name = "prefix_match"

    def __init__(
        self,
        *,
        tokenizer: PreTrainedTokenizerBase,
        match: Literal["prefix", "first_token"] = "prefix",
        think_end: str = "</think>",
        unanswered: Literal["wrong", "invalid"] = "wrong",
        prediction: Literal["box", "rest"] = "box",
    ) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.match = match
        self.think_end = think_end
        self.unanswered = unanswered
        self.prediction = prediction
        self.table = token_bytes(tokenizer)
        index = tokenizer.get_vocab().get(think_end)
        if index is not None and not self.table[index]:
            raise ConfigError(
                f"{type(self).__name__}: think_end {think_end!r} is a special token of the "
                "tokenizer, which leaves no bytes in a response: add it to the tokenizer as an "
                "ordinary token, or write another text"
            )

    def forward(self, batch: TensorDict) -> TensorDict:
        """Judge every row's prediction."""
        predictions = self._predictions(batch)
        device = batch["tokens"].device
        answered = torch.tensor([p is not None for p in predictions], device=device).bool()
        matched = torch.tensor(self._matched(batch, predictions), device=device)
        right = matched > 0
        record("reward/answered", answered.float())
        record("reward/matched_tokens", matched.float(), where=right)
        valid = answered if self.unanswered == "invalid" else torch.ones_like(answered)
        reward = self.prediction_rewards(batch, predictions, right)
        return write_reward(batch, reward, {self.name: reward}, right, valid)

    def prediction_rewards(
        self, batch: TensorDict, predictions: Sequence[bytes | None], right: Tensor
    ) -> Tensor:
        """Return the reward of each prediction (None: no prediction), shape ``[B]``."""
        return right.float()

    def _predictions(self, batch: TensorDict) -> list[bytes | None]:
        find_prediction, end = _PREDICTIONS[self.prediction], self.think_end.encode()
        tokens, masks = batch["tokens"].cpu(), batch["response_mask"].cpu()
        texts = [
            row_bytes(self.table, row[mask].tolist())
            for row, mask in zip(tokens, masks, strict=True)
        ]
        return [find_prediction(text, end) for text in texts]

    def _matched(self, batch: TensorDict, predictions: Sequence[bytes | None]) -> list[int]:
        answers = [text.encode() for text in decode_texts(batch["answer"])]
        ends = [(row.nonzero()[:, 0] + 1).tolist() for row in batch["answer_ends"].cpu()]
        count = _MATCHES[self.match]
        rows = zip(predictions, answers, ends, strict=True)
        return [0 if p is None else int(count(p, truth, stops)) for p, truth, stops in rows]


class DenseMatch(PrefixMatch):
    """RPT's dense reward: 1 for a correct prediction, else the probability of the prediction.

    ``R = 1`` for a correct prediction, else ``scale * p_ref(x_1 | context)`` with the prediction's
    first token ``x_1``.

    The reference is the policy at the start of the phase, at temperature 1, without a thought: its
    context is the prompt up to ``think_start``. ``x_1`` is the longest token that is a prefix of
    the prediction. The reward is 0 without a box, with an empty box, or if no token is a prefix.

    Only correct predictions are ``correct``. For the rules of correctness and for responses without
    a box see :class:`components.reward.next_token.PrefixMatch`.

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
        self.copied = WeightSnapshot(policy)
        # Keep the last of equal tokens: byte tokens come first and only serve missing pieces.
        self._ids = {part: index for index, part in enumerate(self.table) if part}
        self._longest = max(map(len, self._ids))

    def begin_phase(self) -> None:
        """Copy the current weights."""
        self.copied.take()

    def prediction_rewards(
        self, batch: TensorDict, predictions: Sequence[bytes | None], right: Tensor
    ) -> Tensor:
        """Return 1 if correct, else the scaled probability."""
        prompts = decode_texts(batch["prompt"])
        rewarded = ~right
        if self.conditional:
            rewarded = rewarded & torch.isin(batch["group_id"], batch["group_id"][right])
        firsts = {
            row: first
            for row in rewarded.nonzero()[:, 0].tolist()
            if (first := self._first_token(predictions[row] or b"")) is not None
        }
        reward = right.float()
        if firsts:
            contexts = [prompts[row] for row in firsts]
            probability = self._token_probabilities(contexts, list(firsts.values()))
            reward[list(firsts)] = self.scale * probability.to(reward)
        return reward

    def _first_token(self, prediction: bytes) -> int | None:
        sizes = range(min(len(prediction), self._longest), 0, -1)
        return next((self._ids[prediction[:n]] for n in sizes if prediction[:n] in self._ids), None)

    def _token_probabilities(self, prompts: Sequence[str], tokens: Sequence[int]) -> Tensor:
        """Return the reference's probability of each token after its context, shape ``[N]``."""
        targets = [[token] for token in tokens]
        rows = rows_without_thought(self.tokenizer, prompts, targets, self.think_start)
        rows = rows.to(self.policy.device)
        with torch.no_grad():
            scored = self.policy.log_probs(rows, self.copied.weights(), decoding=Decoding())
        return scored.sum(1).exp()
