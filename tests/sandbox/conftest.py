"""Workers by tier, which the tests of the sandbox share."""

from collections.abc import Callable, Iterator

import pytest

from rlcomp.sandbox.batch import Batch, new_worker


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
