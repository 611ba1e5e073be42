"""The command line as one of several ranks: only rank 0 prints and writes."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from rlcomp.cli.error_handler import check_single_process
from rlcomp.config.plan import Plan
from rlcomp.errors import RlcompWarning, UserError
from rlcomp.parallel.world import rank_and_size


@contextmanager
def rank_folder(*, multirun: bool) -> Iterator[None]:
    """Give ranks above 0 a folder of their own in a context; delete it at the end.

    Words that are added to ``sys.argv`` tell Hydra the folder. These ranks show no warnings.

    Raises:
        UserError: there are several ranks, and a sweep.
    """
    rank, size = rank_and_size()
    if size > 1 and multirun:
        raise UserError(
            f"-m in one of {size} processes: each would start the whole sweep; start the jobs one "
            "by one, each by torchrun, or the sweep without it"
        )
    if not rank:
        yield
        return
    warnings.filterwarnings("ignore", category=RlcompWarning)  # rank 0 has shown it
    with tempfile.TemporaryDirectory(prefix="rlcomp-rank-") as folder:
        sys.argv = [*sys.argv, f"hydra.run.dir={folder}", "hydra.output_subdir=null"]
        yield


def is_first_rank() -> bool:
    """Return whether this is rank 0, or the only one."""
    return rank_and_size()[0] == 0


def check_rank_settings(plan: Plan) -> None:
    """Check that several processes share a run by a setting; warn of a single process with it.

    Raises:
        UserError: there is no such setting.
    """
    if "parallel" not in plan.nodes:
        check_single_process(os.environ)
    elif "WORLD_SIZE" not in os.environ:
        warnings.warn(
            "parallel: torchrun did not start this process, so that it is the only rank and shares "
            "with nobody: torchrun --standalone --nproc-per-node 2 -m rlcomp ..., or parallel=none",
            RlcompWarning,
            stacklevel=2,
        )
