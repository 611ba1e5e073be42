"""The policy: a causal LM that generates responses and scores log-probs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlcomp.component import Component, asked
from rlcomp.engine import decode_native, decode_packed
from rlcomp.engine.decode_graph import GraphLoop
from rlcomp.engine.decode_transformers import decode
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import Sampled, TokenDraw, Uniforms
from rlcomp.engine.engine import AUTO, Engine
from rlcomp.engine.packing import packed_pieces
from rlcomp.engine.probe import probe
from rlcomp.engine.readouts import (
    Reading,
    distribution_read,
    entropy_read,
    log_probs_read,
    read,
    squares_read,
)
from rlcomp.engine.routing import (
    UNKNOWN,
    check_experts,
    recorded,
    routers_of,
    routes_of_rows,
    routing_shape,
)
from rlcomp.engine.scoring import Scored, pieces, score, score_packed
from rlcomp.engine.seats import RereadingSeats, Seats
from rlcomp.engine.seats_native import NativeSeats
from rlcomp.engine.session import Rereading, Sampling, Session
from rlcomp.engine.session_native import NativeSession
from rlcomp.engine.session_packed import PackedSession
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.transformer import Transformer, has_hooks
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.policy import check_turns
from rlcomp.interfaces.sampler_engine import SamplerEngine, SamplingRequest
from rlcomp.model.build import check_vocabulary
from rlcomp.model.pretrained import context_limit
from rlcomp.model.stop_tokens import stop_ids
from rlcomp.model.token_rows import token_rows
from rlcomp.parallel.ranks import here, ranks
from rlcomp.parallel.scoring import score_on_ranks
from rlcomp.text.answer_ids import note_stops
from rlcomp.text.rows import check_room, pad_id, rollout_rows
from rlcomp.text.token_bytes import token_bytes
from rlcomp.text.tokenizer import suppressed_token_mask

_LOG = logging.getLogger(__name__)
# What a pass without gradient reads in one go: tokens, and numbers among the logits (4 GB).
_NO_GRAD_TOKENS = 32_768
_NO_GRAD_LOGITS = 2**30
# Tokens of a row of episodes, where the model knows no limit.
_LONGEST = 2**15


class LanguageModel(Component):
    """The policy: a causal language model with its tokenizer and decoding settings.

    The model stays in eval mode, also while it is trained: with dropout the probability of a token
    would differ between sampling and training, and the ratio of an on-policy step would not be 1.

    Ids for which the tokenizer has no token (padded vocabularies), and the pad token where it ends
    no response, have probability 0, in sampling and in scoring alike.

    Under top-k, top-p or min-p the kept set is that of the model that scores, plus the taken token.
    On-policy that is exactly the set it was sampled from; once the policy has moved, or for a
    reference, the sets differ, and with them what the log-probs are normalised over. With
    ``decoding.replay`` the sampler's own sets are recorded in ``sampling_mask`` ``[B, T, V/8]`` and
    scored over, wherever a batch holds them. With ``decoding.keep_routing`` the same holds for the
    experts that read a token, in ``routed_experts`` ``[B, T, L, E]``; other weights than its own
    choose for themselves.

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
    _transformer: Transformer | None

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
        self.stops = stop_ids(model, tokenizer, stop_tokens or ())
        note_stops(tokenizer, self.stops)
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.decoding = decoding
        self.engine = engine
        self._traits = probe(model)
        # Past nn.Module: its tensors are the model's.
        object.__setattr__(self, "_transformer", engine.transformer(model))
        self._routers = self._kept_routers(decoding)
        self._samples_by = ""
        self._native(decoding)
        check_vocabulary("policy", self._traits.vocabulary, tokenizer)
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))
        # No buffer: it follows from the tokenizer, and checkpoints need not carry it.
        vocabulary = self._traits.vocabulary
        self._suppressed = suppressed_token_mask(tokenizer, vocabulary, stops=self.stops)

    def _kept_routers(self, decoding: Decoding) -> list[nn.Module]:
        if decoding.keep_routing == "none":
            return []
        if self.engine.checkpointing:
            raise ConfigError(
                "engine.checkpointing computes layers again in the backward pass, when no route is "
                "replayed any more: set it to false, or decoding.keep_routing=none"
            )
        return routers_of(self.model)

    @property
    def suppressed_tokens(self) -> list[int]:
        """Ids that are never sampled."""
        return [] if self._suppressed is None else self._suppressed.nonzero().flatten().tolist()

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
        """Whether the forward uses packed sequences with shared prompts."""
        return self._transformer is not None

    def forward(self, batch: TensorDict) -> TensorDict:
        """Scoring pass: log-probs of the response tokens, and other outputs that are needed."""
        self._write(batch, self._scored(self._columns(batch, self.decoding), None))
        return batch

    def _write(self, batch: TensorDict, score_on_ranks: Scored) -> None:
        readings: dict[str, Reading] = {"log_probs": log_probs_read, "entropy": entropy_read}
        if asked("log_distribution"):
            readings["log_distribution"] = distribution_read
        wanted = [asked(key) for key in readings]
        found = self._read(score_on_ranks, list(readings.values()), wanted, self.decoding)
        for key, entry in zip(readings, found, strict=True):
            batch[key] = entry.to(batch["tokens"].device)

    def log_probs(
        self,
        batch: TensorDict,
        weights: Mapping[str, Tensor] | None = None,
        *,
        decoding: Decoding | None = None,
    ) -> Tensor:
        """Log-probs of the response tokens of a batch, without other outputs.

        Without gradient the rows are read some at a time, so that memory does not grow with the
        batch.

        Args:
            batch: holds ``tokens``, ``attention_mask`` and ``response_mask``.
            weights: parameters of ``model``, by name, to use in place of its own.
            decoding: the distribution; the policy's own if not given.

        Returns:
            Shape ``[B, T]``, nats, 0 at t = 0 and outside ``response_mask``.
        """
        return self._in_pieces(batch, log_probs_read, weights, decoding or self.decoding)

    def score(self, batch: TensorDict) -> Tensor:
        """Log-probs of the response tokens of a batch, without gradient.

        Args:
            batch: holds ``tokens``, ``attention_mask`` and ``response_mask``.

        Returns:
            Shape ``[B, T]``, nats, 0 at t = 0 and outside ``response_mask``.
        """
        with torch.no_grad():
            return self.log_probs(batch)

    def score_and_route(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """Log-probs as of :meth:`score`, and the experts that the model chose for it.

        Args:
            batch: holds ``tokens``, ``attention_mask`` and ``response_mask``; routes in it are not
                replayed.

        Returns:
            ``[B, T]``, nats; and ``routed_experts`` ``[B, T, L, E]``, uint8, unknown in padding.

        Raises:
            ConfigError: ``decoding.keep_routing`` is ``none``.
        """
        if not self._routers:
            raise ConfigError("decoding.keep_routing is none: set it to proximal or rollout")
        columns, width = self._columns(batch, self.decoding), batch["tokens"].shape[1]
        columns = columns.exclude("routed_experts")
        log_probs, routes = list[Tensor](), list[Tensor]()
        with torch.no_grad():
            order = self._order(columns, self._budget())
            for some in order:
                with recorded(self._routers) as passes:
                    score_on_ranks = self._scored(columns[some], None)
                log_probs += self._read(score_on_ranks, [log_probs_read], [True], self.decoding)
                kept = passes[0].view(len(some), -1, *passes[0].shape[1:])
                missing = width - kept.shape[1]
                routes.append(F.pad(kept, (0, 0, 0, 0, 0, missing), value=UNKNOWN))
        back, where = torch.cat(order).argsort(), batch["tokens"].device
        padding = ~columns["attention_mask"][..., None, None]
        chosen = torch.cat(routes)[back].masked_fill(padding, UNKNOWN)
        return torch.cat(log_probs)[back].to(where), chosen.to(where)

    def log_distribution(
        self, batch: TensorDict, weights: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Full-vocabulary log-probs at each response token.

        Args:
            batch: holds ``tokens``, ``attention_mask`` and ``response_mask``.
            weights: parameters of ``model``, by name, to use in place of its own.

        Returns:
            Shape ``[B, T, V]``, nats, at the temperature and before any filter, 0 outside
            ``response_mask``.
        """
        return self._in_pieces(batch, distribution_read, weights, self.decoding)

    def squared_probs(self, batch: TensorDict) -> Tensor:
        """Sum of squared probabilities ``sum_v p_v^2`` at each response token.

        Args:
            batch: holds ``tokens``, ``attention_mask`` and ``response_mask``.

        Returns:
            Shape ``[B, T]``, under ``decoding``, without gradient; 0 outside ``response_mask``.
        """
        with torch.no_grad():
            return self._in_pieces(batch, squares_read, None, self.decoding)

    def _in_pieces(
        self,
        batch: TensorDict,
        reading: Reading,
        weights: Mapping[str, Tensor] | None,
        decoding: Decoding,
    ) -> Tensor:
        columns, where = self._columns(batch, decoding), batch["tokens"].device
        shared = None if torch.is_grad_enabled() or weights is not None else ranks()
        if shared is not None and shared.holds(self) and self._same_everywhere(reading):
            found: Tensor = shared.together(self, "score_together", columns, reading, decoding)
            return found.to(where)

        def at_once(some: TensorDict) -> Tensor:
            return self._read(self._scored(some, weights), [reading], [True], decoding)[0].to(where)

        if torch.is_grad_enabled() or columns["tokens"].numel() <= self._budget():
            return at_once(columns)
        order = self._order(columns, self._budget())
        parts = [at_once(columns[rows]) for rows in order]
        return torch.cat(parts)[torch.cat(order).argsort()]

    def _same_everywhere(self, reading: Reading) -> bool:
        """Whether other ranks would read the same: adapters may be off here, hooks may look on."""
        large = reading is distribution_read  # to travel
        adapted = any(not parameter.requires_grad for parameter in self.model.parameters())
        return not (large or adapted or self._hooked())

    def score_together(self, rows: TensorDict, reading: Reading, decoding: Decoding) -> Tensor:
        """A readout without gradient, of which each rank has some rows."""
        columns = self._columns(rows, decoding)

        def split(some: TensorDict, tokens: int | None) -> Iterator[TensorDict]:
            budget = self._budget() if tokens is None else min(tokens, self._budget())
            return (some[rows] for rows in self._order(some, budget))

        def read_by(model: LanguageModel, some: TensorDict) -> Tensor:
            return model._read(model._scored(some, None), [reading], [True], decoding)[0]

        return score_on_ranks(here(), self, columns, split, read_by)

    def _budget(self) -> int:
        """Tokens that a pass without gradient reads at once."""
        if self.packs:
            return _NO_GRAD_TOKENS
        return min(_NO_GRAD_TOKENS, _NO_GRAD_LOGITS // self._traits.vocabulary)

    def _order(self, columns: TensorDict, budget: int) -> list[Tensor]:
        """Rows in pieces of at most so many tokens."""
        if self.packs:
            return packed_pieces(columns, budget)
        return pieces(columns["response_mask"], budget)

    def _scored(self, columns: TensorDict, weights: Mapping[str, Tensor] | None) -> Scored:
        if weights is not None and torch.is_grad_enabled() and self.engine.checkpointing:
            raise ConfigError(
                "engine.checkpointing computes layers again with the model's own weights: set it "
                "to false for gradients at other weights"
            )
        if self._transformer is None:
            routers = self._routers if weights is None else ()
            return score(self.model, self._traits, columns, weights, routers)
        return score_packed(self._transformer, columns, weights)

    def _read(
        self,
        score_on_ranks: Scored,
        readings: Sequence[Reading],
        differentiable: Sequence[bool],
        decoding: Decoding,
    ) -> list[Tensor]:
        suppressed = self._suppressed_on(score_on_ranks.states.device)
        return read(score_on_ranks, readings, differentiable, decoding, suppressed)

    def _columns(self, batch: TensorDict, decoding: Decoding) -> TensorDict:
        kept = [
            *(["sampling_mask"] if decoding.replays else []),
            *(["routed_experts"] if decoding.keep_routing != "none" else []),
        ]
        name, vocabulary = type(self).__name__, self._traits.vocabulary
        rows = token_rows(name, batch, optional=kept, vocabulary=vocabulary)
        # Rows that no model has sampled are on the CPU.
        return rows if rows["tokens"].device == self.device else rows.to(self.device)

    def _suppressed_on(
        self, device: torch.device, suppressed_tokens: Sequence[int] = ()
    ) -> Tensor | None:
        vocabulary = self._traits.vocabulary
        suppressed = (
            suppressed_token_mask(self.tokenizer, vocabulary, suppressed_tokens, self.stops)
            if suppressed_tokens
            else self._suppressed
        )
        return None if suppressed is None else suppressed.to(device)

    @property
    def device(self) -> torch.device:
        """Where the model's weights are."""
        return torch.device(self.model.device)

    @property
    def version(self) -> int:
        """How many updates the weights have had."""
        return int(self.updates)

    def updated(self) -> None:
        """Count an update of the weights."""
        self.updates += 1

    def weights(self) -> dict[str, Tensor]:
        """The model's trainable parameters by name; tied ones once."""
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
        after it.

        Args:
            prompts: ``P`` lists of token ids; of texts :func:`rlcomp.text.answers.answer_prompts`.
            group_size: responses per prompt; those of prompt 0 come first.
            max_new_tokens: the most tokens of a response, EOS included.
            decoding: the distribution to draw from; the policy's own if not given.
            suppressed_tokens: ids that are not drawn, whatever the model says.
            generator: on the CPU.

        Returns:
            The rows of :meth:`rlcomp.interfaces.policy.Policy.generate`.

        Raises:
            ConfigError: ``group_size`` or ``max_new_tokens`` is below 1, or a prompt is a text.
            DataError: a prompt has no tokens or leaves no room for ``max_new_tokens``.
            NumericalError: the model's output is not finite.
        """
        for name, value in (("group_size", group_size), ("max_new_tokens", max_new_tokens)):
            if value < 1:
                raise ConfigError(f"{name} is {value}: write at least 1")
        self.check_prompts(prompts, max_new_tokens)
        rows = len(prompts) * group_size
        if self.sampler_engine is not None:
            sampled = self._sampled_by(
                self.sampler_engine,
                prompts,
                (group_size, max_new_tokens),
                decoding or self.decoding,
                suppressed_tokens,
                generator,
            )
        else:
            keeps = (decoding or self.decoding).keep_routing == "rollout"
            draw = self._draw(decoding, suppressed_tokens)
            with recorded(routers_of(self.model) if keeps else []) as passes:
                sampled = self._decode(draw)(
                    prompts,
                    group_size=group_size,
                    stop=StopRule(self.stops, [max_new_tokens] * rows),
                    draw=draw,
                    uniforms=Uniforms(rows, generator),
                )
            if keeps:
                routes = routes_of_rows(passes, prompts, sampled.lengths.tolist())
                sampled = replace(sampled, routes=routes)
        return rollout_rows(prompts, sampled, pad=pad_id(self.tokenizer), version=self.version)

    def _sampled_by(
        self,
        engine: SamplerEngine,
        prompts: Sequence[Sequence[int]],
        sizes: tuple[int, int],
        decoding: Decoding,
        suppressed_tokens: Sequence[int],
        generator: torch.Generator,
    ) -> Sampled:
        """Have an engine sample; the generator gives its seed."""
        suppressed = self._suppressed_on(torch.device("cpu"), suppressed_tokens)
        routers = routers_of(self.model) if decoding.keep_routing == "rollout" else []
        request = SamplingRequest(
            prompts=prompts,
            group_size=sizes[0],
            max_new_tokens=sizes[1],
            decoding=decoding,
            stops=self.stops,
            suppressed=[] if suppressed is None else suppressed.nonzero().flatten().tolist(),
            vocabulary=self._traits.vocabulary,
            seed=int(torch.randint(2**62, (), generator=generator)),
            version=self.version,
            routing=routing_shape(routers) if routers else None,
        )
        engine.update(self.version, self.model)
        sampled = engine.generate(request, self.model)
        if routers and sampled.routes is not None:
            check_experts(routers, sampled.routes)
        return sampled

    def session(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        decoding: Decoding | None = None,
        generator: torch.Generator,
        seeds: Sequence[int] | None = None,
    ) -> Session:
        """Generation over turns, a row for each prompt (:class:`rlcomp.engine.session.Session`).

        The first turn of a session gives the tokens of :meth:`generate` with the same generator.

        Args:
            prompts: ``B`` lists of token ids; equal ones are read once.
            decoding: the distribution to draw from; the policy's own if not given.
            generator: on the CPU.
            seeds: one for each row, of whatever it draws; then neither the generator nor other rows
                matter to it.

        Raises:
            ConfigError: a prompt is a text.
            DataError: a prompt has no tokens or leaves no room for one more.
        """
        check_turns(self)
        self.check_prompts(prompts, 1)
        table = token_bytes(self.tokenizer)
        draw = self._draw(decoding, ())
        sampling = Sampling(self.stops, table, draw, generator, seeds)
        if self._transformer is None or self._hooked():
            return Rereading(partial(decode, self.model, self._traits), prompts, sampling)
        longest = self.context_length or _LONGEST
        kind = NativeSession if self._native(draw.decoding) else PackedSession
        return kind(self._transformer, prompts, sampling, longest=longest)

    def seats(self, *, reread: bool = False) -> Seats:
        """Rows that begin and end at any time (:class:`rlcomp.engine.seats.Seats`).

        They are sampled by the policy's own decoding. Where the loop in C++ cannot, rows are read
        again whenever they sample on; the log says so.

        Args:
            reread: whether new weights read again what old ones have read; without the loop in C++
                they always do.

        Raises:
            ConfigError: an engine of others samples, or routes are to be kept.
        """
        if self.sampler_engine is not None or self.decoding.keep_routing == "rollout":
            raise ConfigError(
                "refilled seats are of our own decode loop, which records no routes there: set "
                "sampler_engine=own and decoding.keep_routing=none, or cluster.schedule=fixed"
            )
        draw = self._draw(None, ())
        if self._transformer is None or self._hooked() or not self._native(draw.decoding):
            _LOG.info(
                "rows are read again whenever they sample on: only decoding in C++ keeps them"
            )
            return RereadingSeats(self._decode(draw), self.stops, draw)
        longest = self.context_length or _LONGEST
        return NativeSeats(self._transformer, self.stops, draw, longest=longest, reread=reread)

    def _draw(self, decoding: Decoding | None, suppressed_tokens: Sequence[int]) -> TokenDraw:
        suppressed = self._suppressed_on(self.model.device, suppressed_tokens)
        return TokenDraw(self.decoding if decoding is None else decoding, suppressed)

    def check_prompts(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> None:
        """Refuse prompts that cannot be answered.

        Raises:
            ConfigError: a prompt is a text.
            DataError: one has no tokens, an unknown one, or leaves no room for ``max_new_tokens``.
        """
        if any(isinstance(prompt, str) for prompt in prompts):
            raise ConfigError(
                "generate takes token ids; rlcomp.text.answers.answer_prompts(policy, texts, ...) "
                "encodes texts and decodes the answers"
            )
        if not all(isinstance(prompt, (list, tuple)) for prompt in prompts):
            raise ConfigError("generate takes a list of token ids for each prompt: [[5, 6], [7]]")
        if not prompts or not all(prompts):
            raise DataError("there is nothing to answer: every prompt needs at least one token")
        known = range(self._traits.vocabulary)
        unknown = [one for prompt in prompts for one in prompt if one not in known]
        if unknown:
            raise DataError(
                f"a prompt holds token id {unknown[0]}, but the policy's are 0 to {known[-1]}: "
                "encode it with the policy's own tokenizer"
            )
        lengths, new = [len(prompt) for prompt in prompts], [max_new_tokens] * len(prompts)
        text = self.tokenizer.decode
        check_room(lengths, new, self.context_length, lambda row: str(text(prompts[row])))

    def _decode(self, draw: TokenDraw) -> Callable[..., Sampled]:
        """Our own loop where it can be used: it runs no hooks."""
        if self._transformer is None or self._hooked():
            return partial(decode, self.model, self._traits)
        if self._native(draw.decoding):
            return partial(decode_native.decode, self._transformer)
        loop = GraphLoop if self.device.type == "cuda" else decode_packed.Loop
        return partial(decode_packed.decode, self._transformer, loop=loop)

    def _native(self, decoding: Decoding) -> bool:
        """Whether the loop in C++ samples; the log is told when that changes."""
        why = self.engine.not_native(self._transformer, decoding)
        if self._transformer is not None:
            how = "decoding in C++" if why is None else f"decoding by torch: {why}"
            if how != self._samples_by:
                _LOG.info("%s: %s", self.model.config.model_type, how)
            self._samples_by = how
        return why is None

    def _hooked(self) -> bool:
        return any(has_hooks(part) for part in self.model.modules())
