"""The client of a completions server: what it sends, and servers that fail."""

import inspect
import socket
import time
from pathlib import Path

import pytest
import torch
import yaml

from components.sampler_engine.server import ServerEngine
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError, RlcompError
from rlcomp.metrics import recording
from rlcomp.seed import named_seed
from rlcomp.testing import tiny_policy

from .conftest import UPDATE, reply, request

FAILED = {
    "500": (500, b""),
    "429": (429, b""),
    "no JSON": b"<html>",
    "no UTF-8": b"\xff",
    "deep": b"[" * 100_000,
    "a name twice": b'{"a": 1, "a": 1}',
    "half": b'{"choices": [',
}


def generate(engine, **changes):
    return engine.generate(request(**changes), None)


def test_ids_go_out_and_ids_come_back(server, engine):
    decoding = Decoding(temperature=0.5, top_k=3, top_p=0.9, min_p=0.1)
    other = reply()
    other["choices"][0]["token_ids"] = [3, 1]
    server.say = lambda path, asked, number: other if asked["prompt"] == [7] else reply()

    with recording() as told:
        rows = generate(engine(), decoding=decoding)

    assert rows.tokens.tolist() == [[8, 1, 0], [8, 9, 2], [3, 1, 0], [8, 9, 2]]
    assert rows.lengths.tolist() == [2, 3, 2, 3]
    asked = {tuple(body["prompt"]): (path, body) for path, body in server.asked}
    path, body = asked[5, 6]
    assert path == "/v1/completions"
    assert body == {
        "model": "m",
        "prompt": [5, 6],
        "n": 2,
        "max_tokens": 3,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "min_p": 0.1,
        "logprobs": 0,
        "return_token_ids": True,
        "stop_token_ids": [1],
        "logit_bias": {"0": -100},
        "seed": named_seed(11, "prompt 0"),
    }
    assert asked[7,][1]["seed"] == named_seed(11, "prompt 1")
    found = told.means()
    assert found.pop("time/sampler_engine") > 0
    assert found == {"sampler_engine/requests": 2.0}


def test_all_tokens_are_minus_one_and_replayed_sets_are_asked_for(server, engine):
    with pytest.raises(RlcompError, match="sampling_mask"):
        generate(engine(), decoding=Decoding(top_p=0.5, replay=True))

    assert server.asked[0][1]["top_k"] == -1
    assert server.asked[0][1]["return_sampling_mask"] is True


@pytest.mark.parametrize("name", FAILED)
def test_what_may_go_better_is_tried_again_with_the_same_request(server, engine, name):
    server.say = lambda path, asked, number: FAILED[name] if number < 3 else reply()

    rows = generate(engine(tries=3), prompts=[[5, 6]])

    assert rows.tokens.tolist() == [[8, 1, 0], [8, 9, 2]]
    assert len(server.asked) == 3
    assert server.asked[0] == server.asked[1] == server.asked[2]


@pytest.mark.parametrize("name", FAILED)
def test_what_stays_so_stops_the_run_and_says_where(server, engine, name):
    server.say = lambda path, asked, number: FAILED[name]

    with pytest.raises(RlcompError, match=r"did not answer prompt 0 in 2 tries.*last checkpoint"):
        generate(engine(tries=2), prompts=[[5, 6]])
    assert len(server.asked) == 2


def test_a_server_that_hangs_is_waited_for_until_the_timeout(server, engine):
    server.say = lambda path, asked, number: time.sleep(6) if number == 1 else reply()

    started = time.monotonic()
    rows = generate(engine(timeout=0.2), prompts=[[5, 6]])

    assert rows.tokens.tolist()[0] == [8, 1, 0]
    assert time.monotonic() - started < 5


def test_a_server_that_is_not_there_is_told(engine):
    with pytest.raises(
        RlcompError, match=r"127.0.0.1:9/v1: it did not answer.*Does the server run"
    ):
        generate(engine(url="http://127.0.0.1:9/v1", tries=1))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ((404, b""), "404"),
        ((400, b""), "400"),
        (b"[]", "no JSON object"),
        # A megabyte, and 512 bytes for each of 2 * 3 tokens and 2 * 2 of the prompt.
        (b'"' + b"x" * (1 << 21) + b'"', "more than 1,053,696 bytes"),
        (reply(weight_version="3"), "not the requested 4"),
    ],
)
def test_what_cannot_go_better_is_not_tried_again(server, engine, said, message):
    server.say = lambda path, asked, number: said

    with pytest.raises(RlcompError, match=message):
        generate(engine(tries=3), prompts=[[5, 6]])
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        # 10 tokens of 512 bytes each; in base64 two more a byte of sets and routes.
        ({"decoding": Decoding(top_p=0.5, replay=True)}, (1 << 20) + 10 * (512 + 2 * 2)),
        ({"routing": (2, 3)}, (1 << 20) + 10 * (512 + 2 * 6)),
        ({"prompts": [[5] * 9], "group_size": 1}, (1 << 20) + 12 * 512),
    ],
)
def test_a_reply_is_bounded_by_what_was_asked_for(server, engine, changes, most):
    server.say = lambda path, asked, number: b'"' + b"x" * (1 << 21) + b'"'

    with pytest.raises(RlcompError, match=f"more than {most:,} bytes"):
        generate(engine(), **{"prompts": [[5, 6]], **changes})


def test_so_many_requests_are_under_way_at_a_time(server, engine):
    def say(path, asked, number):
        time.sleep(0.1)
        return reply()

    server.say = say
    generate(engine(workers=3), prompts=[[5]] * 7)

    assert server.most == 3
    assert len(server.asked) == 7


def test_pauses_double(server, engine, monkeypatch):
    slept = []
    monkeypatch.setattr("components.sampler_engine.server.time.sleep", slept.append)
    server.say = lambda path, asked, number: (500, b"")

    with pytest.raises(RlcompError):
        generate(engine(tries=4, pause=0.5), prompts=[[5, 6]])

    assert slept == [0.5, 1.0, 2.0]


def test_weights_are_handed_over_once_a_version(server, engine, tmp_path):
    seen = []

    def say(path, asked, number):
        folder = Path(asked["folder"])
        seen.append((path, asked["version"], folder.name, sorted(p.name for p in folder.iterdir())))
        return {"success": True}

    server.say = say
    sampler, model = engine(update=UPDATE), tiny_policy("abc").model

    with recording() as told:
        for version in (0, 0, 3):
            sampler.update(version, model)

    files = ["config.json", "generation_config.json", "model.safetensors"]
    assert seen == [
        ("/weights", "0", "version-0", files),
        ("/weights", "3", "version-3", files),
    ]
    left = sorted(one.name for one in (tmp_path / "weights").iterdir())
    assert left == ["current", "version-3"]
    assert told.means()["time/weights"] > 0


def test_a_failed_hand_over_is_done_again_before_anything_is_sampled(server, engine):
    server.say = lambda path, asked, number: {"success": False, "message": "no room"}
    sampler, model = engine(update=UPDATE), tiny_policy("abc").model

    for _ in range(2):
        with pytest.raises(RlcompError, match="to take version 5: /weights: 'no room'"):
            sampler.update(5, model)

    server.say = lambda path, asked, number: b""
    sampler.update(5, model)
    sampler.update(5, model)
    assert len(server.asked) == 3


def test_without_requests_to_update_weights_stay_as_they_are(server, engine, tmp_path):
    engine().update(1, tiny_policy("abc").model)

    assert server.asked == []
    assert not (tmp_path / "weights").exists()


def test_words_are_filled_in_wherever_they_stand(server, engine):
    update = [{"path": "/x", "body": {"args": ["v{version}", {"to": "{folder}/a"}], "n": 1}}]
    sampler = engine(update=update, url=engine().url.removesuffix("/v1") + "/api/v1")
    server.say = lambda path, asked, number: []

    sampler.update(2, tiny_policy("abc").model)

    ((path, body),) = server.asked
    assert path == "/api/x"
    assert body["n"] == 1
    assert body["args"][0] == "v2"
    assert body["args"][1]["to"].endswith("/version-2/a")


@pytest.mark.parametrize(
    "call", [{"path": "x", "body": {}}, {"path": "/x"}, {"path": "/x", "body": {}, "more": 1}]
)
def test_an_update_is_a_path_and_a_body(engine, call):
    with pytest.raises(ConfigError, match=r"sampler_engine.update.*must be a path"):
        engine(update=[call])


def test_by_hand_one_gets_what_the_option_says():
    file = Path(__file__).resolve().parents[3] / "conf" / "sampler_engine" / "server.yaml"
    option = yaml.safe_load(file.read_text())["sampler_engine"]

    parameters = inspect.signature(ServerEngine.__init__).parameters
    defaults = {
        name: one.default for name, one in parameters.items() if one.default is not one.empty
    }

    assert defaults == {name: option[name] for name in defaults}
    assert {*option} - {*defaults} == {"_target_", "url", "folder", "update"}


def test_a_url_is_one(engine):
    with pytest.raises(ConfigError, match=r"sampler_engine.url='ftp://a'"):
        engine(url="ftp://a")


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/completions"])
def test_the_address_that_a_server_prints_is_completed(server, engine, path):
    server.say = lambda path, asked, number: reply()
    root = engine().url.removesuffix("/v1")

    generate(engine(url=root + path))

    assert {path for path, _ in server.asked} == {"/v1/completions"}


def test_a_path_of_ones_own_is_kept(engine):
    assert engine(url="http://a:1/b/v1").url == "http://a:1/b/v1"


def test_truncated_sampling_needs_the_sets_it_was_drawn_from(engine):
    sampler = engine()

    model = tiny_policy("abc").model
    sampler.check(Decoding(temperature=0.7), model)
    sampler.check(Decoding(top_p=0.9, replay=True), model)
    for decoding in (Decoding(top_p=0.9), Decoding(top_k=5), Decoding(min_p=0.1)):
        with pytest.raises(ConfigError, match=r"set decoding=full, or decoding.replay=true"):
            sampler.check(decoding, model)


def test_adapters_are_refused_where_weights_are_handed_over(engine):
    with pytest.raises(ConfigError, match=r"set adapter=none, or sampler_engine=transformers_b"):
        engine(update=UPDATE).check(Decoding(), tiny_policy("abc", rank=2).model)
    engine(update=[]).check(Decoding(), tiny_policy("abc", rank=2).model)


def test_a_server_is_reached_before_the_run(server, engine):
    assert engine().reach() is None
    assert server.asked == []

    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        told = rf"sampler_engine.url is {url}: no server .*refused.*set sampler_engine.url"
        with pytest.raises(ConfigError, match=told):
            engine(url=url).reach()


def test_the_policy_asks_its_engine(server, engine):
    policy = tiny_policy("abc", decoding=Decoding(temperature=0.5))
    policy.sampler_engine = engine()
    policy.updated()
    server.say = lambda path, asked, number: reply(
        weight_version="1",
        choices=[
            {
                "index": 0,
                "token_ids": [2, 1],
                "logprobs": {"token_logprobs": [-1.0, -2.0]},
                "finish_reason": "stop",
            }
        ],
        usage=None,
    )

    def rollout(seed, **more):
        generator = torch.Generator().manual_seed(seed)
        return policy.generate(
            [[3, 4]], group_size=1, max_new_tokens=5, generator=generator, **more
        )

    rows = rollout(0)
    rollout(0)
    rollout(1)
    rollout(0, decoding=Decoding(temperature=0.0), suppressed_tokens=[4])

    assert rows["tokens"].tolist() == [[3, 4, 2, 1]]
    assert rows["rollout_log_probs"].tolist() == [[0.0, 0.0, -1.0, -2.0]]
    assert rows["policy_version"].tolist() == [[0, 0, 1, 1]]
    bodies = [body for _, body in server.asked]
    assert bodies[0] == bodies[1]
    assert bodies[0]["seed"] != bodies[2]["seed"]
    assert bodies[0]["temperature"] == 0.5
    assert bodies[0]["stop_token_ids"] == list(policy.stops)
    assert [*bodies[0]["logit_bias"]] == ["0"]  # <pad>
    assert bodies[3]["temperature"] == 0.0
    assert [*bodies[3]["logit_bias"]] == ["0", "4"]
    with pytest.raises(ConfigError, match="ServerEngine samples whole responses only"):
        policy.session([[3]], generator=torch.Generator())
