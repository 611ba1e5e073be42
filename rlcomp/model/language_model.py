"""The policy: a causal LM that generates responses and scores log-probs."""

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
from rlcomp.model.causal_forward import CausalForward
from rlcomp.model.generation import Generation, GenerationRequest
from rlcomp.model.pretrained import context_limit
from rlcomp.model.row_scoring import RowScoring
from rlcomp.model.stop_tokens import stop_ids
from rlcomp.parallel.ranks import here, ranks
from rlcomp.parallel.scoring import score_on_ranks
from rlcomp.text.answer_ids import note_stops
from rlcomp.text.rows import pad_id, rollout_rows


class LanguageModel(Component):
    """The policy: a causal language model with its tokenizer and decoding settings.

    The model stays in eval mode, also while it is trained: with dropout the probability of a token
    would differ between sampling and training, and the ratio of an on-policy step would not be 1.

    Ids for which the tokenizer has no token (padded vocabularies), and the pad token where it ends
    no response, have probability 0, in sampling and in scoring alike.

    Scoring under filters and with recorded choices: :class:`rlcomp.model.row_scoring.RowScoring`.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``.

    Writes ``log_probs`` ``[B, T]``, nats: ``log p(tokens[t] | tokens[<t])`` under ``decoding``,
    0 at t = 0 and outside ``response_mask``; ``entropy`` ``[B, T]``, nats, at the temperature and
    before any filter, with a graph only where the learner's losses ask for it;
    ``log_distribution`` ``[B, T, V]``, nats, of the same distribution, in a learner only where its
    losses ask for it: it costs memory for several times ``B * T * V`` numbers.

    Args:
        model: a causal model of transformers.
        tokenizer: the model's tokenizer; needs an EOS token. Where it puts BOS in front of a text,
            prompts start with BOS.
        decoding: the distribution of :meth:`generate`, and the one under which rows are scored.
        engine: how all of it is computed.
        stop_tokens: tokens that end a response, beside EOS and those of the model's
            ``generation_config``: ``["<|im_end|>"]``.
        sampler_engine: who decodes in :meth:`generate`; null for our own loop.

    Raises:
        ConfigError: the tokenizer has no EOS token or more tokens than the model; the model is not
            causal or has no cache; a stop token is no token; routing is to be kept, and the model
            has no routers that are known, or its layers are computed again.
        DataError: the model's ``generation_config`` names an EOS that is none.
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
        """Ids that are never sampled."""
        mask = self.causal_forward.suppressed
        return [] if mask is None else mask.nonzero().flatten().tolist()

    def train(self, mode: bool = True) -> LanguageModel:
        """Switch this module's flag; the model itself stays in eval mode."""
        super().train(mode)
        self.model.eval()
        return self

    @property
    def context_length(self) -> int | None:
        """Context length in tokens (prompt and response); None if unlimited."""
        return context_limit(self.model.config)

    @property
    def packs(self) -> bool:
        """True if the forward pass packs sequences and reads shared prompts once."""
        return self.causal_forward.packs

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score rows: write log-probs of the response tokens, and other outputs that are needed."""
        scored = self.scoring.score(self._columns(batch, self.decoding))
        return self.scoring.write(batch, scored, self.decoding)

    def log_probs(
        self,
        batch: TensorDict,
        weights: Mapping[str, Tensor] | None = None,
        *,
        decoding: Decoding | None = None,
    ) -> Tensor:
        """Return log-probs ``[B, T]`` of the response tokens of a batch, nats.

        They are 0 at t = 0 and outside ``response_mask``. Arguments are those of
        :meth:`rlcomp.interfaces.policy.Policy.log_probs`. Without gradient the rows are read some
        at a time, so that memory does not grow with the batch.
        """
        return self._logit_values(batch, log_prob_function, weights, decoding or self.decoding)

    def score(self, batch: TensorDict) -> Tensor:
        """Return :meth:`log_probs` of a batch, without gradient."""
        with torch.no_grad():
            return self.log_probs(batch)

    def score_and_route(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """Return the log-probs of :meth:`score`, and the experts that the model chose for them.

        ``routed_experts`` are ``[B, T, L, E]``, uint8, unknown in padding. Routes in the batch are
        not replayed.

        Raises:
            ConfigError: ``decoding.keep_routing`` is ``none``.
        """
        if not self.scoring.routers:
            raise ConfigError("decoding.keep_routing is none: set it to proximal or rollout")
        tokens, columns = batch["tokens"], self._columns(batch, self.decoding)
        log_probs, routes = self.scoring.log_probs_and_routes(
            columns, tokens.shape[1], self.decoding
        )
        return log_probs.to(tokens.device), routes.to(tokens.device)

    def log_distribution(
        self, batch: TensorDict, weights: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Return log-probs ``[B, T, V]`` of all tokens at each response token, nats.

        They are at the temperature and before any filter, and 0 outside ``response_mask``.
        Arguments are those of :meth:`log_probs`.
        """
        return self._logit_values(batch, distribution_function, weights, self.decoding)

    def squared_probs(self, batch: TensorDict) -> Tensor:
        """Return ``sum_v p_v^2`` ``[B, T]`` at each response token, without gradient.

        Probabilities are under ``decoding``; the sum is 0 outside ``response_mask``.
        """
        with torch.no_grad():
            return self._logit_values(batch, squared_prob_function, None, self.decoding)

    def _logit_values(
        self,
        batch: TensorDict,
        make: LogitFunctionMaker,
        weights: Mapping[str, Tensor] | None,
        decoding: Decoding,
    ) -> Tensor:
        """Return the values of a logit function; without gradient, ranks share rows if they can."""
        columns, device = self._columns(batch, decoding), batch["tokens"].device
        group = None if torch.is_grad_enabled() or weights is not None else ranks()
        if group is not None and group.holds(self) and self.scoring.same_on_ranks(make):
            values: Tensor = group.together(self, "score_together", columns, make, decoding)
            return values.to(device)
        return self.scoring.read(columns, make, decoding, weights, device)

    def score_together(
        self, rows: TensorDict, make: LogitFunctionMaker, decoding: Decoding
    ) -> Tensor:
        """Return the values of a logit function without gradient; each rank reads some rows."""

        def read_by(model: LanguageModel, some: TensorDict) -> Tensor:
            return model.scoring.read_once(some, make, decoding)

        columns = self._columns(rows, decoding)
        return score_on_ranks(here(), self, columns, self.scoring.pieces, read_by)

    def _columns(self, batch: TensorDict, decoding: Decoding) -> TensorDict:
        return self.scoring.columns(type(self).__name__, batch, decoding)

    @property
    def device(self) -> torch.device:
        """Device of the model's weights."""
        return torch.device(self.model.device)

    @property
    def version(self) -> int:
        """Number of updates that the weights have had."""
        return int(self.updates)

    def updated(self) -> None:
        """Count an update of the weights."""
        self.updates += 1

    def weights(self) -> dict[str, Tensor]:
        """Return the model's trainable parameters by name; tied ones once."""
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

        EOS is an action like any other: it stands in ``tokens`` with its log-prob, and nothing
        after it. Arguments and rows are those of :meth:`rlcomp.interfaces.policy.Policy.generate`;
        for texts there is :func:`rlcomp.text.answers.answer_prompts`.

        Raises:
            ConfigError: ``group_size`` or ``max_new_tokens`` is below 1, or a prompt is a text.
            DataError: a prompt has no tokens or leaves no room for ``max_new_tokens``.
            NumericalError: the model's output is not finite.
        """
        request = GenerationRequest(
            prompts, group_size, max_new_tokens, decoding or self.decoding, suppressed_tokens
        )
        self.check_prompts(prompts, max_new_tokens)
        engine, version = self.sampler_engine, self.version
        sampled = self.generation.sample(request, version, generator, engine)
        return rollout_rows(prompts, sampled, pad=pad_id(self.tokenizer), version=version)

    def session(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        decoding: Decoding | None = None,
        generator: torch.Generator,
        seeds: Sequence[int] | None = None,
    ) -> SamplingSession:
        """Return a session of turns, one row per prompt.

        The first turn of a session gives the tokens of :meth:`generate` with the same generator.
        Equal prompts are read once. Arguments are those of
        :meth:`rlcomp.interfaces.policy.SupportsAgentCalls.session`.

        Raises:
            ConfigError: a prompt is a text.
            DataError: a prompt has no tokens or leaves no room for one more.
        """
        check_turns(self)
        self.check_prompts(prompts, 1)
        return self.generation.session(prompts, decoding or self.decoding, generator, seeds)

    def decode_slots(self, *, reread: bool = False) -> DecodeSlots:
        """Return decode slots under the policy's own decoding distribution.

        With ``reread``, or without the native loop, contexts are computed again after a change of
        the weights.

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
        """Refuse prompts that cannot be answered (:meth:`Generation.check_prompts`)."""
        self.generation.check_prompts(prompts, max_new_tokens)
