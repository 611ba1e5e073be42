import importlib.util
import sys
import threading
import time
from dataclasses import dataclass, field

import pytest

from components.environment.openenv import OpenEnv
from rlcomp.errors import ConfigError, MissingExtra
from rlcomp.interfaces.environment import Environment, Turn
from rlcomp.interfaces.task import Example

HERE = {"base_url": "http://127.0.0.1:8000"}
ANY = Example("", "", "")


@dataclass
class Result:
    """As OpenEnv's StepResult."""

    observation: object
    reward: float | None = None
    done: bool = False


@dataclass
class Seen:
    text: str
    turns: int = 0


@dataclass
class Move:
    to: str
    metadata: dict = field(default_factory=dict)


class Client:
    """As an EnvClient, whose wrapper for code without async is itself here."""

    log = []

    def __init__(self, base_url, records=False):
        self.records = records
        self.log.clear()

    def sync(self):
        self.log.append("sync")
        return self

    def connect(self):
        self.log.append("connect")
        return self

    def seen(self, text):
        return Seen(text) if self.records else {"text": text, "turns": 0}

    def reset(self, **arguments):
        self.log.append(arguments)
        return Result(self.seen("Go."), reward=0.5)

    def step(self, action):
        self.log.append(action)
        end = action in ({"message": "end"}, Move("end"))
        return Result(self.seen("Gone."), reward=2.0 if end else None, done=end)

    def close(self):
        self.log.append("close")


def test_an_episode_is_a_connection_of_its_own_and_a_reset_pays_nothing(importable):
    made = OpenEnv(name=importable(Client), settings=HERE, wording="{observation}|")
    assert isinstance(made, Environment)
    made.close()
    assert Client.log == []

    assert made.reset(ANY, 2**31 + 3) == Turn(
        observation='{"text": "Go.", "turns": 0}', closing="|"
    )
    assert made.step("left") == Turn(observation='{"text": "Gone.", "turns": 0}', closing="|")
    end = made.step("end")
    assert (end.reward, end.done) == (2.0, True)
    made.close()
    assert Client.log == [
        "sync",
        "connect",
        {"seed": 3},
        {"message": "left"},
        {"message": "end"},
        "close",
    ]


@pytest.mark.parametrize("records", [True, False])
def test_a_field_of_the_observation_and_a_class_of_actions(importable, monkeypatch, records):
    name = importable(Client)
    monkeypatch.setattr("stand_ins.Move", Move, raising=False)
    made = OpenEnv(
        name=name,
        settings={**HERE, "records": records},
        action_class="stand_ins.Move",
        action_field="to",
        observation_field="text",
    )

    assert made.reset(ANY, 0).observation == "\nGo."
    assert made.step("end").done
    assert Client.log[-1] == Move("end")


@pytest.mark.parametrize(
    "settings", [{}, {"base_url": "http://example.org"}, {"base_url": "http://127.0.0.1.org:80"}]
)
def test_another_machine_is_refused(importable, settings):
    with pytest.raises(ConfigError, match="a server on this machine"):
        OpenEnv(name=importable(Client), settings=settings)


needs_openenv = pytest.mark.skipif(
    importlib.util.find_spec("openenv") is None, reason="OpenEnv is not installed"
)


@needs_openenv
@pytest.mark.filterwarnings("ignore")  # of a web server in a thread
def test_a_real_server_and_its_client():
    import socket

    import uvicorn
    from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

    class Say(Action):
        message: str

    class Heard(Observation):
        text: str

    class Echo(Environment):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def reset(self, seed=None, episode_id=None, **rest):
            self.turns = 0
            return Heard(text=f"seed {seed}")

        def step(self, action, timeout_s=None, **rest):
            self.turns += 1
            return Heard(text=action.message[::-1], reward=self.turns, done=self.turns == 2)

        @property
        def state(self):
            return State(step_count=self.turns)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = create_fastapi_app(Echo, Say, Heard, max_concurrent_envs=2)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    url = f"http://127.0.0.1:{port}"
    two = [OpenEnv(settings={"base_url": url}, observation_field="text") for _ in range(2)]

    try:
        assert [made.reset(ANY, seed).observation for seed, made in enumerate(two)] == [
            "\nseed 0",
            "\nseed 1",
        ]
        for made in two:
            assert made.step("abc") == Turn(observation="\ncba", closing="\n", reward=1.0)
            assert made.step("ab") == Turn(observation="\nba", closing="\n", reward=2.0, done=True)
    finally:
        for made in two:
            made.close()
        server.should_exit = True
        thread.join()


def test_the_extra_is_named(monkeypatch):
    for module in ("openenv", "openenv.core", "openenv.core.generic_client"):
        monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(MissingExtra, match=r"rlcomp\[openenv\]"):
        OpenEnv(settings=HERE)
