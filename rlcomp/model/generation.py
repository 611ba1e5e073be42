"""Generation by a language model: prompts to responses, sessions of turns, and decode slots."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from rlcomp.engine import decode_native, decode_packed
from rlcomp.engine.decode_graph import GraphLoop
from rlcomp.engine.decode_transformers import decode
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import Sampled, TokenDraw, Uniforms
from rlcomp.engine.routing import check_experts, recorded, routers_of, routes_of_rows, routing_shape
from rlcomp.engine.session import Rereading, Sampling, Session
from rlcomp.engine.session_native import NativeSession
from rlcomp.engine.session_packed import PackedSession
from rlcomp.engine.slots import RereadingSeats, Seats
from rlcomp.engine.slots_native import NativeSeats
from rlcomp.engine.stopping import StopRule
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.sampler_engine import SamplerEngine, SamplingRequest
from rlcomp.model.causal_forward import CausalForward
from rlcomp.model.pretrained import context_limit
from rlcomp.text.rows import check_room
from rlcomp.text.token_bytes import token_bytes

_LOG = logging.getLogger(__name__)
# Tokens of a row of episodes, where the model has no limit.
_LONGEST = 2**15


@dataclass(frozen=True)
class Responses:
    """A request for responses.

    Attributes:
        prompts: lists of token ids.
        group_size: responses per prompt.
        max_new_tokens: limit of a response, EOS included.
        decoding: the distribution to draw from.
        suppressed_tokens: ids that are not drawn, whatever the model's logits are.

    Raises:
        ConfigError: a size is below 1.
    """

    prompts: Sequence[Sequence[int]]
    group_size: int
    max_new_tokens: int
    decoding: Decoding
    suppressed_tokens: Sequence[int] = ()

    def __post_init__(self) -> None:
        """Refuse sizes below 1."""
        for name in ("group_size", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}: write at least 1")


class Generation:
    """Generates with a model, by our own decode loops or by a sampler engine.

    Args:
        forward: the forward pass.
        stops: ids that end a response.
        decoding: of the policy; the log names the loop that samples under it.
    """

    # A copy of the policy gets a copy of this object, which reads the weights of the copy.
    reads_weights = True

    def __init__(self, forward: CausalForward, stops: list[int], decoding: Decoding) -> None:
        self.forward = forward
        self.stops = stops
        self._logged = ""
        self._is_native(decoding)

    def sample(
        self,
        request: Responses,
        version: int,
        generator: torch.Generator,
        engine: SamplerEngine | None,
    ) -> Sampled:
        """Sample responses.

        Args:
            request: prompts and limits.
            version: of the weights.
            generator: on the CPU.
            engine: decodes; None for our own loop.
        """
        if engine is not None:
            return self._sample_by(engine, request, version, generator)
        rows = len(request.prompts) * request.group_size
        keeps = request.decoding.keep_routing == "rollout"
        draw = self.draw(request.decoding, request.suppressed_tokens)
        with recorded(routers_of(self.forward.model) if keeps else []) as passes:
            sampled = self.decode_loop(draw)(
                request.prompts,
                group_size=request.group_size,
                stop=StopRule(self.stops, [request.max_new_tokens] * rows),
                draw=draw,
                uniforms=Uniforms(rows, generator),
            )
        if not keeps:
            return sampled
        routes = routes_of_rows(passes, request.prompts, sampled.lengths.tolist())
        return replace(sampled, routes=routes)

    def _sample_by(
        self,
        engine: SamplerEngine,
        responses: Responses,
        version: int,
        generator: torch.Generator,
    ) -> Sampled:
        """Sample by an engine, which gets these weights first; the generator gives its seed."""
        cpu, model = torch.device("cpu"), self.forward.model
        suppressed = self.forward.suppressed_on(cpu, self.stops, responses.suppressed_tokens)
        routers = routers_of(model) if responses.decoding.keep_routing == "rollout" else []
        request = SamplingRequest(
            prompts=responses.prompts,
            group_size=responses.group_size,
            max_new_tokens=responses.max_new_tokens,
            decoding=responses.decoding,
            stops=self.stops,
            suppressed=[] if suppressed is None else suppressed.nonzero().flatten().tolist(),
            vocabulary=self.forward.signature.vocabulary,
            seed=int(torch.randint(2**62, (), generator=generator)),
            version=version,
            routing=routing_shape(routers) if routers else None,
        )
        engine.update(version, model)
        sampled = engine.generate(request, model)
        if routers and sampled.routes is not None:
            check_experts(routers, sampled.routes)
        return sampled

    def session(
        self,
        prompts: Sequence[Sequence[int]],
        decoding: Decoding,
        generator: torch.Generator,
        seeds: Sequence[int] | None,
    ) -> Session:
        """Return a session: generation over turns, a row for each prompt."""
        table = token_bytes(self.forward.tokenizer)
        draw = self.draw(decoding)
        sampling = Sampling(self.stops, table, draw, generator, seeds)
        transformer = self.forward.transformer
        if transformer is None or self.forward.has_hooks():
            model, signature = self.forward.model, self.forward.signature
            return Rereading(partial(decode, model, signature), prompts, sampling)
        kind = NativeSession if self._is_native(draw.decoding) else PackedSession
        return kind(transformer, prompts, sampling, longest=self._longest())

    def slots(self, decoding: Decoding, *, reread: bool) -> Seats:
        """Return decode slots: rows that begin and end at any time.

        Args:
            decoding: the distribution to draw from.
            reread: whether new weights read again the tokens that old ones have read.
        """
        draw, transformer = self.draw(decoding), self.forward.transformer
        own = transformer is not None and not self.forward.has_hooks()
        if transformer is None or not own or not self._is_native(draw.decoding):
            _LOG.info(
                "rows are read again whenever they sample on: only decoding in C++ keeps them"
            )
            return RereadingSeats(self.decode_loop(draw), self.stops, draw)
        longest = self._longest()
        return NativeSeats(transformer, self.stops, draw, longest=longest, reread=reread)

    def draw(self, decoding: Decoding, suppressed_tokens: Sequence[int] = ()) -> TokenDraw:
        """Return the draw of tokens under a decoding."""
        device = self.forward.model.device
        suppressed = self.forward.suppressed_on(device, self.stops, suppressed_tokens)
        return TokenDraw(decoding, suppressed)

    def decode_loop(self, draw: TokenDraw) -> Callable[..., Sampled]:
        """Return the decode loop: our own, unless the model has hooks or is unknown to it."""
        transformer = self.forward.transformer
        if transformer is None or self.forward.has_hooks():
            return partial(decode, self.forward.model, self.forward.signature)
        if self._is_native(draw.decoding):
            return partial(decode_native.decode, transformer)
        loop = GraphLoop if self.forward.model.device.type == "cuda" else decode_packed.Loop
        return partial(decode_packed.decode, transformer, loop=loop)

    def check_prompts(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> None:
        """Refuse prompts that cannot be answered.

        Raises:
            ConfigError: a prompt is a text.
            DataError: a prompt has no tokens, an unknown one, or leaves no room for
                ``max_new_tokens``.
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
        ids = range(self.forward.signature.vocabulary)
        unknown = [one for prompt in prompts for one in prompt if one not in ids]
        if unknown:
            raise DataError(
                f"a prompt holds token id {unknown[0]}, but the policy's are 0 to {ids[-1]}: "
                "encode it with the policy's own tokenizer"
            )
        lengths, new = [len(prompt) for prompt in prompts], [max_new_tokens] * len(prompts)
        limit, text = context_limit(self.forward.model.config), self.forward.tokenizer.decode
        check_room(lengths, new, limit, lambda row: str(text(prompts[row])))

    def _longest(self) -> int:
        return context_limit(self.forward.model.config) or _LONGEST

    def _is_native(self, decoding: Decoding) -> bool:
        """Return whether the loop in C++ samples; log it when that changes."""
        transformer = self.forward.transformer
        why = self.forward.engine.not_native(transformer, decoding)
        if transformer is not None:
            how = "decoding in C++" if why is None else f"decoding by torch: {why}"
            if how != self._logged:
                _LOG.info("%s: %s", self.forward.model.config.model_type, how)
            self._logged = how
        return why is None
