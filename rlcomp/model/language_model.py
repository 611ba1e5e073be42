"""The policy: texts to sampled rows, rows to log-probs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor
from torch.func import functional_call
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlcomp.batch import encode_texts
from rlcomp.component import Component, asked, masked
from rlcomp.errors import ConfigError, DataError, NumericalError
from rlcomp.functional.logprob import entropy, token_log_probs
from rlcomp.generation.engine import Sampled, decode
from rlcomp.generation.layout import padded, response_columns
from rlcomp.generation.sampling import Sampling
from rlcomp.model.tokenizer import encode_all
from rlcomp.run.record import version


class LanguageModel(Component):
    """A causal language model with its tokenizer and the distribution it samples from.

    The model stays in eval mode, also while it is trained: with dropout the probability of a token
    would differ between sampling and training, and the ratio of an on-policy step would not be 1.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``.

    Writes ``log_probs`` ``[B, T]``, nats: ``log p(tokens[t] | tokens[<t])`` under ``sampling``,
    0 at t = 0 and outside ``response_mask``; ``entropy`` ``[B, T]``, nats, at the temperature and
    before any filter, with a graph only where the learner's losses ask for it.

    Args:
        model: a causal model of transformers.
        tokenizer: the model's tokenizer; needs an EOS token.
        sampling: the distribution of :meth:`generate`, and the one under which rows are scored.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    writes = ("log_probs", "entropy")

    def __init__(
        self,
        *,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        sampling: Sampling,
    ) -> None:
        super().__init__()
        if tokenizer.eos_token_id is None:
            raise ConfigError("policy: the tokenizer has no EOS token: set tokenizer.eos_token")
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.sampling = sampling
        self._keeps_columns = "logits_to_keep" in inspect.signature(model.forward).parameters

    def train(self, mode: bool = True) -> LanguageModel:
        """Switch this module's flag; the model itself stays in eval mode."""
        super().train(mode)
        self.model.eval()
        return self

    @property
    def context_length(self) -> int:
        """The most tokens of prompt and response the model can hold."""
        return int(self.model.config.max_position_embeddings)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the response tokens of a batch."""
        scored = self._score(batch, None)
        batch["log_probs"] = scored.spread(self._token_log_probs(scored))
        with torch.set_grad_enabled(torch.is_grad_enabled() and asked("entropy")):
            values = entropy(scored.logits, self.sampling.temperature)
            batch["entropy"] = scored.spread(values)
        return batch

    def log_probs(self, batch: TensorDict, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """Log-probs of a batch, and nothing else.

        Args:
            batch: holds ``tokens``, ``attention_mask`` and ``response_mask``.
            weights: parameters of ``model``, by name, to use in place of its own.

        Returns:
            Shape ``[B, T]``, nats, 0 at t = 0 and outside ``response_mask``.
        """
        scored = self._score(batch, weights)
        return scored.spread(self._token_log_probs(scored))

    def _token_log_probs(self, scored: _Scored) -> Tensor:
        if self.sampling.temperature == 0 and torch.is_grad_enabled():
            raise ConfigError(
                "sampling.temperature is 0: a greedy policy has no gradient. Train at a "
                "temperature above 0, and hand greedy sampling to whatever evaluates"
            )
        return token_log_probs(scored.logits, scored.targets, self.sampling)

    def _score(self, batch: TensorDict, weights: Mapping[str, Tensor] | None) -> _Scored:
        """The logits that predict response tokens, each row of the model's output once."""
        # No attention mask for the model: padding is on the right and a causal model looks left
        # only, so no response token sees padding. Ids there may be anything: 0 is always a token.
        ids = masked(batch["tokens"], batch["attention_mask"])
        # Column t of `wanted`: whether the logits at t, which speak of tokens[t + 1], are needed.
        wanted = F.pad(batch["response_mask"][:, 1:], (0, 1))
        columns = wanted.any(0).nonzero().flatten()
        if not len(columns):
            # One column that nobody reads keeps the result connected to the weights.
            columns = torch.zeros(1, dtype=torch.int64, device=ids.device)
        logits = self._logits(ids[:, : int(columns[-1]) + 1], columns, weights)
        rows, picks = wanted[:, columns].nonzero(as_tuple=True)
        places = rows * ids.shape[1] + columns[picks] + 1
        return _Scored(
            logits=logits.flatten(0, 1).index_select(0, rows * len(columns) + picks),
            targets=ids.flatten()[places],
            places=places,
            shape=ids.shape,
        )

    def _logits(self, ids: Tensor, columns: Tensor, weights: Mapping[str, Tensor] | None) -> Tensor:
        """The model's logits at some columns, shape ``[B, C, V]``."""
        arguments: dict[str, object] = {"input_ids": ids, "use_cache": False}
        if self._keeps_columns:
            arguments["logits_to_keep"] = columns
        if weights is None:
            logits: Tensor = self.model(**arguments).logits
        else:
            logits = functional_call(self.model, dict(weights), (), arguments).logits
        return logits if self._keeps_columns else logits[:, columns]

    def generate(
        self,
        prompts: Sequence[str],
        *,
        group_size: int,
        max_new_tokens: int,
        sampling: Sampling | None = None,
        generator: torch.Generator,
    ) -> TensorDict:
        """Sample ``group_size`` answers to every prompt.

        EOS is an action like any other: it stands in ``tokens`` with its log-prob, and nothing
        after it.

        Args:
            prompts: ``P`` texts.
            group_size: answers per prompt; those of prompt 0 come first.
            max_new_tokens: the most tokens of an answer, EOS included.
            sampling: the distribution to draw from; the policy's own if not given.
            generator: on the CPU.

        Returns:
            ``B = P * group_size`` rows: ``tokens``, ``attention_mask``, ``response_mask``,
            ``rollout_log_probs``, ``policy_version`` ``[B, T]``; ``group_id``, ``truncated``
            ``[B]``; ``prompt``, ``response`` (decoded, without special tokens).

        Raises:
            DataError: a prompt cannot be tokenised or leaves no room for ``max_new_tokens``.
            NumericalError: the model's output is not finite.
        """
        ids = self._prompt_ids(prompts)
        for text, row in zip(prompts, ids, strict=True):
            self._check_room(text, len(row), max_new_tokens)
        sampled = decode(
            self.model,
            ids,
            group_size=group_size,
            max_new_tokens=max_new_tokens,
            eos=int(self.tokenizer.eos_token_id),
            sampling=sampling if sampling is not None else self.sampling,
            generator=generator,
        )
        rows = [row for row in ids for _ in range(group_size)]
        columns = response_columns(rows, sampled, self._pad)
        if not bool(columns["rollout_log_probs"].isfinite().all()):
            raise NumericalError("the policy sampled a token whose log-prob is not finite")
        columns["policy_version"] = columns["response_mask"] * version()
        columns["truncated"] = sampled.truncated
        columns["group_id"] = torch.arange(len(prompts)).repeat_interleave(group_size)
        columns["prompt"] = encode_texts([text for text in prompts for _ in range(group_size)])
        columns["response"] = encode_texts(self._texts(sampled))
        device = sampled.tokens.device
        return TensorDict(
            {key: column.to(device) for key, column in columns.items()}, batch_size=[len(rows)]
        )

    def encode(self, prompts: Sequence[str], responses: Sequence[str]) -> TensorDict:
        """Rows of given answers, for supervised learning and for scoring.

        Prompt and response are tokenised apart, as they are when the response is sampled.

        Args:
            prompts: ``B`` texts.
            responses: ``B`` texts, without EOS, which is added.

        Returns:
            ``tokens`` (prompt, response, EOS), ``attention_mask``, ``response_mask`` (response and
            EOS), shape ``[B, T]``.

        Raises:
            DataError: a text cannot be tokenised, or a row is longer than the model's context.
        """
        heads = self._prompt_ids(prompts)
        eos = int(self.tokenizer.eos_token_id)
        tails = [[*row, eos] for row in encode_all(self.tokenizer, responses)]
        for text, head, tail in zip(prompts, heads, tails, strict=True):
            self._check_room(text, len(head), len(tail))
        rows = [head + tail for head, tail in zip(heads, tails, strict=True)]
        tokens, filled = padded(rows, self._pad)
        starts = torch.tensor([len(head) for head in heads])[:, None]
        answers = filled & (torch.arange(tokens.shape[1]) >= starts)
        columns = {"tokens": tokens, "attention_mask": filled, "response_mask": answers}
        return TensorDict(
            {key: column.to(self.model.device) for key, column in columns.items()},
            batch_size=[len(heads)],
        )

    def _prompt_ids(self, prompts: Sequence[str]) -> list[list[int]]:
        """Token ids, at least one a prompt: the model needs something to predict the first from."""
        start = self.tokenizer.bos_token_id
        first = int(self.tokenizer.eos_token_id if start is None else start)
        if not prompts:
            raise DataError("there are no prompts to answer: hand over at least one")
        return [row or [first] for row in encode_all(self.tokenizer, prompts)]

    def _check_room(self, prompt: str, length: int, new: int) -> None:
        if length + new > self.context_length:
            raise DataError(
                f"prompt {prompt[:60]!r} has {length} tokens; with {new} more that is "
                f"{length + new}, and the model holds {self.context_length}: shorten the prompt or "
                "the response, or raise context_length"
            )

    @property
    def _pad(self) -> int:
        pad = self.tokenizer.pad_token_id
        return int(self.tokenizer.eos_token_id if pad is None else pad)

    def _texts(self, sampled: Sampled) -> list[str]:
        lengths = sampled.lengths.tolist()
        rows = [row[:n] for row, n in zip(sampled.tokens.tolist(), lengths, strict=True)]
        texts: list[str] = self.tokenizer.batch_decode(
            rows, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return texts


@dataclass(frozen=True)
class _Scored:
    """The response tokens of a batch as one list of length ``N``.

    Attributes:
        logits: shape ``[N, V]``: what the model said of each.
        targets: shape ``[N]``: which token it was.
        places: shape ``[N]``: where it stands in the flattened batch.
        shape: ``(B, T)``.
    """

    logits: Tensor
    targets: Tensor
    places: Tensor
    shape: torch.Size

    def spread(self, values: Tensor) -> Tensor:
        """Values of the listed tokens in their places, 0 elsewhere; shape ``[B, T]``."""
        empty = values.new_zeros(self.shape.numel())
        return empty.index_copy(0, self.places, values).view(self.shape)
