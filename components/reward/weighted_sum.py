"""Weighted sum of rewards."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.arguments import NonEmptyText
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError, nearest
from rlcomp.functional.group_statistics import weighted_total
from rlcomp.interfaces.pooled_reward import record_calls_of
from rlcomp.interfaces.reward import name_without_verdict, write_reward
from rlcomp.metrics import record, recording


class WeightedSum(Component):
    """Weighted sum of several rewards, with the parts in ``rewards``.

    ``R = sum_k w_k R_k``, summed in float64; 0 if the parts cancel up to rounding.

    A row is valid only if every part is. Runs its parts, each on a copy of the batch. Writes
    ``reward`` (``[B]`` float32), ``rewards`` (``{part: [B]}``, unweighted), ``correct`` and
    ``reward_valid`` (``[B]`` bool), and ``invalid_reason`` (``[B, W]``) if a part does. Records
    ``reward/<part>`` beside the metrics of the sum.

    Args:
        parts: rewards by name.
        weights: a number for each part.
        correct_by: the part that decides ``correct``; null only with a single part, because a part
            that only shapes (a length, a format) has no verdict.

    Raises:
        ConfigError: there are no parts, the weights have other names, or ``correct_by`` names no
            part.
    """

    reads = ()
    optional = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid")
    may_write = ("invalid_reason",)
    runs = ("parts",)
    contained = True

    def __init__(
        self,
        *,
        parts: dict[str, Component],
        weights: dict[str, float],
        correct_by: NonEmptyText | None = None,
    ) -> None:
        super().__init__()
        _check_names(list(parts), list(weights), correct_by)
        self.parts = nn.ModuleDict(parts)
        self.weights = dict(weights)
        self.correct_by = correct_by

    @property
    def is_free(self) -> bool:
        """True if the deciding part has no verdict."""
        return (
            name_without_verdict(self.parts[self.correct_by or next(iter(self.parts))]) is not None
        )

    def forward(self, batch: TensorDict) -> TensorDict:
        """Run every part and add the rewards."""
        with recording() as ledger:
            results = {name: part(batch.copy()) for name, part in self.parts.items()}
        record_calls_of(ledger)
        rewards = {name: result["reward"] for name, result in results.items()}
        for name, result in results.items():
            record(f"reward/{name}", rewards[name], where=result["reward_valid"])
        total = weighted_total(rewards, self.weights)
        correct = results[self.correct_by or next(iter(results))]["correct"]
        valid = torch.stack([result["reward_valid"] for result in results.values()]).all(0)
        reasons = [result["invalid_reason"] for result in results.values() if _told(result)]
        if reasons:
            batch["invalid_reason"] = _first(reasons)
        return write_reward(batch, total, rewards, correct, valid, decides=not self.is_free)


def _told(result: TensorDict) -> bool:
    return "invalid_reason" in result.keys()


def _first(reasons: list[Tensor]) -> Tensor:
    """Return the first reason of each row."""
    rows = zip(*(decode_texts(each) for each in reasons), strict=True)
    return encode_texts([next(filter(None, row), "") for row in rows]).to(reasons[0].device)


def _check_names(parts: list[str], weights: list[str], correct_by: str | None) -> None:
    if not parts:
        raise ConfigError("WeightedSum: parts is empty: name at least one reward")
    for name in weights:
        if name not in parts:
            raise ConfigError(f"WeightedSum: weights names {name!r}{nearest(name, parts)}")
    for name in parts:
        if name not in weights:
            raise ConfigError(
                f"WeightedSum: the part {name!r} has no weight{nearest(name, weights)}"
            )
    if correct_by is None and len(parts) > 1:
        raise ConfigError(
            "WeightedSum: correct_by is null: set it to what decides what is correct, one of "
            f"the parts: {', '.join(parts)}"
        )
    if correct_by is not None and correct_by not in parts:
        raise ConfigError(f"WeightedSum: correct_by is {correct_by!r}{nearest(correct_by, parts)}")
