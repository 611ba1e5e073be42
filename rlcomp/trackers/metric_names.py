"""Meaning of metrics by their names: better direction, and rewards shown as accuracies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

Direction = Literal["higher", "lower", ""]

# Held-out accuracies; means of the reward if the reward does not grade answers as correct.
ACCURACIES = ("evaluation/sampled", "evaluation/greedy")
_HELD_OUT_REWARD = "evaluation/reward/"
_HIGHER = re.compile(
    r"evaluation/(sampled|greedy|direct|hypervolume|return(/.+)?|response/.+)"
    r"|\w+/(.+/)?((cot_|g_)?pass|maj)@\d+|\w+/(.+/)?reasoning_given_right"
    r"|reward/(mean|correct)|episode/return"
)
_LOWER = re.compile(r"evaluation/nats|loss/sft|rollout/truncated|\w+/invalid_fraction|time/.+")


def better(metric: str) -> Direction:
    """Return the better direction of a metric; empty if it has none, such as an entropy or a KL.

    A policy loss does not measure how good the policy is; the loss on demonstrations does.

    Examples:
        >>> better("evaluation/pass@4"), better("rollout/truncated"), better("loss/policy")
        ('higher', 'lower', '')
        >>> better("coverage/6/cot_pass@16"), better("coverage_training/maj@2")
        ('higher', 'higher')
    """
    if _HIGHER.fullmatch(metric):
        return "higher"
    return "lower" if _LOWER.fullmatch(metric) else ""


def held_out_rewards(metrics: Iterable[str]) -> dict[str, str]:
    """Return labels of the held-out rewards that replace :data:`ACCURACIES`, by metric.

    Examples:
        >>> held_out_rewards(["evaluation/greedy", "evaluation/reward/length/greedy"])
        {'evaluation/reward/length/greedy': 'length greedy'}
        >>> [*held_out_rewards(["evaluation/reward/a/b/greedy"]).values()]
        ['a/b greedy']
    """
    return {
        name: " ".join(name.removeprefix(_HELD_OUT_REWARD).rsplit("/", 1))
        for name in metrics
        if name.startswith(_HELD_OUT_REWARD)
    }
