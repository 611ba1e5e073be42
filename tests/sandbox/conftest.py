"""Sandboxes that tests share, and the skip where this machine has none."""

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from rlcomp.sandbox.batch import Batch, new_worker
from rlcomp.sandbox.sandbox import Sandbox
from rlcomp.sandbox.tier import lacks


def namespaces_can_be_made() -> bool:
    """Whether another program can make them here, so that the sandbox has to."""
    words = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--net", "true"]
    try:
        return subprocess.run(words, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture(scope="session")
def needs() -> Callable[[str], None]:
    """``needs(tier)`` skips where it is not to be had, as in a container without namespaces."""

    def skip(tier: str) -> None:
        if reason := lacks(tier):
            assert not namespaces_can_be_made(), f"no {tier}: {reason}"
            pytest.skip(f"no sandbox of tier {tier}: {reason}")

    return skip


@pytest.fixture(scope="session")
def sandbox(needs: Callable[[str], None]) -> Iterator[Sandbox]:
    """A sandbox of tier strict."""
    needs("strict")
    with Sandbox(workers=2) as made:
        yield made


@pytest.fixture(scope="session")
def run_in(needs: Callable[[str], None]) -> Iterator[Callable]:
    """``run_in(tier, job)`` gives the outcome, in a worker that all tests of a tier share."""
    workers = {}

    def run(tier, job):
        if tier not in workers:
            needs(tier)
            workers[tier] = [new_worker(tier)]
        return Batch(workers[tier], tier, [job]).run()[job]

    yield run
    for (worker,) in workers.values():
        worker.close()


def descendants(root: int | None = None) -> list[int]:
    """Processes of which this one (or another) is the parent, or their parents are."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                parents[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
    found, unseen = [], {root or os.getpid()}
    while unseen:
        unseen = {child for child, parent in parents.items() if parent in unseen}
        found += unseen
    return sorted(found)


@pytest.fixture(scope="session")
def processes() -> Callable[..., list[int]]:
    """``processes()`` lists all descendants of this process, ``processes(42)`` those of another."""
    return descendants
