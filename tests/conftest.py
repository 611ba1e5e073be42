"""What every test shares: one thread, one hypothesis profile, the folder of public data."""

import os
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)

# No deadline: a busy machine is not a bug. No database: a run leaves nothing behind. Fewer than the
# usual number of examples, so that all tests together take a quarter of an hour on two cores.
settings.register_profile("rlcomp", deadline=None, database=None, max_examples=40)
settings.load_profile("rlcomp")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder ``data`` of public data sets: $RLCOMP_SHARED/data, else ../shared/data."""
    root = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("RLCOMP_SHARED", root.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"no public data sets in {folder}: set RLCOMP_SHARED")
    return folder


@pytest.fixture
def rlcomp(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command line in this process: ``rlcomp("recipe=grpo", ...)`` gives the exit code."""
    from hydra.core.global_hydra import GlobalHydra

    from rlcomp.cli import main

    def run(*words: str) -> int:
        GlobalHydra.instance().clear()
        monkeypatch.setattr("sys.argv", ["rlcomp", *words])
        try:
            main()
        except SystemExit as leaving:
            return int(leaving.code or 0)
        return 0

    return run
