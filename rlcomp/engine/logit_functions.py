"""Functions of logits: log-probs, squared probabilities, distributions, entropy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.logprob import entropy, log_distribution, squared_probs
from rlcomp.engine.output_head import LogitFunction, compute_in_tiles, sampled_log_probs
from rlcomp.engine.scoring import ScoredTokens
from rlcomp.errors import ConfigError

# Makes a logit function from the listed tokens, the distribution, and ids of probability 0
# (``[V]``, bool).
LogitFunctionOf = Callable[[ScoredTokens, Decoding, "Tensor | None"], LogitFunction]


def log_probs_of(
    scored: ScoredTokens, decoding: Decoding, suppressed: Tensor | None
) -> LogitFunction:
    """Return the logit function for the log-prob of each listed token, ``[N]``, nats.

    Recorded sampling masks replace the filters.

    Raises:
        ConfigError: a gradient of a greedy policy is requested.
    """
    if decoding.temperature == 0 and torch.is_grad_enabled():
        raise ConfigError(
            "decoding.temperature is 0: a greedy policy has no gradient. Train at a "
            "temperature above 0, and hand greedy sampling to whatever evaluates"
        )
    return sampled_log_probs(scored.targets, decoding, suppressed, scored.sampling_mask)


def squared_probs_of(
    scored: ScoredTokens, decoding: Decoding, suppressed: Tensor | None
) -> LogitFunction:
    """Return the logit function for ``sum_v p_v^2`` at each listed token, ``[N]``."""

    def value(logits: Tensor, some: slice) -> Tensor:
        masks = None if scored.sampling_mask is None else scored.sampling_mask[some]
        return squared_probs(logits, scored.targets[some], decoding, suppressed, masks)

    return LogitFunction(value)


def distribution_of(
    scored: ScoredTokens, decoding: Decoding, suppressed: Tensor | None
) -> LogitFunction:
    """Return the logit function for all log-probs, ``[N, V]``, nats, before any filter."""
    del scored
    return LogitFunction(
        lambda logits, _: log_distribution(logits, decoding.temperature, suppressed)
    )


def entropy_of(
    scored: ScoredTokens, decoding: Decoding, suppressed: Tensor | None
) -> LogitFunction:
    """Return the logit function for the entropy at each token, ``[N]``, nats, before any filter."""
    del scored
    return LogitFunction(lambda logits, _: entropy(logits, decoding.temperature, suppressed))


def compute_logit_functions(
    scored: ScoredTokens,
    makers: Sequence[LogitFunctionOf],
    differentiable: Sequence[bool],
    decoding: Decoding,
    suppressed: Tensor | None,
) -> list[Tensor]:
    """Compute logit functions of listed tokens and place their values in the batch.

    Args:
        scored: the listed tokens.
        makers: makers of the logit functions, such as :func:`log_probs_of`.
        differentiable: whether each function needs a graph, if it can have one.
        decoding: the distribution the tokens are drawn from.
        suppressed: ids of probability 0, shape ``[V]``, bool; None if there are none.

    Returns:
        One tensor per function, shape ``[B, T, ...]``, 0 outside the listed tokens.
    """
    functions = [make(scored, decoding, suppressed) for make in makers]
    functions = [
        replace(function, differentiable=function.differentiable and wanted)
        for function, wanted in zip(functions, differentiable, strict=True)
    ]
    listed = compute_in_tiles(functions, scored.states, scored.rows, scored.head)
    return [scored.scatter(values) for values in listed]
