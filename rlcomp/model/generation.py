"""Generation by a language model: responses, sessions of turns, and decode slots."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from rlcomp.engine import decode_native, decode_packed
from rlcomp.engine.decode_graph import GraphDecodeLoop
from rlcomp.engine.decode_transformers import decode
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import SampledResponses, TokenDraw
from rlcomp.engine.routing import (
    check_experts,
    record_routes,
    routers_of,
    routes_of_rows,
    routing_shape,
)
from rlcomp.engine.session import (
    DecodeSlots,
    RecomputeSession,
    RecomputeSlots,
    SamplingParams,
    SamplingSession,
)
from rlcomp.engine.session_native import NativeSession, NativeSlots
from rlcomp.engine.session_packed import PackedSession
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.uniforms import Uniforms
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.sampler_engine import SamplerEngine, SamplingRequest
from rlcomp.model.causal_forward import CausalForward
from rlcomp.model.pretrained import context_limit
from rlcomp.text.rows import check_room
from rlcomp.text.token_bytes import token_bytes

_LOG = logging.getLogger(__name__)
# Most tokens of a row of a session, for a model without a context limit.
_LONGEST = 2**15


@dataclass(frozen=True)
class GenerationRequest:
    """Request for responses to prompts.

    Attributes:
        prompts: lists of token ids.
        group_size: responses per prompt.
        max_new_tokens: maximum number of tokens of a response, EOS included.
        decoding: the distribution to draw from.
        suppressed_tokens: ids that are never drawn.

    Raises:
        ConfigError: a size is below 1.
    """

    prompts: Sequence[Sequence[int]]
    group_size: int
    max_new_tokens: int
    decoding: Decoding
    suppressed_tokens: Sequence[int] = ()

    def __post_init__(self) -> None:
        """Check that the sizes are at least 1."""
        for name in ("group_size", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}: set it to at least 1")


class Generation:
    """Generation with a model, by rlcomp's own decode loops or by a sampler engine.

    Args:
        forward: the forward pass.
        stops: ids that end a response.
        decoding: the policy's decoding; the log names the decode loop for it.
    """

    # rlcomp.parallel.sharded reads this flag: a copy of the policy needs a copy of this object.
    reads_weights = True

    def __init__(self, forward: CausalForward, stops: list[int], decoding: Decoding) -> None:
        self.forward = forward
        self.stops = stops
        self._logged = ""
        self._is_native(decoding)  # logs the decode loop at construction

    def sample(
        self,
        request: GenerationRequest,
        version: int,
        generator: torch.Generator,
        engine: SamplerEngine | None,
    ) -> SampledResponses:
        """Sample responses.

        Args:
            request: prompts and limits.
            version: version of the weights.
            generator: random generator on the CPU.
            engine: the sampler engine; None for rlcomp's own decode loop.
        """
        if engine is not None:
            return self._sample_with_engine(engine, request, version, generator)
        rows = len(request.prompts) * request.group_size
        records_routes = request.decoding.keep_routing == "rollout"
        draw = self.draw(request.decoding, request.suppressed_tokens)
        with record_routes(routers_of(self.forward.model) if records_routes else []) as passes:
            sampled = self.decode_loop(draw)(
                request.prompts,
                group_size=request.group_size,
                stop=StopRule(self.stops, [request.max_new_tokens] * rows),
                draw=draw,
                uniforms=Uniforms(rows, generator),
            )
        if not records_routes:
            return sampled
        routes = routes_of_rows(passes, request.prompts, sampled.lengths.tolist())
        return replace(sampled, routes=routes)

    def _sample_with_engine(
        self,
        engine: SamplerEngine,
        responses: GenerationRequest,
        version: int,
        generator: torch.Generator,
    ) -> SampledResponses:
        """Update the weights of a sampler engine and sample with it.

        ``responses`` is the request of :meth:`sample`; the engine gets a request of its own form.
        """
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
    ) -> SamplingSession:
        """Return a session of turns with one row per prompt.

        Arguments are those of :meth:`rlcomp.interfaces.policy.SupportsAgentCalls.session`.
        """
        table = token_bytes(self.forward.tokenizer)
        draw = self.draw(decoding)
        sampling = SamplingParams(self.stops, table, draw, generator, seeds)
        transformer = self.forward.transformer
        if transformer is None or self.forward.has_hooks():
            model, signature = self.forward.model, self.forward.signature
            return RecomputeSession(partial(decode, model, signature), prompts, sampling)
        session_type = NativeSession if self._is_native(draw.decoding) else PackedSession
        return session_type(transformer, prompts, sampling, longest=self._longest())

    def slots(self, decoding: Decoding, *, reread: bool) -> DecodeSlots:
        """Return decode slots for rows that begin and end at any time.

        Args:
            decoding: the distribution to draw from.
            reread: whether the KV cache is computed again after a change of the weights. Slots
                without a KV cache compute every context again in any case.
        """
        draw, transformer = self.draw(decoding), self.forward.transformer
        if transformer is None or self.forward.has_hooks() or not self._is_native(draw.decoding):
            _LOG.info(
                "decode slots compute every context again: only the native library's slots have a "
                "KV cache"
            )
            return RecomputeSlots(self.decode_loop(draw), self.stops, draw)
        longest = self._longest()
        return NativeSlots(transformer, self.stops, draw, longest=longest, reread=reread)

    def draw(self, decoding: Decoding, suppressed_tokens: Sequence[int] = ()) -> TokenDraw:
        """Return the draw of tokens for a decoding distribution."""
        device = self.forward.model.device
        suppressed = self.forward.suppressed_on(device, self.stops, suppressed_tokens)
        return TokenDraw(decoding, suppressed)

    def decode_loop(self, draw: TokenDraw) -> Callable[..., SampledResponses]:
        """Return the decode loop.

        It is transformers' forward pass if the model has hooks or is not supported, otherwise the
        native library, or packed torch code (as a CUDA graph on a GPU) where the native library
        cannot decode.
        """
        transformer = self.forward.transformer
        if transformer is None or self.forward.has_hooks():
            return partial(decode, self.forward.model, self.forward.signature)
        if self._is_native(draw.decoding):
            return partial(decode_native.decode, transformer)
        loop = (
            GraphDecodeLoop
            if self.forward.model.device.type == "cuda"
            else decode_packed.DecodeLoop
        )
        return partial(decode_packed.decode, transformer, loop=loop)

    def check_prompts(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> None:
        """Check that the model can answer prompts.

        Raises:
            ConfigError: a prompt is not a list of token ids.
            DataError: there are no prompts, or a prompt has no tokens, an id outside the
                vocabulary, or no room for ``max_new_tokens`` in the context.
        """
        if any(isinstance(prompt, str) for prompt in prompts):
            raise ConfigError(
                "generate takes token ids; rlcomp.text.answers.answer_prompts(policy, texts, ...) "
                "encodes texts and decodes the answers"
            )
        if not all(isinstance(prompt, (list, tuple)) for prompt in prompts):
            raise ConfigError("generate takes a list of token ids for each prompt: [[5, 6], [7]]")
        if not prompts or not all(prompts):
            raise DataError(
                "there are no prompts, or a prompt has no tokens: give every prompt at least one "
                "token id"
            )
        ids = range(self.forward.signature.vocabulary)
        unknown = [token for prompt in prompts for token in prompt if token not in ids]
        if unknown:
            raise DataError(
                f"a prompt has token id {unknown[0]}, outside the policy's 0 to {ids[-1]}: "
                "encode it with the policy's own tokenizer"
            )
        check_room(
            [len(prompt) for prompt in prompts],
            [max_new_tokens] * len(prompts),
            context_limit(self.forward.model.config),
            lambda row: str(self.forward.tokenizer.decode(prompts[row])),
        )

    def _longest(self) -> int:
        return context_limit(self.forward.model.config) or _LONGEST

    def _is_native(self, decoding: Decoding) -> bool:
        """Return whether the native decode loop samples; log a change of the loop."""
        transformer = self.forward.transformer
        reason = self.forward.engine.why_torch_loop(transformer, decoding)
        if transformer is not None:
            message = "decoding in C++" if reason is None else f"decoding by torch: {reason}"
            if message != self._logged:
                _LOG.info("%s: %s", self.forward.model.config.model_type, message)
            self._logged = message
        return reason is None
