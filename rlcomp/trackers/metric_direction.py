"""Better direction of a metric (higher or lower), by its name."""

from __future__ import annotations

import re
from typing import Literal

Direction = Literal["higher", "lower", ""]

_HIGHER = re.compile(
    r"evaluation/(sampled|greedy|direct|hypervolume|return(/.+)?|response/.+)"
    r"|\w+/(.+/)?((cot_|g_)?pass|maj)@\d+|\w+/(.+/)?reasoning_given_right"
    r"|reward/(mean|correct)|episode/return"
)
_LOWER = re.compile(r"evaluation/nats|loss/sft|rollout/truncated|\w+/invalid_fraction|time/.+")


def better(metric: str) -> Direction:
    """Return the better direction of a metric; empty for an entropy, a length or a KL.

    The loss of a policy does not measure how good it is; the loss on demonstrations does.

    Examples:
        >>> better("evaluation/pass@4"), better("rollout/truncated"), better("loss/policy")
        ('higher', 'lower', '')
        >>> better("coverage/6/cot_pass@16"), better("coverage_training/maj@2")
        ('higher', 'higher')
    """
    if _HIGHER.fullmatch(metric):
        return "higher"
    return "lower" if _LOWER.fullmatch(metric) else ""
