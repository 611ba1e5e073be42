"""Rewards by domain: each example names its own verifier."""

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
    """Rewards by domain: of each row the reward that a column of its example names.

    ``R_i = R_d(i)``, with ``d`` the domain of the row: rule-based, learned and generative rewards
    side by side in one batch. The KL penalty of a row weighs ``kl_weights[d]``.

    The domains keep their scales. An advantage that is normalised over the whole batch
    (``batch_whitened``, ``group_whitened``, GAE's) mixes them; ``group_mean_std`` does not.

    Runs the rewards of the domains that occur, each on its rows. Reads ``prompt``, ``response``,
    ``answer`` (``[B, W]`` uint8 texts), ``columns`` and what they read. Writes ``reward``
    (``[B]`` float32), ``rewards`` (``{part: [B]}``; NaN where a row's domain has no such part),
    ``correct`` and ``reward_valid`` (``[B]`` bool), ``kl_weight`` (``[B]`` float32) where weights
    are given, and ``invalid_reason`` (``[B, W]``) where a reward may. Records
    ``reward/<domain>/mean``, ``reward/<domain>/correct`` (both over valid rows),
    ``reward/<domain>/invalid_fraction`` and what
    :func:`rlcomp.interfaces.reward.write_reward` does.

    Args:
        routes: rewards by the name of their domain.
        column: of the examples, a text that names the domain.
        kl_weights: weight of the KL penalty by domain; 1 for those that are not among them. Without
            such a penalty (``kl=none``) they change nothing.

    Raises:
        ConfigError: ``kl_weights`` names no domain.
        DataError: when called: an example has no such column, or it names no domain.
    """

    reads = ("prompt", "response", "answer")
    optional = ("columns", "episode_error")  # a sampler writes them where an example has any
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
                told = f"ByColumn: kl_weights names {name!r}{nearest(name, [*routes])}"
                raise ConfigError(told)
        self.kl_weights = dict(kl_weights or {})
        self.routes = nn.ModuleDict(routes)
        self.column = column
        # Of every batch alike, whichever domains occur in it: batches are joined.
        written = [{*route.writes, *route.may_write} for route in routes.values()]
        self._tells_reasons = any("invalid_reason" in keys for keys in written)

    @property
    def needed_columns(self) -> frozenset[str]:
        """The one that names the domain."""
        return frozenset({self.column})

    @property
    def is_free(self) -> bool:
        """Whether a domain's reward says nothing of right and wrong."""
        return any(name_without_verdict(route) for route in self.routes.values())

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row by its domain's reward."""
        size, device = batch.shape[0], batch["response"].device
        reward, rewards = torch.zeros(size, device=device), dict[str, torch.Tensor]()
        correct = torch.zeros(size, dtype=torch.bool, device=device)
        valid, reasons = correct.clone(), [""] * size
        kl_weight = torch.ones(size, device=device)
        for domain, rows in self._rows(batch).items():
            with recording() as told:
                result = self.routes[domain](batch[rows].copy())
            record_calls_of(told)
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
        """The rows of each domain that occurs."""
        found: dict[str, list[int]] = {}
        for row, columns in enumerate(decode_columns(batch, only=[self.column])):
            if self.column not in columns:
                raise DataError(
                    f"ByColumn: row {row} has no column {self.column!r}, which names its reward "
                    f"({', '.join(self.routes)}): write it into the data, or set reward.column"
                )
            found.setdefault(self._domain(row, columns[self.column]), []).append(row)
        return found

    def _domain(self, row: int, named: object) -> str:
        known: Sequence[str] = [*self.routes]
        if not isinstance(named, str) or named not in known:
            raise DataError(
                f"ByColumn: {self.column!r} of row {row} is {named!r:.60}"
                f"{nearest(str(named)[:60], known)}"
            )
        return named
