"""An endpoint against servers that are slow, wrong, huge, silent or not there."""

import json
import re
import socket
import time

import pytest

from components.endpoint import ChatEndpoint
from rlcomp.errors import ConfigError, RlcompError, RlcompWarning
from rlcomp.interfaces.protocols import ModelReply
from rlcomp.metrics import recording

from .conftest import completion, sleeping

FAILED = pytest.mark.filterwarnings("ignore::rlcomp.errors.RlcompWarning")
KEY = "sk-very-secret"


def texts(replies):
    return [reply and reply.text for reply in replies]


def test_what_is_sent_and_what_comes_back(server, endpoint):
    server.say = lambda prompt: completion("A", {"A": 0.75, "B": 0.25})
    asking = endpoint(system="Be brief.", temperature=0.5, fields={"seed": 3, "model": "other"})

    (reply,) = asking.ask(["a\ud800"], max_tokens=4, alternatives=2)

    assert reply == ModelReply("A", {"A": pytest.approx(0.75), "B": pytest.approx(0.25)})
    ((path, asked),) = server.asked
    assert path == "/v1/chat/completions"
    assert asked == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "a\ud800"},
        ],
        "temperature": 0.5,
        "n": 1,
        "seed": 3,
        "max_tokens": 4,
        "logprobs": True,
        "top_logprobs": 2,
    }


def test_answers_come_in_the_order_of_the_prompts_and_so_many_at_a_time(server, endpoint):
    server.say = lambda prompt: sleeping(0.2 if prompt == "0" else 0.05, prompt)
    prompts = [str(number) for number in range(9)]

    assert texts(endpoint(workers=3).ask(prompts, max_tokens=4)) == prompts
    assert server.most == 3
    assert endpoint().ask([], max_tokens=4) == []


def test_it_records_requests_failures_and_tokens(server, endpoint):
    server.say = lambda prompt: (500, b"") if prompt == "bad" else completion(prompt, tokens=10)

    with recording() as told, pytest.warns(RlcompWarning, match="1 of 3 prompts have no answer"):
        endpoint(tries=2).ask(["a", "bad", "b"], max_tokens=4)

    found = told.means()
    assert found.pop("time/endpoint") > 0
    # One request each for a and b, two for the one that fails.
    assert found == {"endpoint/requests": 4.0, "endpoint/failed": 1.0, "endpoint/tokens": 20.0}


BAD = {
    "half a character": b'{"choices": [{"message": {"content": "\\ud800"}}]}',
    "500": (500, b""),
    "429": (429, b""),
    "no JSON": b"<html>",
    "no UTF-8": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "no object": [1],
    "no choices": {"choices": []},
    "two choices": {"choices": [*completion("a")["choices"], *completion("b")["choices"]]},
    "no text": {"choices": [{"message": {"content": None}}]},
    "a list of parts": {"choices": [{"message": {"content": [{"type": "text"}]}}]},
    "huge": b" " * ((1 << 22) + 1),
    "bad log-prob": {
        "choices": [
            {
                "message": {"content": "a"},
                "logprobs": {"content": [{"top_logprobs": [{"token": "a", "logprob": 3.0}]}]},
            }
        ]
    },
    "NaN": b'{"choices": [{"message": {"content": "a"}, "logprobs": {"content": [{"top_logprobs": '
    b'[{"token": "a", "logprob": NaN}]}]}}]}',
    "more than all": {
        "choices": [
            {
                "message": {"content": "a"},
                "logprobs": {
                    "content": [{"top_logprobs": [{"token": t, "logprob": -0.1} for t in "ab"]}]
                },
            }
        ]
    },
}


@FAILED
@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_is_tried_again_and_then_none(name, server, endpoint):
    server.say = lambda prompt: BAD[name] if prompt == "bad" else completion("fine")

    assert texts(endpoint(tries=2).ask(["x", "bad"], max_tokens=4)) == ["fine", None]
    assert len(server.asked) == 3


def test_a_second_try_counts(server, endpoint):
    said = iter([(503, b""), completion("late")])
    server.say = lambda prompt: next(said)

    assert texts(endpoint(workers=1).ask(["x"], max_tokens=4)) == ["late"]


@FAILED
def test_a_server_that_hangs_costs_its_time_and_no_more(server, endpoint):
    server.say = lambda prompt: sleeping(6 if prompt == "hang" else 0.0, "a")
    started = time.monotonic()

    replies = endpoint(timeout=0.3, tries=1).ask(["x", "hang", "y"], max_tokens=4)

    assert texts(replies) == ["a", None, "a"]
    assert time.monotonic() - started < 5


@FAILED
@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_one_request_is_refused_for_is_not_asked_again(status, server, endpoint):
    server.say = lambda prompt: (status, b"{}") if prompt == "long" else completion("fine")

    assert texts(endpoint().ask(["long", "x"], max_tokens=4)) == [None, "fine"]
    assert len(server.asked) == 2


@pytest.mark.parametrize("status", [401, 403, 404, 302])
def test_what_every_request_is_refused_for_stops_the_run(status, server, endpoint):
    server.say = lambda prompt: (status, b"{}")

    with pytest.raises(RlcompError, match=f"it answers {status}"):
        endpoint().ask(["x"], max_tokens=4)


def test_a_server_that_is_not_there_stops_the_run_unless_it_was(server, endpoint):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gone = ChatEndpoint(url=f"http://127.0.0.1:{port}/v1", model="m", pause=0.0)
    with pytest.raises(RlcompError, match=r"none of 2 prompts was answered.*Does the server run"):
        gone.ask(["x", "y"], max_tokens=4)

    asking = endpoint(tries=1)
    assert texts(asking.ask(["x"], max_tokens=4)) == ["x"]
    server.say = lambda prompt: (503, b"")
    with pytest.warns(RlcompWarning, match="endpoint/failed counts further ones"):
        assert asking.ask(["x"], max_tokens=4) == [None]
    assert asking.ask(["x"], max_tokens=4) == [None]  # told once


def test_the_pause_doubles(server, endpoint, monkeypatch):
    pauses = []
    monkeypatch.setattr("components.endpoint.time.sleep", pauses.append)
    server.say = lambda prompt: (500, b"")

    with pytest.raises(RlcompError, match="none of 1"):
        endpoint(tries=4, pause=0.5).ask(["x"], max_tokens=4)

    assert pauses == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    "host", ["example.com", "10.0.0.1", "0.0.0.0", "127.0.0.1.evil.org", "localhost.evil.org"]
)
def test_another_machine_is_refused_unless_it_is_said(host):
    url = f"https://{host}/v1"
    with pytest.raises(ConfigError, match=r"not this machine.*set allow_remote=true"):
        ChatEndpoint(url=url, model="m")

    assert ChatEndpoint(url=url, model="m", allow_remote=True).url == url


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "localhost", "[::1]"])
def test_this_machine_is_not(host):
    assert ChatEndpoint(url=f"http://{host}:1/v1", model="m").model == "m"


def test_the_key_is_sent_and_told_nowhere(server, endpoint, monkeypatch, caplog):
    monkeypatch.setenv("JUDGE_KEY", KEY)
    asking = endpoint(key_variable="JUDGE_KEY", tries=1)
    server.say = lambda prompt: completion(prompt) if prompt == "x" else (500, b"")

    with recording() as told, pytest.warns(RlcompWarning) as warned:
        asking.ask(["x", "bad"], max_tokens=4)

    assert server.keys == [f"Bearer {KEY}"] * 2
    said = [str(each.message) for each in warned]
    assert KEY not in json.dumps([said, caplog.text, [*told.sums], repr(asking)])
    server.say = lambda prompt: (401, b"")
    with pytest.raises(RlcompError, match="401") as refused:
        asking.ask(["x"], max_tokens=4)
    assert KEY not in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        (KEY, None, "must be the name of an environment variable"),
        ("JUDGE_KEY", None, "JUDGE_KEY: this environment variable holds no key"),
        ("JUDGE_KEY", "", "holds no key"),
        ("JUDGE_KEY", f"{KEY}\r\nX: y", "has characters that a key cannot have"),
    ],
)
def test_a_key_that_is_none_is_refused_and_not_told(variable, value, told, monkeypatch):
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("JUDGE_KEY", value)

    with pytest.raises(ConfigError, match=re.escape(told)) as refused:
        ChatEndpoint(url="http://localhost/v1", model="m", key_variable=variable)

    assert KEY not in str(refused.value)


def test_a_key_goes_to_another_machine_under_https_alone(monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", KEY)
    settings = {"model": "m", "key_variable": "JUDGE_KEY", "allow_remote": True}

    with pytest.raises(ConfigError, match="as plain text"):
        ChatEndpoint(url="http://example.com/v1", **settings)

    assert ChatEndpoint(url="https://example.com/v1", **settings).model == "m"


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://localhost/", "http://me:word@localhost/"])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ConfigError, match=r"endpoint\.url"):
        ChatEndpoint(url=url, model="m")
