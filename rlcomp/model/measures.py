"""What is read off the logits of response tokens, under the distribution they are sampled from."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rlcomp.errors import ConfigError
from rlcomp.functional.logprob import entropy, log_distribution, squared_probs
from rlcomp.functional.vocabulary import Measure, taken_log_probs
from rlcomp.generation.sampling import Sampling
from rlcomp.model.scoring import Scored

# From the listed tokens, the distribution, and ids of probability 0 (``[V]``, bool).
Reading = Callable[[Scored, Sampling, "Tensor | None"], Measure]


def log_probs_read(scored: Scored, sampling: Sampling, barred: Tensor | None) -> Measure:
    """Log-prob of each listed token, shape ``[N]``, nats.

    Recorded kept sets replace the filters.

    Raises:
        ConfigError: a greedy policy is asked for a gradient.
    """
    if sampling.temperature == 0 and torch.is_grad_enabled():
        raise ConfigError(
            "sampling.temperature is 0: a greedy policy has no gradient. Train at a "
            "temperature above 0, and hand greedy sampling to whatever evaluates"
        )
    return taken_log_probs(scored.targets, sampling, barred, scored.kept)


def squares_read(scored: Scored, sampling: Sampling, barred: Tensor | None) -> Measure:
    """Sum over the vocabulary of the squared probabilities at each listed token, shape ``[N]``."""

    def value(logits: Tensor, some: slice) -> Tensor:
        kept = None if scored.kept is None else scored.kept[some]
        return squared_probs(logits, scored.targets[some], sampling, barred, kept)

    return Measure(value)


def distribution_read(scored: Scored, sampling: Sampling, barred: Tensor | None) -> Measure:
    """Log-probs of all tokens, shape ``[N, V]``, nats, at the temperature, before any filter."""
    del scored
    return Measure(lambda logits, _: log_distribution(logits, sampling.temperature, barred))


def entropy_read(scored: Scored, sampling: Sampling, barred: Tensor | None) -> Measure:
    """Entropy at each listed token, shape ``[N]``, nats, at the temperature, before any filter."""
    del scored
    return Measure(lambda logits, _: entropy(logits, sampling.temperature, barred))
