"""Base class of collectors of text rollouts: the keys of a rollout."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.keys import Key
from rlcomp.seed import next_request


class Collector(Component):
    """Base class of collectors: prompts in, a new batch of rollouts out.

    A collector that writes more keys quotes the list: ``writes = (*Collector.writes, "greedy")``.
    :func:`rlcomp.batch.keep_prompt` copies the entries of a prompt (``per_prompt`` in its
    :class:`rlcomp.keys.Spec`) to each of its rows.

    Each call is a request: its draws from the collector's generators depend only on their seed and
    on its number (:func:`rlcomp.seed.next_request`).

    Class attributes:
        splits: True if the rows of a prompt stay the same when a batch is divided among several
        collectors: they draw one number for each row (:func:`rlcomp.engine.draw.uniform`), with
            equally many rows for each prompt.
        refills: True if a worker may sample its rows by refilled seats
            (:class:`rlcomp.interfaces.cluster.RefillsSeats`).
    """

    reads: ClassVar[tuple[Key, ...]] = ("prompt",)
    optional: ClassVar[tuple[Key, ...]] = ("policy_prompt",)
    writes: ClassVar[tuple[Key, ...]] = (
        "tokens",
        "attention_mask",
        "response_mask",
        "rollout_log_probs",
        "group_id",
        "truncated",
        "prompt",
        "response",
        "policy_version",
    )
    may_write = ("sampling_mask", "routed_experts")
    fresh = True
    keeps_prompt = True
    splits: ClassVar[bool] = False
    refills: ClassVar[bool] = False

    def __call__(self, batch: TensorDict | None = None) -> TensorDict:
        """Roll out, and seed the generators for the next request."""
        rows = super().__call__(batch)
        for value in vars(self).values():
            if isinstance(value, torch.Generator):
                next_request(value)
        return rows
