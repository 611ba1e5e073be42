"""Worker ranks of a run (above 0): they build the learners and answer the calls of rank 0."""

from __future__ import annotations

import contextlib
import logging
from contextlib import AbstractContextManager
from typing import cast

import torch
from hydra.utils import get_object
from torch import nn

from rlcomp.config.build import Builder
from rlcomp.config.reader import Node
from rlcomp.files.shared_status import SharedStatus
from rlcomp.interfaces.protocols import SharesSteps
from rlcomp.parallel.ranks import Ranks, sharing
from rlcomp.parallel.weights import Parallel
from rlcomp.run.signals import StopRequest


def rank_context(builder: Builder, device: torch.device) -> AbstractContextManager[Ranks | None]:
    """Return a context that yields the ranks of the run; with ``parallel=none``, None."""
    node = builder.plan.nodes.get("parallel")
    if node is None:
        return contextlib.nullcontext()
    return sharing(cast("Parallel", builder.build(node)), device)


def run_worker_rank(ranks: Ranks, builder: Builder, status: SharedStatus) -> None:
    """Build the learners and their models, and join their steps until rank 0 is done.

    Rank 0 answers a signal that all ranks get; a second one ends this rank at once.

    Raises:
        ProcessEnded: rank 0 is gone.
    """
    logging.getLogger("rlcomp").setLevel(logging.ERROR)  # rank 0 logs it
    for node in builder.plan.nodes.values():
        if _shares_steps(node):
            builder.build(node)
    for part in builder.built.values():
        if isinstance(part, nn.Module):
            part.to(ranks.device)
    status.set_position("all", 1, 1, f"rank {ranks.rank}")  # for messages: it follows no phase
    with StopRequest(status).listening():
        ranks.lead(builder.built)


def _shares_steps(node: Node) -> bool:
    target = get_object(node.target)
    return isinstance(target, type) and issubclass(target, SharesSteps)
