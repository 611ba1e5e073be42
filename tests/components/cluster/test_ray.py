"""A Ray cluster with real actors: kills, hangs, ends. Every test has an alarm."""

import contextlib
import os
import time

import pytest
import torch

from components.cluster.ray import RayCluster
from rlcomp.errors import ConfigError
from rlcomp.interfaces.cluster import AsyncSettings, WorkerLost
from rlcomp.run.remote import RemoteStages

from .conftest import Scaled, batch, consumed_once, made_while_one_dies, request

ray = pytest.importorskip("ray", reason="needs rlcomp[ray]")


def ended(process, seconds=20):
    """Whether a process is gone after a while."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@contextlib.contextmanager
def running(**settings):
    made = RayCluster(**{"staleness": 1, "timeout": 60.0} | settings)
    try:
        yield made
    finally:
        made.close()
    assert made.links == []
    assert not ray.is_initialized()


@pytest.mark.slow
def test_weights_of_the_request_a_kill_an_error_a_hang_and_the_end():
    with running() as cluster:
        stage, pids = RemoteStages(stages=[Scaled()], cluster=cluster), []
        for number in range(6):
            if number == 3:
                cluster.links[0].kill()
            found = stage(batch(float(number) + 10))
            pids.append(int(found["pid"][0]))
            asked = max(number - 1, 0)
            assert found["y"].tolist() == [(asked + 10.0) * (asked + 1.0)]
            with torch.no_grad():
                stage.stages[0].weight += 1
        assert len(set(pids)) == 2
        assert os.getpid() not in pids

        stage(batch(3.0))
        with pytest.raises(ConfigError, match="x is 3: set x=2") as told:
            stage(batch(1.0))
        assert "on worker 0 of the cluster" in told.value.__notes__

        start = time.monotonic()
        assert cluster.receive(0, 60.0).rows["y"].tolist() == [7.0]  # asked for before
        cluster.ask(0, cluster.publish([torch.zeros(4, dtype=torch.uint8)]), request(4.0))
        assert cluster.poll(0, 0.0) is None
        with pytest.raises(WorkerLost, match=r"worker 0 has sent nothing for 0.5 s"):
            cluster.receive(0, 0.5)
        with pytest.raises(WorkerLost, match="worker 0 has sent nothing for 60 s"):
            cluster.poll(0, 60.1)
        assert time.monotonic() - start < 20
        cluster.links[0].kill()
        with pytest.raises(WorkerLost, match="worker 0 died"):
            cluster.receive(0, 20.0)
    assert all(ended(process) for process in set(pids))


@pytest.mark.slow
def test_under_schedule_free_a_kill_loses_what_is_in_flight_and_no_prompt():
    with running(schedule="free", free=AsyncSettings(look_every=2)) as cluster:
        found = made_while_one_dies(cluster, lambda cluster: cluster.links[0].kill())

    consumed_once(*found)
