"""The policy: a causal language model that generates responses and scores them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlcomp.component import Component
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import AUTO, Engine
from rlcomp.engine.scoring import (
    LogitFunctionMaker,
    distribution_function,
    log_prob_function,
    squared_prob_function,
)
from rlcomp.engine.session import DecodeSlots, SamplingSession
from rlcomp.errors import ConfigError
from rlcomp.interfaces.policy import check_turns
from rlcomp.interfaces.sampler_engine import SamplerEngine
from rlcomp.model.causal_forward import CausalForward, stop_ids
from rlcomp.model.generation import Generation, GenerationRequest
from rlcomp.model.pretrained import context_limit
from rlcomp.model.row_scoring import RowScoring
from rlcomp.parallel.load_balancing import score_on_ranks
from rlcomp.parallel.ranks import ranks
from rlcomp.text.answer_tokens import note_stops
from rlcomp.text.rows import pad_id, rollout_rows


class LanguageModel(Component):
    """The policy: a causal language model with its tokenizer and decoding settings.

    The model stays in eval mode, even while it is trained: with dropout the probability of a token
    would differ between sampling and training, and the ratio of an on-policy step would not be 1.

    Ids without a token in the tokenizer (padded vocabularies), preference tokens, and the pad token
    unless it ends a response, have probability 0, in sampling and in scoring.

    Scoring under filters and with recorded choices: :class:`rlcomp.model.row_scoring.RowScoring`.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``. Writes, in nats, 0 at t = 0
    and outside ``response_mask``:

    - ``log_probs`` ``[B, T]``: ``log p(tokens[t] | tokens[<t])`` under ``decoding``
    - ``entropy`` ``[B, T]`` of the distribution at the temperature, before any filter; in a learner
      with a graph only if a loss reads it
    - ``log_distribution`` ``[B, T, V]``: log-probs of that unfiltered distribution; in a learner
      only if a loss reads it, because it needs memory for several times ``B * T * V`` numbers

    Args:
        model: a causal model of transformers.
        tokenizer: the model's tokenizer; needs an EOS token. If it puts BOS in front of a text,
            prompts start with BOS.
        decoding: the distribution to sample from and to score under.
        engine: the compute engine.
        stop_tokens: tokens that end a response, such as ``["<|im_end|>"]``, in addition to EOS and
            the stop tokens of the model's ``generation_config``.
        sampler_engine: the decoder of :meth:`generate`; null for rlcomp's own loop.

    Raises:
        ConfigError: the tokenizer has no EOS token or more tokens than the model; the model is not
            causal or has no cache; a stop token is not a token of the tokenizer; under
            ``keep_routing``, the model has no known routers, or checkpoints its layers; or the
            sampler engine refuses the model or the decoding.
        DataError: the EOS of the model's ``generation_config`` is no id of the model.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    optional = ("sampling_mask", "routed_experts")
    writes = ("log_probs", "entropy", "log_distribution")

    updates: Tensor

    def __init__(
        self,
        *,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        decoding: Decoding,
        engine: Engine = AUTO,
        stop_tokens: list[str] | None = None,
        sampler_engine: SamplerEngine | None = None,
    ) -> None:
        super().__init__()
        if sampler_engine is not None:
            sampler_engine.check(decoding, model)
        self.sampler_engine = sampler_engine
        if tokenizer.eos_token_id is None:
            raise ConfigError("policy: the tokenizer has no EOS token: set tokenizer.eos_token")
        stops = stop_ids(model, tokenizer, stop_tokens or ())
        note_stops(tokenizer, stops)
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.decoding = decoding
        self.engine = engine
        self.causal_forward = CausalForward(model, tokenizer, engine, stops)
        self.scoring = RowScoring(self.causal_forward, decoding)
        self.generation = Generation(self.causal_forward, stops, decoding)
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    @property
    def stops(self) -> list[int]:
        """Ids that end a response."""
        return self.generation.stops

    @property
    def suppressed_tokens(self) -> list[int]:
        """Ids with probability 0."""
        mask = self.causal_forward.suppressed
        return [] if mask is None else mask.nonzero().flatten().tolist()

    def train(self, mode: bool = True) -> LanguageModel:
        """Set this module's flag; the model itself stays in eval mode."""
        super().train(mode)
        self.model.eval()
        return self

    @property
    def context_length(self) -> int | None:
        """Most tokens of prompt and response; None if unlimited."""
        return context_limit(self.model.config)

    @property
    def packs(self) -> bool:
        """Return True if a pass packs sequences and reads shared prompts once."""
        return self.causal_forward.packs

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write log-probs of the response tokens, and the other outputs that losses read."""
        scored = self.scoring.score(self._columns(batch, self.decoding))
        return self.scoring.write(batch, scored, self.decoding)

    def log_probs(
        self,
        batch: TensorDict,
        weights: Mapping[str, Tensor] | None = None,
        *,
        decoding: Decoding | None = None,
    ) -> Tensor:
        """Compute log-probs ``[B, T]`` of response tokens, nats; 0 elsewhere and at t = 0.

        Arguments are those of :meth:`rlcomp.interfaces.policy.Policy.log_probs`. Without gradient
        each pass reads a part of the rows, so that memory does not grow with the batch.
        """
        return self._logit_values(batch, log_prob_function, weights, decoding or self.decoding)

    def score(self, batch: TensorDict) -> Tensor:
        """Compute :meth:`log_probs` without gradient."""
        with torch.no_grad():
            return self.log_probs(batch)

    def score_and_route(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """Compute :meth:`score` and the routed experts ``[B, T, L, E]``, uint8, 255 if unknown.

        ``E`` experts of each of ``L`` layers. Routes in the batch are not replayed.

        Raises:
            ConfigError: ``decoding.keep_routing`` is ``none``.
        """
        if not self.scoring.routers:
            raise ConfigError("decoding.keep_routing is none: set it to proximal or rollout")
        tokens, columns = batch["tokens"], self._columns(batch, self.decoding)
        values = self.scoring.log_probs_and_routes(columns, tokens.shape[1], self.decoding)
        return values[0].to(tokens.device), values[1].to(tokens.device)

    def log_distribution(
        self, batch: TensorDict, weights: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Compute log-probs ``[B, T, V]`` of all tokens, nats, at the temperature, unfiltered.

        They are 0 outside ``response_mask``. Arguments are those of :meth:`log_probs`.
        """
        return self._logit_values(batch, distribution_function, weights, self.decoding)

    def squared_probs(self, batch: TensorDict) -> Tensor:
        """Compute ``sum_v p_v^2`` under ``decoding``, ``[B, T]``, without gradient, 0 if masked."""
        with torch.no_grad():
            return self._logit_values(batch, squared_prob_function, None, self.decoding)

    def _logit_values(
        self,
        batch: TensorDict,
        make: LogitFunctionMaker,
        weights: Mapping[str, Tensor] | None,
        decoding: Decoding,
    ) -> Tensor:
        """Compute a logit function; without gradient, ranks share the rows if they can."""
        columns, device = self._columns(batch, decoding), batch["tokens"].device
        group = None if torch.is_grad_enabled() or weights is not None else ranks()
        if group is not None and group.can_share(self) and self.scoring.same_on_ranks(make):
            arguments = (columns, make, decoding)
            values: Tensor = group.call_on_all(self, "logit_values_on_ranks", *arguments)
            return values.to(device)
        return self.scoring.compute(columns, make, decoding, weights, device)

    def logit_values_on_ranks(
        self, rows: TensorDict, make: LogitFunctionMaker, decoding: Decoding
    ) -> Tensor:
        """Compute a logit function without gradient; each rank reads a part of the rows."""
        columns, split = self._columns(rows, decoding), self.scoring.split_rows
        return score_on_ranks(
            self,
            columns,
            split,
            lambda model, piece: model.scoring.compute_once(piece, make, decoding),
        )

    def _columns(self, batch: TensorDict, decoding: Decoding) -> TensorDict:
        return self.scoring.columns(type(self).__name__, batch, decoding)

    @property
    def device(self) -> torch.device:
        """Device of the model's weights."""
        return torch.device(self.model.device)

    @property
    def version(self) -> int:
        """Number of updates of the weights."""
        return int(self.updates)

    def updated(self) -> None:
        """Count an update of the weights."""
        self.updates += 1

    def weights(self) -> dict[str, Tensor]:
        """Return the trainable parameters by name; tied ones once."""
        parameters = self.model.named_parameters()
        return {name: value for name, value in parameters if value.requires_grad}

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        group_size: int,
        max_new_tokens: int,
        decoding: Decoding | None = None,
        suppressed_tokens: Sequence[int] = (),
        generator: torch.Generator,
    ) -> TensorDict:
        """Sample ``group_size`` responses to every prompt.

        EOS is an action with a log-prob; a response that is not truncated ends with a stop token.
        Arguments and rows: :meth:`rlcomp.interfaces.policy.Policy.generate`. Texts:
        :func:`rlcomp.text.answers.answer_prompts`.

        Raises:
            ConfigError: ``group_size`` or ``max_new_tokens`` is below 1, or as
                :meth:`check_prompts`.
            DataError: as :meth:`check_prompts`.
            NumericalError: the model's output is not finite.
        """
        request = GenerationRequest(
            prompts, group_size, max_new_tokens, decoding or self.decoding, suppressed_tokens
        )
        self.check_prompts(prompts, max_new_tokens)
        sampled = self.generation.sample(request, self.version, generator, self.sampler_engine)
        return rollout_rows(prompts, sampled, pad=pad_id(self.tokenizer), version=self.version)

    def session(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        decoding: Decoding | None = None,
        generator: torch.Generator,
        seeds: Sequence[int] | None = None,
    ) -> SamplingSession:
        """Return a session of turns, one row per prompt.

        Its first turn samples the tokens of :meth:`generate` with the same generator. Arguments:
        :meth:`rlcomp.interfaces.policy.SupportsAgentCalls.session`.

        Raises:
            ConfigError: the policy cannot sample in turns, or as :meth:`check_prompts`.
            DataError: as :meth:`check_prompts`, for one token more.
        """
        check_turns(self)
        self.check_prompts(prompts, 1)
        return self.generation.session(prompts, decoding or self.decoding, generator, seeds)

    def decode_slots(self, *, reread: bool = False) -> DecodeSlots:
        """Return slots under ``decoding`` (:meth:`rlcomp.model.generation.Generation.slots`).

        Raises:
            ConfigError: a sampler engine decodes, or routes are recorded.
        """
        if self.sampler_engine is not None or self.decoding.keep_routing == "rollout":
            raise ConfigError(
                "decode slots need our own decode loop, and record no routes: set "
                "sampler_engine=own and decoding.keep_routing=none, or cluster.schedule=fixed"
            )
        return self.generation.slots(self.decoding, reread=reread)

    def check_prompts(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> None:
        """Check prompts (:meth:`rlcomp.model.generation.Generation.check_prompts`)."""
        self.generation.check_prompts(prompts, max_new_tokens)
