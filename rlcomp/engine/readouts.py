"""What is read off the logits of response tokens, under the distribution they are sampled from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from rlcomp.engine.decoding import Sampling
from rlcomp.engine.logprob import entropy, log_distribution, squared_probs
from rlcomp.engine.output_head import Measure, by_rows, taken_log_probs
from rlcomp.engine.scoring import Scored
from rlcomp.errors import ConfigError

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


def read(
    scored: Scored,
    readings: Sequence[Reading],
    differentiable: Sequence[bool],
    sampling: Sampling,
    barred: Tensor | None,
) -> list[Tensor]:
    """What is read off the logits, each in its place.

    Args:
        scored: the listed tokens.
        readings: what to read.
        differentiable: which of them need a graph, if they can have one.
        sampling: the distribution the tokens are drawn from.
        barred: ids of probability 0, shape ``[V]``, bool; None if there are none.

    Returns:
        A tensor a reading, shape ``[B, T, ...]``, 0 outside the listed tokens.
    """
    measures = [reading(scored, sampling, barred) for reading in readings]
    wanted = [
        replace(measure, differentiable=measure.differentiable and wish)
        for measure, wish in zip(measures, differentiable, strict=True)
    ]
    found = by_rows(wanted, scored.states, scored.rows, scored.head)
    return [scored.spread(values) for values in found]
