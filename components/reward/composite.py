"""Rewards made of other rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.arguments import MinLen, NonEmptyText, NonNegativeFloat
from rlcomp.batch import decode_columns, decode_texts, encode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError, DataError, nearest
from rlcomp.functional.group_statistics import weighted_total
from rlcomp.interfaces.pooled_reward import record_calls
from rlcomp.interfaces.reward import name_without_verdict, shuffle_rewards, write_reward
from rlcomp.metrics import record, recording
from rlcomp.seed import new_generator


class WeightedSum(Component):
    """Weighted sum of several rewards, with the parts in ``rewards``.

    ``R = sum_k w_k R_k``, summed in float64; 0 if the parts cancel up to rounding.

    A row is valid only if all of its parts are valid. Runs its parts, each on a copy of the batch.
    Writes ``reward`` (``[B]`` float32), ``rewards`` (``{part: [B]}``, unweighted), ``correct`` and
    ``reward_valid`` (``[B]`` bool), and ``invalid_reason`` (``[B, W]``) if a part writes it.
    Records ``reward/<part>``, over the rows where the part is valid, the metrics of
    :func:`rlcomp.interfaces.reward.write_reward` for the sum, and of its parts only the metrics of
    calls (:func:`rlcomp.interfaces.pooled_reward.record_calls`).

    Args:
        parts: rewards by name.
        weights: a number for each part.
        correct_by: the part that decides ``correct``; null only with a single part, because a part
            that only shapes (a length, a format) has no verdict.

    Raises:
        ConfigError: there are no parts, the weights have other names, ``correct_by`` names no part,
            or it is null although there are several parts.
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
    def has_verdict(self) -> bool:
        """Return True if the deciding part has a verdict."""
        return name_without_verdict(self.parts[self.correct_by or next(iter(self.parts))]) is None

    def forward(self, batch: TensorDict) -> TensorDict:
        """Run every part and add the rewards."""
        with recording() as ledger:
            results = {name: part(batch.copy()) for name, part in self.parts.items()}
        record_calls(ledger)
        rewards = {name: result["reward"] for name, result in results.items()}
        for name, result in results.items():
            record(f"reward/{name}", rewards[name], where=result["reward_valid"])
        total = weighted_total(rewards, self.weights)
        correct = results[self.correct_by or next(iter(results))]["correct"]
        valid = torch.stack([result["reward_valid"] for result in results.values()]).all(0)
        reasons = [
            result["invalid_reason"]
            for result in results.values()
            if "invalid_reason" in result.keys()
        ]
        if reasons:
            batch["invalid_reason"] = _first_reasons(reasons)
        return write_reward(batch, total, rewards, correct, valid, decides=self.has_verdict)


def _first_reasons(reasons: list[Tensor]) -> Tensor:
    """Return the first reason of each row that is not empty; an empty text without one."""
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
            "WeightedSum: correct_by is null: set it to the part that decides what is correct, "
            f"one of {', '.join(parts)}"
        )
    if correct_by is not None and correct_by not in parts:
        raise ConfigError(f"WeightedSum: correct_by is {correct_by!r}{nearest(correct_by, parts)}")


class RewardByColumn(Component):
    """Rewards by domain: a column of each example names the reward of its rows.

    ``R_i = R_d(i)`` with ``d`` the domain of the row. So one batch may have rule-based, learned
    and generative rewards. The KL penalty of a row has the weight ``kl_weights[d]``.

    The domains keep their scales. An advantage that is normalised over the whole batch
    (``batch_whitened``, ``group_whitened``, GAE's) mixes the scales; ``group_mean_std`` does not.

    Runs the rewards of the domains that occur, each on its rows. Reads ``prompt``, ``response``,
    ``answer`` (``[B, W]`` uint8 texts), ``columns`` and the keys of its rewards. Writes ``reward``
    (``[B]`` float32), ``rewards`` (``{part: [B]}``; NaN if a row's domain has no such part),
    ``correct`` and ``reward_valid`` (``[B]`` bool), ``kl_weight`` (``[B]`` float32) if weights
    are given, and ``invalid_reason`` (``[B, W]``) if a reward writes it. Records
    ``reward/<domain>/mean``, ``reward/<domain>/correct`` (both over valid rows; the second if the
    domain's reward has a verdict), ``reward/<domain>/invalid_fraction``, the metrics of
    :func:`rlcomp.interfaces.reward.write_reward`, and of the rewards only the metrics of calls
    (:func:`rlcomp.interfaces.pooled_reward.record_calls`).

    Args:
        routes: the rewards by domain.
        column: column of the examples with the name of the domain.
        kl_weights: weight of the KL penalty by domain; 1 for other domains. Without a penalty
            (``kl=none``) they have no effect.

    Raises:
        ConfigError: ``kl_weights`` names no domain.
        DataError: (when called) an example has no such column, or it names no domain.
    """

    reads = ("prompt", "response", "answer")
    optional = ("columns", "episode_error")  # a sampler writes columns if an example has any
    writes = ("reward", "rewards", "correct", "reward_valid")
    may_write = ("invalid_reason", "kl_weight")
    runs = ("routes",)
    contained = True
    column_remedy: ClassVar[str] = "write it into the task's data, or set reward.column"
    name = "by_column"

    def __init__(
        self,
        *,
        routes: Annotated[dict[str, Component], MinLen(1)],
        column: NonEmptyText = "verify_with",
        kl_weights: dict[str, NonNegativeFloat] | None = None,
    ) -> None:
        super().__init__()
        for name in kl_weights or {}:
            if name not in routes:
                message = f"RewardByColumn: kl_weights names {name!r}{nearest(name, [*routes])}"
                raise ConfigError(message)
        self.kl_weights = dict(kl_weights or {})
        self.routes = nn.ModuleDict(routes)
        self.column = column
        # Every batch gets ``invalid_reason``, or none does: batches of other domains are joined.
        keys_of_routes = [{*route.writes, *route.may_write} for route in routes.values()]
        self._writes_reasons = any("invalid_reason" in keys for keys in keys_of_routes)

    @property
    def needed_columns(self) -> frozenset[str]:
        """Return the column with the name of the domain."""
        return frozenset({self.column})

    @property
    def has_verdict(self) -> bool:
        """Return True if every domain's reward has a verdict."""
        return all(name_without_verdict(route) is None for route in self.routes.values())

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row by its domain's reward."""
        size, device = batch.shape[0], batch["response"].device
        reward, rewards = torch.zeros(size, device=device), dict[str, torch.Tensor]()
        correct = torch.zeros(size, dtype=torch.bool, device=device)
        valid, reasons = correct.clone(), [""] * size
        kl_weight = torch.ones(size, device=device)
        for domain, rows in self._rows_by_domain(batch).items():
            with recording() as ledger:
                result = self.routes[domain](batch[rows].copy())
            record_calls(ledger)
            judged, kl_weight[rows] = result["reward_valid"], self.kl_weights.get(domain, 1.0)
            reward[rows], correct[rows], valid[rows] = result["reward"], result["correct"], judged
            for name, part in result["rewards"].items():
                rewards.setdefault(name, torch.full((size,), torch.nan, device=device))[rows] = part
            if "invalid_reason" in result.keys():
                for row, why in zip(rows, decode_texts(result["invalid_reason"]), strict=True):
                    reasons[row] = why
            record(f"reward/{domain}/mean", result["reward"], where=judged)
            if name_without_verdict(self.routes[domain]) is None:
                record(f"reward/{domain}/correct", result["correct"].float(), where=judged)
            record(f"reward/{domain}/invalid_fraction", (~judged).float())
        if self.kl_weights:
            batch["kl_weight"] = kl_weight
        if self._writes_reasons:
            batch["invalid_reason"] = encode_texts(reasons).to(device)
        return write_reward(batch, reward, rewards, correct, valid, decides=self.has_verdict)

    def _rows_by_domain(self, batch: TensorDict) -> dict[str, list[int]]:
        """Return the rows of each domain that occurs."""
        rows: dict[str, list[int]] = {}
        for row, columns in enumerate(decode_columns(batch, only=[self.column])):
            if self.column not in columns:
                raise DataError(
                    f"RewardByColumn: row {row} has no column {self.column!r} with the name of its "
                    f"reward ({', '.join(self.routes)}): write it into the data, or set "
                    "reward.column"
                )
            rows.setdefault(self._check_domain(row, columns[self.column]), []).append(row)
        return rows

    def _check_domain(self, row: int, name: object) -> str:
        known: Sequence[str] = [*self.routes]
        if not isinstance(name, str) or name not in known:
            raise DataError(
                f"RewardByColumn: {self.column!r} of row {row} is {name!r:.60}"
                f"{nearest(str(name)[:60], known)}"
            )
        return name


class ShuffledReward(Component):
    """Shuffled rewards (control): a random permutation of another reward over the batch.

    ``reward``, ``rewards`` and ``correct`` are permuted together among valid rows, so that none of
    them carries a signal; give evaluators the inner reward. Runs the inner reward and writes its
    four keys, and ``invalid_reason`` if the inner reward writes it. The metrics are the inner
    reward's.

    Args:
        reward: the reward whose values are permuted.
    """

    reads = ()
    writes = ("reward", "rewards", "correct", "reward_valid")
    may_write = ("invalid_reason",)
    runs = ("reward",)
    contained = True
    name = "shuffled"

    def __init__(self, *, reward: Component) -> None:
        super().__init__()
        self.reward = reward
        self.generator = new_generator()

    @property
    def has_verdict(self) -> bool:
        """Return True if the inner reward has a verdict."""
        return name_without_verdict(self.reward) is None

    def forward(self, batch: TensorDict) -> TensorDict:
        """Run the reward, then permute its values."""
        result = self.reward(batch.copy())
        shuffle_rewards(batch, result, self.generator)
        batch["reward_valid"] = result["reward_valid"]
        if "invalid_reason" in result.keys():
            batch["invalid_reason"] = result["invalid_reason"]
        return batch
