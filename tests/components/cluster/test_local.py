"""A local cluster with real processes: kills, hangs, ends. Every test has an alarm."""

import contextlib
import multiprocessing
import os
import pickle
import queue
import signal
import subprocess
import sys
import time

import pytest
import torch

from components.cluster import local
from components.cluster.local import LocalCluster
from rlcomp.cluster import worker_client as link_module
from rlcomp.cluster.serialization import SerializedStages
from rlcomp.cluster.worker_client import ReplyReader, WorkerClient
from rlcomp.errors import ConfigError
from rlcomp.interfaces.cluster import AsyncSettings, PromptRange, WorkerLost
from rlcomp.run.remote import RemoteStages

from .conftest import Scaled, batch, consumed_once, made_while_one_dies, request


def remote(**settings):
    cluster = LocalCluster(**{"staleness": 1, "timeout": 20.0} | settings)
    return RemoteStages(stages=[Scaled()], cluster=cluster), cluster


@contextlib.contextmanager
def running(**settings):
    stage, cluster = remote(**settings)
    try:
        yield stage, cluster
    finally:
        cluster.close()


def alive(process):
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(process, 0)
        return True
    return False


@pytest.mark.slow
def test_weights_of_the_request_a_kill_an_error_a_hang_and_the_end():
    # One after the other, because a process needs seconds to import torch.
    with running() as (stage, cluster):
        pids = []
        for number in range(6):
            if number == 3:
                os.kill(cluster.links[0].process.pid, signal.SIGKILL)
            found = stage(batch(float(number) + 10))
            pids.append(int(found["pid"][0]))
            # Asked one step ago, with the weights of that step: 1 + the number of that step.
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

        cluster.ask(0, 0, request(4.0))
        start = time.monotonic()
        assert cluster.receive(0, 60.0).rows["y"].tolist() == [7.0]  # asked for before
        with pytest.raises(WorkerLost, match=r"worker 0 has sent nothing for 0.5 s"):
            cluster.receive(0, 0.5)
        assert time.monotonic() - start < 20
        process = cluster.links[0].process
    assert process.exitcode == -signal.SIGKILL
    assert not alive(process.pid)
    cluster.close()  # once more changes nothing


@pytest.mark.slow
def test_under_schedule_free_a_kill_loses_what_is_in_flight_and_no_prompt():
    cluster = LocalCluster(
        schedule="free", staleness=1, timeout=60.0, free=AsyncSettings(look_every=2)
    )
    try:
        found = made_while_one_dies(cluster, kill)
        process = cluster.links[0].process
    finally:
        cluster.close()
    consumed_once(*found)
    assert not alive(process.pid)


def kill(cluster):
    os.kill(cluster.links[0].process.pid, signal.SIGKILL)


class Kept(list):
    """A link's inbox, or what it was sent."""

    send = list.append

    def get_nowait(self):
        if not self:
            raise queue.Empty
        return self.pop(0)


class Ended:
    """A process that was killed: how it ended is known once it was waited for."""

    exitcode = None

    def join(self, seconds):
        self.exitcode = -9


@pytest.fixture
def link():
    """Without a process."""
    made = object.__new__(WorkerClient)
    ReplyReader.__init__(made, 2, Kept())
    made.process = Ended()
    return made


def test_a_process_that_is_gone_is_told_with_how_it_ended(link):
    link.inbox += [("reply", "made"), link_module._CLOSED]

    assert link.poll(0.0, 5.0) == "made"
    with pytest.raises(WorkerLost, match=r"worker 2 died \(exit code -9\)"):
        link.poll(0.0, 5.0)


def test_a_cluster_polls_with_its_timeout(link):
    cluster = LocalCluster(timeout=7.0, workers=2)
    link.ready = True
    cluster.links = [None, link]

    assert cluster.poll(1, 7.0) is None
    with pytest.raises(WorkerLost, match="for 7 s"):
        cluster.poll(1, 7.5)


def test_too_little_shared_memory_is_told_before_it_is_written_to(monkeypatch):
    class Little:
        f_bavail, f_frsize = 10, 100_000

    monkeypatch.setattr(local.os, "statvfs", lambda _: Little)

    local._check_shared_memory(1_000_000)
    with pytest.raises(ConfigError, match=r"need 2 MB .* has 1 MB: .*--shm-size"):
        local._check_shared_memory(1_500_001)


def test_a_system_without_that_folder_is_not_asked(monkeypatch):
    monkeypatch.setattr(local, "_SHARED_MEMORY", "/nowhere")

    local._check_shared_memory(2**60)


def test_weights_go_round_a_ring():
    cluster = LocalCluster(workers=1)
    cluster._ring = torch.zeros(2, 3, dtype=torch.uint8)
    cluster._stamps = torch.tensor([-1, -1])
    cluster._published = 0
    weights = [torch.tensor([1, 2], dtype=torch.uint8), torch.tensor([3], dtype=torch.uint8)]

    slots = [cluster.publish(weights)]
    weights[0][0] = 9
    slots += [cluster.publish(weights)]

    assert slots == [0, 1]
    assert cluster._ring.tolist() == [[1, 2, 3], [9, 2, 3]]
    assert cluster._stamps.tolist() == [0, 1]
    assert cluster.publish(weights) == 2
    assert cluster._ring.tolist() == [[9, 2, 3], [9, 2, 3]]
    assert cluster._stamps.tolist() == [2, 1]


SCRIPT = """
import os, sys, torch
from components.cluster.local import LocalCluster
from rlcomp.component import Component
from rlcomp.run.remote import RemoteStages
from tensordict import TensorDict

print("script", os.getpid(), flush=True)

class Own(Component):
    fresh = True
    def forward(self, batch):
        import time
        x = batch["x"]
        if len(x) > 1:
            print("stuck", os.getpid(), flush=True)
            time.sleep(1000)
        return TensorDict({"y": x + os.getpid()}, batch_size=[len(x)])

stage = RemoteStages(stages=[Own()], cluster=LocalCluster(staleness=0))
one = TensorDict({"x": torch.zeros(1, dtype=torch.int64)}, batch_size=[1])
print("worker", int(stage(one)["y"]), flush=True)
if sys.argv[1] == "hang":
    stage(TensorDict({"x": torch.zeros(2)}, batch_size=[2]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["by itself", "killed"])
def test_no_process_is_left_whoever_ends_and_a_script_needs_no_guard(ends, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    words = ["hang" if ends == "killed" else "end"]
    command = [sys.executable, str(tmp_path / "script.py"), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        told = [run.stdout.readline().split() for _ in range(3 if ends == "killed" else 2)]
        worker = int(told[1][1])
        if ends == "killed":
            assert told[2] == ["stuck", str(worker)]
            run.kill()
        assert run.wait() == (-signal.SIGKILL if ends == "killed" else 0)
        for _ in range(100):
            if not alive(worker):
                break
            time.sleep(0.1)
        # The script ran once: its worker did not run it again.
        assert told[0] == ["script", str(run.pid)]
        assert not alive(worker)
        assert run.stdout.read() == ""


def test_what_a_worker_is_asked_is_read_back_as_it_was():
    told = pickle.loads(pickle.dumps(request(2.0)))

    assert told.batch["x"].tolist() == [2.0]
    assert (told.number, told.seeds, told.part) == (99, (1,), PromptRange(0, 1, 1))


def test_the_parts_of_a_carried_stage_are_its_weight_and_generator():
    carried = SerializedStages([Scaled()])

    assert [len(each) for each in carried.weights] == [4]
    assert len(carried.generators) == 1


def test_a_request_goes_to_its_worker_with_the_place_of_its_weights():
    cluster = LocalCluster(workers=2)
    cluster.links = [Kept(), Kept()]

    cluster.ask(1, 2, request(5.0))

    assert cluster.links[0] == []
    ((place, data),) = cluster.links[1]
    assert place == 2
    assert pickle.loads(data).batch["x"].tolist() == [5.0]


def test_what_a_worker_says_arrives_and_its_end_last(link):
    ours, theirs = multiprocessing.Pipe()
    link._connection, link._arrived = ours, queue.SimpleQueue()
    for told in (("ready", None), ("reply", "made")):
        theirs.send_bytes(pickle.dumps(told))
    theirs.close()

    link._read()

    arrived = [link._arrived.get_nowait() for _ in range(3)]
    assert arrived == [("ready", None), ("reply", "made"), link_module._CLOSED]
    assert link._arrived.empty()
