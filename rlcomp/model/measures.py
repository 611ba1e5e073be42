"""What is read off the logits of response tokens, under the distribution they are sampled from."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rlcomp.errors import ConfigError
from rlcomp.functional.logprob import (
    by_rows,
    entropy,
    log_distribution,
    squared_probs,
    token_log_probs,
)
from rlcomp.generation.sampling import Sampling
from rlcomp.model.scoring import Scored

Measure = Callable[[Scored, Sampling, "Tensor | None"], Tensor]


def measured_log_probs(scored: Scored, sampling: Sampling, barred: Tensor | None) -> Tensor:
    """Log-prob of each listed token, shape ``[N]``, nats.

    Args:
        scored: the listed tokens and their logits.
        sampling: the distribution; recorded kept sets replace its filters.
        barred: shape ``[V]``, bool: ids of probability 0; None for none.

    Raises:
        ConfigError: a greedy policy is asked for a gradient.
    """
    if sampling.temperature == 0 and torch.is_grad_enabled():
        raise ConfigError(
            "sampling.temperature is 0: a greedy policy has no gradient. Train at a "
            "temperature above 0, and hand greedy sampling to whatever evaluates"
        )

    def some_log_probs(logits: Tensor, some: slice) -> Tensor:
        kept = None if scored.kept is None else scored.kept[some]
        return token_log_probs(logits, scored.targets[some], sampling, barred, kept)

    return by_rows(some_log_probs, scored.logits, scored.rows)


def measured_squares(scored: Scored, sampling: Sampling, barred: Tensor | None) -> Tensor:
    """Sum over the vocabulary of the squared probabilities at each listed token, shape ``[N]``."""

    def some_squares(logits: Tensor, some: slice) -> Tensor:
        kept = None if scored.kept is None else scored.kept[some]
        return squared_probs(logits, scored.targets[some], sampling, barred, kept)

    return by_rows(some_squares, scored.logits, scored.rows)


def measured_distribution(scored: Scored, sampling: Sampling, barred: Tensor | None) -> Tensor:
    """Log-probs of all tokens, shape ``[N, V]``, nats, at the temperature, before any filter."""
    logits = scored.logits.index_select(0, scored.rows)
    return log_distribution(logits, sampling.temperature, barred)


def measured_entropy(scored: Scored, sampling: Sampling, barred: Tensor | None) -> Tensor:
    """Entropy at each listed token, shape ``[N]``, nats, at the temperature, before any filter."""

    def some_entropies(logits: Tensor, _: slice) -> Tensor:
        return entropy(logits, sampling.temperature, barred)

    return by_rows(some_entropies, scored.logits, scored.rows)
