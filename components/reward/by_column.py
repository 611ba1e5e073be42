"""Rewards by domain, named by each example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import torch
from tensordict import TensorDict
from torch import nn

from rlcomp.arguments import MinLen, NonEmptyText, NonNegativeFloat
from rlcomp.batch import decode_columns, decode_texts, encode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError, DataError, nearest
from rlcomp.interfaces.pooled_reward import record_calls_of
from rlcomp.interfaces.reward import name_without_verdict, write_reward
from rlcomp.metrics import record, recording


class ByColumn(Component):
    """Rewards by domain: a column of each example names the reward of its rows.

    ``R_i = R_d(i)`` with ``d`` the domain of the row. So one batch may have rule-based, learned
    and generative rewards. The KL penalty of a row has the weight ``kl_weights[d]``.

    The domains keep their scales. An advantage that is normalised over the whole batch
    (``batch_whitened``, ``group_whitened``, GAE's) mixes the scales; ``group_mean_std`` does not.

    Runs the rewards of the domains that occur, each on its rows. Reads ``prompt``, ``response``,
    ``answer`` (``[B, W]`` uint8 texts), ``columns`` and what they read. Writes ``reward``
    (``[B]`` float32), ``rewards`` (``{part: [B]}``; NaN if a row's domain has no such part),
    ``correct`` and ``reward_valid`` (``[B]`` bool), ``kl_weight`` (``[B]`` float32) if weights
    are given, and ``invalid_reason`` (``[B, W]``) if a reward may write it. Records
    ``reward/<domain>/mean``, ``reward/<domain>/correct`` (both over valid rows),
    ``reward/<domain>/invalid_fraction`` and the metrics of
    :func:`rlcomp.interfaces.reward.write_reward`.

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
                message = f"ByColumn: kl_weights names {name!r}{nearest(name, [*routes])}"
                raise ConfigError(message)
        self.kl_weights = dict(kl_weights or {})
        self.routes = nn.ModuleDict(routes)
        self.column = column
        # The same for all batches, because batches of other domains are joined.
        keys_of_routes = [{*route.writes, *route.may_write} for route in routes.values()]
        self._tells_reasons = any("invalid_reason" in keys for keys in keys_of_routes)

    @property
    def needed_columns(self) -> frozenset[str]:
        """The column with the name of the domain."""
        return frozenset({self.column})

    @property
    def is_free(self) -> bool:
        """True if a domain's reward has no verdict."""
        return any(name_without_verdict(route) for route in self.routes.values())

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row by its domain's reward."""
        size, device = batch.shape[0], batch["response"].device
        reward, rewards = torch.zeros(size, device=device), dict[str, torch.Tensor]()
        correct = torch.zeros(size, dtype=torch.bool, device=device)
        valid, reasons = correct.clone(), [""] * size
        kl_weight = torch.ones(size, device=device)
        for domain, rows in self._rows(batch).items():
            with recording() as ledger:
                result = self.routes[domain](batch[rows].copy())
            record_calls_of(ledger)
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
        if self._tells_reasons:
            batch["invalid_reason"] = encode_texts(reasons).to(device)
        return write_reward(batch, reward, rewards, correct, valid, decides=not self.is_free)

    def _rows(self, batch: TensorDict) -> dict[str, list[int]]:
        """Return the rows of each domain that occurs."""
        rows: dict[str, list[int]] = {}
        for row, columns in enumerate(decode_columns(batch, only=[self.column])):
            if self.column not in columns:
                raise DataError(
                    f"ByColumn: row {row} has no column {self.column!r}, which names its reward "
                    f"({', '.join(self.routes)}): write it into the data, or set reward.column"
                )
            rows.setdefault(self._domain(row, columns[self.column]), []).append(row)
        return rows

    def _domain(self, row: int, named: object) -> str:
        known: Sequence[str] = [*self.routes]
        if not isinstance(named, str) or named not in known:
            raise DataError(
                f"ByColumn: {self.column!r} of row {row} is {named!r:.60}"
                f"{nearest(str(named)[:60], known)}"
            )
        return named
