"""Our own engine behind HTTP: the rows of the same policy in this process, to the bit."""

import json
import time

import pytest
import torch

from components.sampler_engine.server import ServerEngine
from rlcomp.endpoint import completions
from rlcomp.endpoint.completions import Completions, serving_policy
from rlcomp.endpoint.server import RefusedError
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import RlcompError
from rlcomp.interfaces.sampler_engine import SamplingRequest
from rlcomp.seed import named_seed
from rlcomp.testing import tiny_policy

UPDATE = [{"path": "/weights", "body": {"folder": "{folder}", "version": "{version}"}}]
SIZES = {"scale": 4.0, "num_hidden_layers": 2}
PROMPTS = [[3, 4, 5], [6], [3, 4]]


def rollout(policy, seed=7, **changes):
    given = {"group_size": 3, "max_new_tokens": 6, **changes}
    return policy.generate(PROMPTS, generator=torch.Generator().manual_seed(seed), **given)


def by_hand(policy, seed=7, **changes):
    """Each prompt by the seed that the client derives for it."""
    drawn = int(torch.randint(2**62, (), generator=torch.Generator().manual_seed(seed)))
    given = {"group_size": 3, "max_new_tokens": 6, **changes}
    return [
        policy.generate(
            [prompt],
            generator=torch.Generator().manual_seed(named_seed(drawn, f"prompt {number}")),
            **given,
        )
        for number, prompt in enumerate(PROMPTS)
    ]


@pytest.fixture
def client(tmp_path):
    def make(server, **changes):
        url, folder = f"{server.address}/v1", str(tmp_path)
        given = {"url": url, "model": "m", "folder": folder, "update": UPDATE, **changes}
        return ServerEngine(tries=1, **given)

    return make


DECODINGS = [
    Decoding(),
    Decoding(temperature=0.7),
    Decoding(top_k=4, top_p=0.9, min_p=0.05, replay=True),
    Decoding(temperature=0.0),
]


@pytest.mark.parametrize("decoding", DECODINGS, ids=str)
def test_tokens_and_log_probs_equal_those_of_generate(client, decoding):
    policy = tiny_policy(decoding=decoding, **SIZES)
    expected = by_hand(tiny_policy(decoding=decoding, **SIZES))

    with serving_policy(tiny_policy(**SIZES)) as server:
        policy.sampler_engine = client(server)
        rows = rollout(policy)

    assert len(rows) == 9
    for number, own in enumerate(expected):
        there = rows[3 * number : 3 * number + 3]
        assert bool(there["group_id"].eq(number).all())
        for key in {*own.keys()} - {"group_id"}:
            width = own["tokens"].shape[1]
            actual = there[key] if there[key].ndim == 1 else there[key][:, :width]
            assert torch.equal(actual, own[key]), key
    assert bool(rows["truncated"].any())
    assert ("sampling_mask" in rows.keys()) is decoding.replays


def test_the_server_loads_the_weights_of_a_version(client):
    """It begins with other weights, and follows the policy's."""
    policy = tiny_policy(seed=1, **SIZES)
    with serving_policy(tiny_policy(seed=2, **SIZES)) as server:
        policy.sampler_engine = client(server)
        for _ in range(2):
            rows = rollout(policy)
            assert torch.allclose(
                policy.log_probs(rows)[rows["response_mask"]],
                rows["rollout_log_probs"][rows["response_mask"]],
                atol=1e-5,
            )
            with torch.no_grad():
                for weight in policy.model.parameters():
                    weight.mul_(1.5)
            policy.updated()
        assert server.route.version == "1"
        assert (server.limits.body, server.limits.seconds) == (67_108_864, 600.0)


def test_weights_loaded_by_another_client_are_noticed(client):
    policy = tiny_policy()
    with serving_policy(tiny_policy()) as server:
        policy.sampler_engine = client(server)
        rollout(policy)
        server.route.version = "8"

        with pytest.raises(
            RlcompError, match="weight_version '8', not the requested 0: does another"
        ):
            rollout(policy)


def test_suppressed_tokens_are_not_drawn(client):
    policy = tiny_policy(**SIZES)
    allowed = [one for one in range(15) if one not in (1, 5)]
    with serving_policy(tiny_policy(**SIZES)) as server:
        policy.sampler_engine = client(server)
        rows = rollout(policy, suppressed_tokens=[one for one in allowed if one > 1])

    assert {*rows["tokens"][rows["response_mask"]].tolist()} <= {1, 5}


def make_experts():
    """Mixtral whose experts count: 3-dimensional weights are not scaled by ``scale``."""
    policy = tiny_policy(
        decoding=Decoding(keep_routing="rollout"),
        architecture="mixtral",
        overrides={"num_local_experts": 8, "num_experts_per_tok": 2},
        hidden_size=32,
        num_hidden_layers=4,
        context_length=32,
        scale=4.0,
    )
    with torch.no_grad():
        for weight in policy.model.parameters():
            if weight.ndim == 3:
                weight.mul_(8)
    return policy


def test_routes_of_a_half_precision_server_are_replayed(client):
    policy, served = make_experts(), make_experts()
    served.model.to(torch.bfloat16)
    with serving_policy(served) as server:
        policy.sampler_engine = client(server)
        rows = rollout(policy, group_size=16, max_new_tokens=24)

    def gap(batch):
        return (policy.score(batch) - rows["rollout_log_probs"])[rows["response_mask"]].abs()

    assert rows["routed_experts"].shape == (*rows["tokens"].shape, 4, 2)
    free, kept = gap(rows.exclude("routed_experts")), gap(rows)
    assert float(kept.mean()) < 0.5 * float(free.mean())


def ask(policy, path="/v1/completions", method="POST", **changes):
    body = {
        "prompt": [3, 4],
        "n": 1,
        "max_tokens": 2,
        "seed": 0,
        "stop_token_ids": list(policy.stops),
        **changes,
    }
    sent = Completions(policy)(method, path, json.dumps(body).encode())
    return json.loads(sent.body)


def test_a_reply_has_version_prompt_and_text():
    policy = tiny_policy()
    policy.updated()

    reply = ask(policy, n=2, model="mine")

    assert reply["weight_version"] == "1"
    assert reply["model"] == "mine"
    assert reply["usage"]["prompt_tokens"] == 2
    assert [one["index"] for one in reply["choices"]] == [0, 1]
    for one in reply["choices"]:
        assert one["prompt_token_ids"] == [3, 4]
        assert one["text"] == policy.tokenizer.decode(one["token_ids"])
        assert "sampling_mask" not in one


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stop_token_ids": [1, 2]}, r"stop_token_ids must be the policy's, \[1\]"),
        ({"logit_bias": {"5": -1}}, "logit_bias must be -100"),
        ({"prompt": [99]}, "token id 99"),
        ({"prompt": "a"}, "ConfigError"),
        ({"prompt": []}, "at least one token"),
        ({"temperature": -1}, "temperature"),
        ({"n": 0}, "group_size is 0"),
        ({"logit_bias": {"-1": -100}}, "suppressed_tokens holds -1"),
        ({"logit_bias": {"15": -100}}, "suppressed_tokens holds 15"),
        # With the prompt's two: one more than there is room for.
        ({"n": 2**20, "max_tokens": 3}, r"max_tokens\) is above 4194304"),
        ({"seed": None}, "TypeError"),
        ({"seed": 2**64}, "ValueError"),
        ({"max_tokens": 900}, "the limit is 16"),
        ({"method": "GET"}, "use POST"),
        ({"path": "/weights", "folder": "/nowhere", "version": "1"}, "no model in /nowhere"),
        ({"path": "/weights"}, "the request has no 'folder'"),
        ({"return_routed_experts": True}, "Qwen2ForCausalLM has none of the supported routers"),
    ],
)
def test_invalid_requests_are_refused(changes, message):
    with pytest.raises(RefusedError, match=message):
        ask(tiny_policy(), **changes)


def test_a_number_beyond_float_range_is_refused():
    policy = tiny_policy()
    sent = '{"prompt": [3], "n": 1, "max_tokens": 2, "seed": 1e999, "stop_token_ids": [1]}'

    with pytest.raises(RefusedError, match="OverflowError"):
        Completions(policy)("POST", "/v1/completions", sent.encode())


def served_weights(tmp_path, change):
    """What the server answers to a folder, which is changed after it was saved."""
    policy = tiny_policy(seed=2)
    before = [weight.clone() for weight in policy.model.parameters()]
    tiny_policy(seed=3).model.save_pretrained(tmp_path)
    change(tmp_path)
    with pytest.raises(RefusedError) as refusal:
        ask(policy, path="/weights", folder=str(tmp_path), version="9")
    now = policy.model.parameters()
    assert all(torch.equal(one, other) for one, other in zip(now, before, strict=True))
    return str(refusal.value)


def wider(folder):
    tiny_policy(seed=3, intermediate_size=48).model.save_pretrained(folder)


def pickled(folder):
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")


def cut(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("change", "message"),
    [(wider, "are of another model"), (pickled, "pickle"), (cut, "cut off or is another format")],
)
def test_weights_of_another_model_are_refused_and_none_is_loaded(tmp_path, change, message):
    assert message in served_weights(tmp_path, change)


def test_the_default_is_the_full_distribution():
    """Of an untrained model, whose likeliest token is seldom drawn."""
    policy = tiny_policy()
    expected = by_hand(policy)[1]

    drawn = int(torch.randint(2**62, (), generator=torch.Generator().manual_seed(7)))
    reply = ask(policy, prompt=[6], n=3, max_tokens=6, seed=named_seed(drawn, "prompt 1"))

    mask = expected["response_mask"]
    tokens = [token for one in reply["choices"] for token in one["token_ids"]]
    assert tokens == expected["tokens"][mask].tolist()


@pytest.mark.parametrize(("asked", "told"), [({}, False), ({"return_sampling_mask": True}, True)])
def test_sampling_masks_are_returned_if_requested(asked, told):
    (choice,) = ask(tiny_policy(), top_k=3, **asked)["choices"]

    assert ("sampling_mask" in choice) is told


def test_the_number_of_tokens_of_a_request_is_limited(monkeypatch):
    monkeypatch.setattr(completions, "_MOST_TOKENS", 8)

    # The prompt's two and two more, twice.
    assert len(ask(tiny_policy(), n=2)["choices"]) == 2
    with pytest.raises(RefusedError, match="above 8"):
        ask(tiny_policy(), n=3)


def test_only_two_paths_exist():
    route = Completions(tiny_policy())

    assert [route.admits(path) for path in ("/v1/completions", "/weights", "/v1/models")] == [
        True,
        True,
        False,
    ]


def test_the_overhead_of_a_request_is_small(client):
    """At most 5 ms CPU a request of 8 rows, without the time of the policy that answers."""
    policy = tiny_policy(context_length=64, **SIZES)
    request = SamplingRequest(
        prompts=[[3, 4, 5]] * 20,
        group_size=8,
        max_new_tokens=24,
        decoding=Decoding(),
        stops=policy.stops,
        suppressed=policy.suppressed_tokens,
        vocabulary=15,
        seed=1,
        version=0,
    )
    with serving_policy(tiny_policy(context_length=64, **SIZES)) as server:
        engine = client(server, update=[])
        engine.generate(request, policy.model)
        answered = []
        route = server.route.__call__

        def timed(method, path, body):
            started = time.thread_time()
            sent = route(method, path, body)
            answered.append(time.thread_time() - started)
            return sent

        members = {"admits": staticmethod(server.route.admits), "__call__": staticmethod(timed)}
        server.route = type("Timed", (), members)()
        spent = []
        for _ in range(3):  # a collection of garbage in a large process is not the client's time
            answered.clear()
            started = time.process_time()
            engine.generate(request, policy.model)
            spent.append(time.process_time() - started - sum(answered))

    assert len(answered) == 20
    assert min(spent) / 20 < 0.005
