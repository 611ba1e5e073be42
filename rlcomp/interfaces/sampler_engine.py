"""Sampling engines: decoders of a policy's responses in place of our own decode loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import SampledResponses

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class SamplingRequest:
    """Request for ``G`` responses to each of ``P`` prompts: all inputs except the weights.

    Attributes:
        prompts: ``P`` lists of token ids, none empty.
        group_size: ``G``.
        max_new_tokens: largest number of tokens of a response, EOS included.
        decoding: the distribution to draw from.
        stops: ids that end a response; the id that ends it is part of the response.
        suppressed: ids that are never drawn: their probability is 0 before any filter.
        vocabulary: size of the vocabulary; all ids are below it.
        seed: seeds all draws, in [0, 2^62).
        version: version of the weights to sample with.
        routing: layers, and experts per token, if the routes are to be recorded; else None.
    """

    prompts: Sequence[Sequence[int]]
    group_size: int
    max_new_tokens: int
    decoding: Decoding
    stops: Sequence[int]
    suppressed: Sequence[int]
    vocabulary: int
    seed: int
    version: int
    routing: tuple[int, int] | None = None


@runtime_checkable
class RemoteEngine(Protocol):
    """A sampling engine in another process, which a run contacts before it starts."""

    def reach(self) -> None:
        """Check that the engine is reachable.

        Raises:
            ConfigError: the engine is not reachable; the message names the address and the remedy.
        """
        ...


class SamplerEngine(Protocol):
    """Sampler in place of our own decode loop (``sampler_engine=``)."""

    def check(self, decoding: Decoding, model: PreTrainedModel) -> None:
        """Refuse a model that the engine cannot sample, or a decoding whose log-probs it lacks.

        Raises:
            ConfigError: the message names the setting and the remedy.
        """
        ...

    def update(self, version: int, model: PreTrainedModel) -> None:
        """Load the weights of a version; called before each request, also after a resume."""
        ...

    def generate(self, request: SamplingRequest, model: PreTrainedModel) -> SampledResponses:
        """Sample ``P * G`` rows, first the rows of prompt 0.

        Log-probs are under the sampling distribution, in nats: at the temperature, over the tokens
        that passed its filters.

        Args:
            request: the samples to draw.
            model: the policy's model, for an engine in this process.

        Raises:
            RlcompError: there is no answer, or an invalid one.
        """
        ...
