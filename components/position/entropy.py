"""RPT's entropy filter: tokens of high next-token entropy under a proxy model."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transformers import PreTrainedModel

from rlcomp.arguments import Checked, NonEmptyText, PositiveInt, Probability
from rlcomp.data.positions import Span, Tokenised, token_spans
from rlcomp.errors import ConfigError
from rlcomp.model.next_token import next_token_entropies
from rlcomp.run.launch import device as device_of


class EntropyFilter(metaclass=Checked):
    """RPT's entropy filter: positions where a proxy model's next-token entropy is high.

    Args:
        proxy: a causal language model with the tokenizer of the policy; it is not trained.
        top_k: the entropy is that of so many likeliest tokens.
        threshold: nats; positions of more entropy are taken. Null: ``top_share`` decides.
        top_share: the share of the positions of all texts that is taken, those of most entropy, and
            all that are equal to the last of them. Null: ``threshold`` decides.
        renormalise: whether the probabilities of the ``top_k`` are made to sum to 1.
        min_context: tokens of the text before a position.
        device: where the proxy reads the texts: ``auto``, ``cpu`` or ``cuda``; afterwards it is
            back where it was.

    Raises:
        ConfigError: both or neither of ``threshold`` and ``top_share`` are given; when asked for
            positions: the proxy has another tokenizer.
        DataError: when asked for positions: a text is longer than the proxy's context.

    Source:
        RPT, arXiv:2506.08007: top 16, and thresholds of 0.5, 1.0 and 1.5 for its easy, medium and
        hard positions. The rest is not said there; our default is 1.0, renormalised.
    """

    def __init__(
        self,
        *,
        proxy: PreTrainedModel,
        top_k: PositiveInt = 16,
        threshold: float | None = 1.0,
        top_share: Probability | None = None,
        renormalise: bool = True,
        min_context: PositiveInt = 16,
        device: NonEmptyText = "auto",
    ) -> None:
        if (threshold is None) == (top_share is None):
            raise ConfigError(
                f"EntropyFilter: threshold is {threshold} and top_share {top_share}: give one of "
                "them, and null for the other"
            )
        self.proxy = proxy
        self.top_k = top_k
        self.threshold = threshold
        self.top_share = top_share
        self.renormalise = renormalise
        self.min_context = min_context
        self.device = device

    def spans(self, documents: Sequence[Tokenised]) -> list[list[Span]]:
        """Spans from a position to the end of the first token that completes a character."""
        entropies = next_token_entropies(
            self.proxy,
            [document.ids for document in documents],
            top_k=self.top_k,
            renormalise=self.renormalise,
            device=device_of(self.device),
        )
        found = [
            [
                (span, float(entropy[index]))
                for index, span in token_spans(document, self.min_context).items()
            ]
            for entropy, document in zip(entropies, documents, strict=True)
        ]
        least = self._least([entropy for spans in found for _, entropy in spans])
        return [[span for span, entropy in spans if entropy >= least] for spans in found]

    def _least(self, entropies: list[float]) -> float:
        """The entropy threshold."""
        if self.threshold is not None:
            return math.nextafter(self.threshold, math.inf)
        # The product of a share and a count may miss a whole number by a rounding error.
        count = math.ceil((self.top_share or 0.0) * len(entropies) - 1e-9)
        return sorted(entropies, reverse=True)[count - 1] if count else math.inf
