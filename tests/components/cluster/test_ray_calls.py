"""What a Ray cluster asks of Ray: of a stand-in, which notes calls and says what it is told."""

import logging
import pickle
import signal
import sys
import types
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml

from components.cluster import ray as module
from components.cluster.ray import RayCluster
from rlcomp.cluster.actor import ActorServer
from rlcomp.errors import ConfigError
from rlcomp.interfaces.cluster import AsyncSettings, WorkerLost

from .conftest import request

READY, REPLY = (pickle.dumps(told) for told in (("ready", None), ("reply", "made")))


class RayError(Exception):
    """As of an actor that is out of memory, of a node that is gone."""


class Died(RayError):
    """As of an actor."""


class Actor:
    """Notes its calls; ``says`` holds what the calls that wait give, or raise."""

    def __init__(self, made):
        self.made, self.calls, self.says, self.groups = made, [], [], []
        for name in ("take", "ask"):
            setattr(self, name, SimpleNamespace(remote=self._noting(name)))
        self.tell = SimpleNamespace(options=self._options)

    def _noting(self, name):
        return lambda *given: self.calls.append((name, *given))

    def _options(self, concurrency_group):
        self.groups.append(concurrency_group)
        return SimpleNamespace(remote=lambda: self)


class StandIn(types.ModuleType):
    """As the module ``ray``."""

    exceptions = SimpleNamespace(RayError=RayError, RayActorError=Died)

    def __init__(self):
        super().__init__("ray")
        self.begun, self.words, self.actors, self.killed, self.waited = None, [], [], [], []

    def is_initialized(self):
        return self.begun is not None

    def init(self, **words):
        self.begun = words
        signal.signal(signal.SIGTERM, lambda *_: None)  # as Ray does

    def shutdown(self):
        self.begun = None

    def cluster_resources(self):
        return {"CPU": 2.0, "GPU": 3.0, "tpu": 6.0}

    def put(self, what):
        return ("stored", what)

    def remote(self, **words):
        def of(kind):
            def made(*given):
                self.words.append(words)
                self.actors.append(Actor((kind, *given)))
                return self.actors[-1]

            return SimpleNamespace(remote=made)

        return of

    def wait(self, calls, *, timeout):
        self.waited.append(timeout)
        return (calls, []) if calls[0].says else ([], calls)

    def get(self, call):
        told = call.says.pop(0)
        if isinstance(told, Exception):
            raise told
        return told

    def kill(self, actor, *, no_restart):
        assert no_restart
        self.killed.append(actor)


@pytest.fixture
def ray(monkeypatch):
    made = StandIn()
    monkeypatch.setitem(sys.modules, "ray", made)
    monkeypatch.setattr(module, "require", lambda *_: None)
    return made


def started(free=None, **settings):
    cluster = RayCluster(**settings)
    cluster.start(b"stages", [1, 2], 3, free)
    return cluster


def test_actors_get_the_stages_and_what_they_are_given_to_run_on(ray):
    before, free = signal.getsignal(signal.SIGTERM), AsyncSettings(seats=4)

    started(free, workers=3, resources={"num_cpus": 0.5, "num_gpus": 1, "tpu": 2})

    assert ray.begun == {
        "address": None,
        "num_cpus": 2,  # of 1.5
        "include_dashboard": False,
        "log_to_driver": False,
        "logging_level": logging.ERROR,
    }
    assert signal.getsignal(signal.SIGTERM) is before
    assert [actor.made for actor in ray.actors] == [(ActorServer, [*sys.path], [1, 2])] * 3
    settings = module.process_settings()
    assert [one.calls for one in ray.actors] == [
        [("take", settings, ("stored", b"stages"), free)]
    ] * 3
    assert ray.words == 3 * [
        {
            **{"max_restarts": 0, "max_task_retries": 0, "concurrency_groups": {"replies": 1}},
            "runtime_env": {"env_vars": {"MALLOC_ARENA_MAX": "1"}},
            **{"num_cpus": 0.5, "num_gpus": 1, "resources": {"tpu": 2}},
        }
    ]


@pytest.mark.parametrize(
    ("name", "each", "told"),
    [
        ("num_gpus", 1.6, r"num_gpus is 1.6, 3.2 for all workers, but Ray .* has 3: lower"),
        ("npu", 1, r"cluster.resources.npu is 1, 2 for all workers, but Ray .* has 0: lower"),
    ],
)
def test_what_this_machine_does_not_have_is_told(ray, name, each, told):
    with pytest.raises(ConfigError, match=told):
        started(workers=2, resources={"num_cpus": 1, name: each})
    assert ray.actors == []
    assert not ray.is_initialized()

    started(workers=2, resources={name: each}, address="auto")  # that may grow
    assert len(ray.actors) == 2


def test_a_ray_that_runs_is_told_no_sizes_and_an_actor_has_one_core(ray):
    started(address="auto")

    words = {"log_to_driver": False, "logging_level": logging.ERROR}
    assert ray.begun == {"address": "auto", **words}  # the rest is as it was started
    assert len(ray.actors) == 1
    assert ray.words[0]["num_cpus"] == 1
    assert "resources" not in ray.words[0]


def test_weights_are_stored_once_and_handed_over_by_number(ray):
    cluster = started(workers=2)
    weights = [torch.tensor([1, 2], dtype=torch.uint8), torch.tensor([3], dtype=torch.uint8)]

    first, second = cluster.publish(weights), cluster.publish([])
    cluster.ask(1, first, request(5.0))
    cluster.ask(1, second, None)

    assert ray.actors[0].calls[1:] == []
    (_, number, (_, array), data), (_, other, (_, nothing), none) = ray.actors[1].calls[1:]
    assert (number, array.tolist(), other, nothing.tolist()) == (0, [1, 2, 3], 1, [])
    assert pickle.loads(data).batch["x"].tolist() == [5.0]
    assert pickle.loads(none) is None


def test_replies_are_fetched_by_a_call_that_waits_for_them(ray):
    cluster = started(workers=2, timeout=7.0)
    actor = ray.actors[1]

    assert cluster.poll(1, 9.0) is None
    actor.says += [[READY, REPLY], [REPLY]]
    assert cluster.receive(1, 5.0) == "made"
    assert ray.waited == [0.0, 600.0]
    assert cluster.receive(1, 5.0) == "made"
    assert ray.waited[2:] == [5.0]
    assert cluster.poll(1, 7.0) is None
    with pytest.raises(WorkerLost, match="worker 1 has sent nothing for 7 s"):
        cluster.poll(1, 7.1)
    assert actor.groups == ["replies"] * 3


def test_errors_and_deaths_are_told(ray):
    cluster = started()
    assert cluster.workers == 1
    ray.actors[0].says += [
        [pickle.dumps(("failed", pickle.dumps(ConfigError("set a=1"))))],
        Died("the actor died\nand more"),
        RayError("too little memory"),
        RayError(),
    ]

    with pytest.raises(ConfigError, match="set a=1"):
        cluster.receive(0, 5.0)
    for line in ("the actor died", "too little memory", "RayError"):
        with pytest.raises(WorkerLost, match=rf"^worker 0 died \({line}\)$"):
            cluster.receive(0, 5.0)


def test_an_actor_is_ended_and_made_anew_in_its_place(ray):
    cluster = started(AsyncSettings(seats=2), workers=2)

    cluster.restart(1)

    assert ray.killed == [ray.actors[1]]
    assert len(ray.actors) == 3
    assert ray.actors[2].made == ray.actors[1].made
    assert ray.actors[2].calls == ray.actors[1].calls
    ray.actors[2].says.append([READY, REPLY])
    assert cluster.poll(1, 0.0) == "made"


def test_the_end_ends_actors_and_a_ray_that_was_started_here_only(ray):
    cluster = started(workers=2)
    cluster.close()
    assert ray.killed == ray.actors
    assert cluster.links == []
    assert not ray.is_initialized()
    cluster.close()

    ray.init()
    other = started()
    other.close()
    assert len(ray.killed) == 3
    assert ray.is_initialized()


def test_ray_is_asked_for_before_anything_else(monkeypatch):
    def missing(*words):
        raise ConfigError(f"no {words}")

    monkeypatch.setattr(module, "require", missing)
    with pytest.raises(ConfigError, match=r"no \('ray', 'ray'\)"):
        RayCluster()


def test_by_hand_one_gets_what_the_yaml_says(ray):
    file = Path(module.__file__).parents[2] / "conf" / "cluster" / "ray.yaml"
    said = yaml.safe_load(file.read_text())
    del said["_target_"], said["free"], said["resources"]

    made = RayCluster()

    assert {name: getattr(made, name) for name in said} == said
    assert made.free == AsyncSettings()
    assert made.resources is None
    assert made._options() == {}
