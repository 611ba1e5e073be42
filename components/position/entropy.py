"""RPT's entropy filter of positions, by a proxy model."""

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
    """RPT's entropy filter: positions of high next-token entropy under a proxy model.

    Args:
        proxy: a causal language model with the tokenizer of the policy; it is not trained.
        top_k: number of most likely tokens in the entropy.
        threshold: least entropy of a position, nats. Null: ``top_share`` decides.
        top_share: share of the positions of all texts to take, by entropy; ties with the last one
            are included. Null: ``threshold`` decides.
        renormalise: whether the probabilities of the ``top_k`` are scaled to sum 1.
        min_context: least number of tokens before a position.
        device: device of the proxy while it reads the texts: ``auto``, ``cpu`` or ``cuda``;
            afterwards it moves back.

    Raises:
        ConfigError: both or neither of ``threshold`` and ``top_share`` are given, or (in
            :meth:`spans`) the proxy has another tokenizer.
        DataError: (in :meth:`spans`) a text is longer than the proxy's context.

    Source:
        RPT, arXiv:2506.08007: top 16, and thresholds of 0.5, 1.0 and 1.5 for its easy, medium and
        hard positions. The paper does not give the rest; our default is 1.0, renormalised.
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
        """Return spans from a position to the end of the first token that completes a character."""
        entropies = next_token_entropies(
            self.proxy,
            [document.ids for document in documents],
            top_k=self.top_k,
            renormalise=self.renormalise,
            device=device_of(self.device),
        )
        candidates = [
            [
                (span, float(entropy[index]))
                for index, span in token_spans(document, self.min_context).items()
            ]
            for entropy, document in zip(entropies, documents, strict=True)
        ]
        least = self._least([entropy for spans in candidates for _, entropy in spans])
        return [[span for span, entropy in spans if entropy >= least] for spans in candidates]

    def _least(self, entropies: list[float]) -> float:
        """Return the entropy threshold."""
        if self.threshold is not None:
            return math.nextafter(self.threshold, math.inf)
        # The product of share and count may miss a whole number by a rounding error.
        count = math.ceil((self.top_share or 0.0) * len(entropies) - 1e-9)
        return sorted(entropies, reverse=True)[count - 1] if count else math.inf
