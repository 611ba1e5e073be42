"""The command line as one of several ranks: what rank 0 alone says and writes."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from rlcomp.cli.guard import check_alone
from rlcomp.errors import RlcompWarning, UserError
from rlcomp.parallel.world import world
from rlcomp.wiring.plan import Plan


@contextmanager
def as_a_rank(*, multirun: bool) -> Iterator[None]:
    """Context in which ranks above 0 write into a folder of their own, which is gone behind it.

    Raises:
        UserError: there are several ranks, and a sweep.
    """
    rank, size = world()
    if size > 1 and multirun:
        raise UserError(
            f"-m in one of {size} processes: each would start the whole sweep; start the jobs one "
            "by one, each by torchrun, or the sweep without it"
        )
    if not rank:
        yield
        return
    warnings.filterwarnings("ignore", category=RlcompWarning)  # rank 0 has said it
    with tempfile.TemporaryDirectory(prefix="rlcomp-rank-") as folder:
        sys.argv = [*sys.argv, f"hydra.run.dir={folder}", "hydra.output_subdir=null"]
        yield


def leads() -> bool:
    """Whether this is rank 0, or the only one."""
    return world()[0] == 0


def check_shared(plan: Plan) -> None:
    """Refuse several processes where nothing says how they share the run; warn of one that would.

    Raises:
        UserError: says what to add.
    """
    if "parallel" not in plan.nodes:
        check_alone(os.environ)
    elif "WORLD_SIZE" not in os.environ:
        warnings.warn(
            "parallel: torchrun did not start this process, so that it is the only rank and shares "
            "with nobody: torchrun --standalone --nproc-per-node 2 -m rlcomp ..., or parallel=none",
            RlcompWarning,
            stacklevel=2,
        )
