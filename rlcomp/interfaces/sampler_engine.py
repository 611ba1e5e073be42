"""Sampling engines: who decodes a policy's responses, where our own decode loop does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import Sampled

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class SamplingRequest:
    """``G`` responses to each of ``P`` prompts, and all that they depend on beside the weights.

    Attributes:
        prompts: ``P`` lists of token ids, none empty.
        group_size: ``G``.
        max_new_tokens: the most tokens of a response, EOS included.
        decoding: the distribution to draw from.
        stops: ids that end a response; the one that does stands in it.
        suppressed: ids that are never drawn: their probability is 0 before any filter.
        vocabulary: ids are below it.
        seed: of all that is drawn, in [0, 2^62).
        version: of the weights to sample with.
        routing: layers and experts a token, where the routes are to be recorded; None: they are
            not.
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
class Elsewhere(Protocol):
    """An engine in another process, which has to be there before the run."""

    def reach(self) -> None:
        """Find out whether it is.

        Raises:
            ConfigError: it is not; names where it was looked for, and the remedy.
        """
        ...


class SamplerEngine(Protocol):
    """Samples in place of our own decode loop (``sampler_engine=``)."""

    def check(self, decoding: Decoding, model: PreTrainedModel) -> None:
        """Refuse a decoding whose log-probs the engine cannot tell, or a model it cannot take.

        Raises:
            ConfigError: names the setting and the remedy.
        """
        ...

    def update(self, version: int, model: PreTrainedModel) -> None:
        """Take over the weights of a version; called before each request, also after a resume."""
        ...

    def generate(self, request: SamplingRequest, model: PreTrainedModel) -> Sampled:
        """Sample: ``P * G`` rows, those of prompt 0 first.

        Log-probs are those of the distribution that was drawn from, in nats: at the temperature,
        over the tokens that its filters kept.

        Args:
            request: what is sampled.
            model: the policy's, for an engine in this process.

        Raises:
            RlcompError: there is no answer, or one that cannot be right.
        """
        ...
