"""Base class of collectors of text rollouts: the keys of a rollout."""

from __future__ import annotations

from typing import ClassVar

from rlcomp.component import Component
from rlcomp.keys import Key


class Collector(Component):
    """Base class of collectors: prompts in, a new batch of rollouts out.

    A collector that writes more quotes the list: ``writes = (*Collector.writes, "greedy")``. What
    belongs to a prompt (``per_prompt`` in its :class:`rlcomp.keys.Spec`) is handed on to each of
    its rows by :func:`rlcomp.batch.keep_prompt`.
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
