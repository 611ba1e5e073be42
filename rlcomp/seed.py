"""Named seeds: the random numbers of a node depend only on the run's seed and the config path.

Functions import torch themselves, since tasks use :func:`named_seed` before any heavy import.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def named_seed(seed: int, path: str) -> int:
    """Return a 63-bit seed for one node of a run.

    Examples:
        >>> named_seed(0, "policy") == named_seed(0, "policy") != named_seed(1, "policy")
        True
    """
    digest = hashlib.sha256(f"{seed}/{path}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def seed_globals(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch."""
    import random

    import numpy as np
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


_NODE: ContextVar[str] = ContextVar("node", default="")


@contextlib.contextmanager
def seeded(seed: int, path: str) -> Iterator[None]:
    """Seed torch's global generators for a node; restore the CPU's when the context ends.

    The generators of GPUs keep the seed of the node.

    Args:
        seed: seed of the run.
        path: config path of the node.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(named_seed(seed, path))
        before = _NODE.set(path)
        try:
            yield
        finally:
            _NODE.reset(before)


def node_path() -> str:
    """Return the config path of the node under construction; empty outside a construction.

    Examples:
        >>> with seeded(0, "reward.judge"):
        ...     node_path()
        'reward.judge'
    """
    return _NODE.get()


def new_generator() -> torch.Generator:
    """Return a new generator on the CPU, seeded for the node under construction.

    All generators of one node begin with the same seed, the last one set by :func:`seeded`.
    """
    import torch

    return torch.Generator().manual_seed(torch.initial_seed())


def next_request(generator: torch.Generator) -> None:
    """Seed a generator for its next request, independently of the draws of this request.

    ``seed_{n+1} = named_seed(seed_n, "request")``. The draws of request ``n`` therefore depend only
    on the first seed and ``n``, and another process can make them before request ``n - 1`` is done.

    Examples:
        >>> import torch
        >>> used, unused = (torch.Generator().manual_seed(1) for _ in range(2))
        >>> _ = torch.rand(7, generator=used)
        >>> next_request(used), next_request(unused)
        (None, None)
        >>> used.initial_seed() == unused.initial_seed() == named_seed(1, "request")
        True
    """
    generator.manual_seed(named_seed(generator.initial_seed(), "request"))
