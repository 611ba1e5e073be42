"""Which way a metric gets better, where its name tells."""

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
    """The better direction of a metric; empty where neither is (an entropy, a length, a KL).

    The loss of a policy says nothing of how good the policy is; that of demonstrations does.

    Examples:
        >>> better("evaluation/pass@4"), better("rollout/truncated"), better("loss/policy")
        ('higher', 'lower', '')
        >>> better("coverage/6/cot_pass@16"), better("coverage_training/maj@2")
        ('higher', 'higher')
    """
    if _HIGHER.fullmatch(metric):
        return "higher"
    return "lower" if _LOWER.fullmatch(metric) else ""
