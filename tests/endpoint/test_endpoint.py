"""The endpoint: what an agent may ask, and what is recorded of it."""

import json
import threading
import time
import urllib.error
import urllib.request

import pytest
import torch

from components.advantage.group import GroupMean
from components.reward.episode import EpisodeFact
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.endpoint.agents import InProcessAgents, ProcessAgents
from rlcomp.errors import ConfigError, NumericalError
from rlcomp.interfaces.turns import episode_index
from rlcomp.testing import tiny_policy
from rlcomp.workers.pool import closing


def post(url, **body):
    """The reply to a request, or the error that it got."""
    request = urllib.request.Request(url, json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        return {"status": error.code, **json.load(error)}


def said(reply):
    return reply["choices"][0]["text"]


def chat(url, text, **more):
    return post(f"{url}/chat/completions", messages=[{"role": "user", "content": text}], **more)


def test_continued_calls_are_one_row_with_the_sampled_log_probs(play, policy):
    def agent(url, example):
        assert example["n"] == 5
        text = example["prompt"]
        for _ in range(3):
            text += said(post(f"{url}/completions", prompt=text, max_tokens=3)) + "|"
        return 0.5

    rows = play(agent, group_size=4, columns=[{"n": 5}])

    assert decode_texts(rows["episode_error"]) == [""] * len(rows)
    assert rows["facts"]["reward"].tolist() == [0.5] * len(rows)
    assert set(rows["trajectory_id"].tolist()) == {0, 1, 2, 3}
    assert rows["group_id"].tolist() == [0] * len(rows)
    assert rows["turn_id"].max() == 2
    mask = rows["response_mask"]
    assert torch.equal(mask, rows["turn_id"] >= 0)
    with torch.no_grad():
        assert (policy.log_probs(rows) - rows["rollout_log_probs"]).abs().max() < 1e-5


def test_a_changed_history_begins_a_second_row(play):
    def agent(url, example):
        chat(url, "a=", max_tokens=2)
        chat(url, "b=", max_tokens=2)
        return 1.0

    rows = play(agent)

    assert rows["trajectory_id"].tolist() == [0, 0]
    assert rows["turn_id"].amax(1).tolist() == [0, 1]
    assert rows["facts"]["rows"].tolist() == [2.0, 2.0]


def folding(url, example):
    """Goes on from what the policy itself wrote of a context; every second episode is right."""
    first = said(post(f"{url}/completions", prompt="a=", max_tokens=4))
    summary = said(post(f"{url}/completions", prompt=f"a={first}|", max_tokens=4))
    post(f"{url}/completions", prompt=f"{summary}<", max_tokens=4)
    return float(example["seed"] % 2)


def test_a_turn_with_a_folded_context_is_trained(play):
    rows = play(folding, group_size=8)

    turns, mask = rows["turn_id"], rows["response_mask"]
    for episode in range(8):
        own = rows["trajectory_id"] == episode
        assert own.sum() >= 2
        assert set(turns[own][mask[own]].tolist()) == {0, 1, 2}
    rows["answer"] = encode_texts([""] * len(rows))
    rows = GroupMean()(EpisodeFact(fact="reward", correct_from=1.0)(rows))
    # The group's mean is that of episodes, though their numbers of rows differ, and the advantage
    # of an episode stands on every token of its rows, the summary's included.
    _, first = episode_index(rows)
    right = rows["facts"]["reward"]
    expected = (right - right[first].mean())[:, None].expand(mask.shape)
    assert 0 < right[first].mean() < 1
    assert len(set(rows["facts"]["rows"].tolist())) > 1
    torch.testing.assert_close(rows["advantage"][mask], expected[mask])


def test_special_tokens_in_client_text_are_plain_text(play, policy):
    replies = {}

    def agent(url, example):
        replies["reply"] = chat(url, "a=", logprobs=True, n=2, stop=["|", "="], seed=4)
        replies["again"] = chat(url, "a=", logprobs=True, n=2, stop=["|", "="], seed=4)
        replies["other"] = chat(url, "a=", logprobs=True, n=2, stop=["|", "="], seed=5)
        return 0.0

    rows = play(agent)

    reply = replies["reply"]
    for choice in reply["choices"]:
        assert not set(choice["message"]["content"]) & {"|", "="}
        assert "<eos>" not in choice["message"]["content"]
    sampled = [len(choice["logprobs"]["content"]) for choice in reply["choices"]]
    assert reply["usage"]["completion_tokens"] == sum(sampled)
    values = [each["logprob"] for each in reply["choices"][0]["logprobs"]["content"]]
    recorded = rows["rollout_log_probs"][0][rows["response_mask"][0]]
    assert torch.allclose(torch.tensor(values), recorded)
    assert reply["choices"] == replies["again"]["choices"] != replies["other"]["choices"]


def test_max_tokens_limits_the_answer(play):
    replies = []

    def agent(url, example):
        replies.extend(chat(url, "a=", max_tokens=1)["choices"] for _ in range(8))
        return 0.0

    rows = play(agent)

    ends = {choice["finish_reason"] for choices in replies for choice in choices}
    assert "length" in ends
    assert rows["truncated"].any()


def test_a_stream_has_one_chunk_and_an_end(play):
    replies = {}

    def agent(url, example):
        body = {
            "messages": [{"role": "user", "content": "a="}],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode())
        with urllib.request.urlopen(request) as reply:
            replies["kind"], replies["text"] = reply.headers["Content-Type"], reply.read().decode()
        return 0.0

    play(agent)

    lines = replies["text"].strip().split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert replies["kind"] == "text/event-stream"
    assert lines[-1] == "data: [DONE]"
    assert chunks[0]["object"] == "chat.completion.chunk"
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[1]["choices"][0]["finish_reason"] in ("stop", "length")
    assert chunks[2]["usage"]["prompt_tokens"] == 2


REFUSED = {
    "temperature": (0.2, "decoding.temperature"),
    "top_p": (0.9, "decoding.top_p"),
    "frequency_penalty": (1.0, "only its default is supported"),
    "logit_bias": ({"5": 1}, "only its default is supported"),
    "n": (-1, "whole number"),
    "max_tokens": (0, "whole number"),
    "seed": ("x", "whole number"),
    "stop": ([""], "non-empty texts"),
    "tools": ([{}], "prompt=chat"),
    "no_such": (1, "is not supported"),
    "top_logprobs": (5, "only its default is supported"),
}


@pytest.fixture(scope="module")
def refusals():
    return {}


@pytest.mark.parametrize("name", REFUSED)
def test_options_that_change_the_policy_are_refused(name, play, refusals):
    def agent(url, example):
        refusals.update(
            {key: chat(url, "a=", **{key: value}) for key, (value, _) in REFUSED.items()}
        )
        chat(url, "a=", temperature=1.0, top_p=1, model="gpt", user="me")
        return 0.0

    if not refusals:
        play(agent)

    assert refusals[name]["status"] == 400
    assert REFUSED[name][1] in refusals[name]["error"]["message"]


def test_a_full_context_and_too_many_calls_are_refused(play):
    replies = {}

    def agent(url, example):
        replies["long"] = chat(url, "a" * 64)
        replies["odd"] = chat(url, "é")
        replies["ok"] = chat(url, "a")
        replies["fourth"] = chat(url, "a")
        return 0.0

    play(agent, max_calls=3)

    assert replies["long"]["error"]["code"] == "context_length_exceeded"
    assert "no token for 'é'" in replies["odd"]["error"]["message"]
    assert replies["ok"]["choices"]
    assert replies["fourth"]["status"] == 403


def failing(url, example):
    which = example["prompt"]
    if which == "a":
        return 1.0  # no call
    chat(url, "a=")
    if which == "b":
        raise RuntimeError("no luck")
    if which == "c":
        return "much"
    if which == "d":
        return float("nan")
    if which == "<":
        time.sleep(60)
    return None


def test_failed_episodes_are_invalid_with_a_reason(play):
    prompts = ["a", "b", "c", "d", "<", ">"]
    rows = play(failing, prompts=prompts, agents=InProcessAgents(timeout=1.0), wait=0.2)

    errors = dict(
        zip(rows["trajectory_id"].tolist(), decode_texts(rows["episode_error"]), strict=True)
    )
    assert errors[0] == "the agent made no call"
    assert errors[1].startswith("RuntimeError: no luck (test_endpoint.py, line")
    assert "returned 'much'" in errors[2]
    assert "returned nan" in errors[3]
    assert errors[4] == "the agent ran for more than 1 s"
    # Nothing failed, and there is no reward: for one that judges the answer.
    assert errors[5] == ""
    assert rows["facts"]["reward"][1:].isnan().all()


def test_posted_rewards_belong_to_the_last_call(play):
    replies = {}

    def agent(url, example):
        replies["early"] = post(f"{url}/reward", reward=1.0)
        chat(url, "a=")
        post(f"{url}/reward", reward=0.25)
        chat(url, "b=")
        post(f"{url}/reward", reward=0.5)

    rows = play(agent)

    assert replies["early"]["status"] == 409
    assert rows["turn_reward"].sum(1).tolist() == [0.25, 0.5]
    ends = rows["response_mask"].int().cumsum(1).argmax(1)
    assert rows["turn_reward"].argmax(1).tolist() == ends.tolist()
    assert rows["facts"]["reward"].tolist() == [0.75, 0.75]


def test_draws_do_not_depend_on_the_time_of_calls(play):
    def hurried(url, example):
        text = example["prompt"]
        for _ in range(3):
            text += said(post(f"{url}/completions", prompt=text, max_tokens=4)) + "|"
        return 0.0

    def slow(url, example):
        time.sleep((example["seed"] % 5) * 0.03)
        return hurried(url, example)

    prompts = ["a", "b", "ab", "ba"]
    first = play(hurried, prompts=prompts, group_size=4)
    for other in (
        play(hurried, prompts=prompts, group_size=4),
        play(slow, prompts=prompts, group_size=4),
    ):
        assert torch.equal(first["tokens"], other["tokens"])
        assert torch.equal(first["rollout_log_probs"], other["rollout_log_probs"])
    # Waves of whatever has come: the same tokens, and log-probs that differ by rounding alone.
    ragged = play(slow, prompts=prompts, group_size=4, wait=0.001)
    assert torch.equal(first["tokens"], ragged["tokens"])
    assert not torch.equal(
        first["tokens"], play(hurried, prompts=prompts, group_size=4, seed=4)["tokens"]
    )


def test_concurrent_calls_of_one_episode_are_answered(play):
    def agent(url, example):
        replies = {}

        def ask(number):
            replies[number] = chat(url, "ab"[number % 2] + "=")

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return float(all("choices" in each for each in replies.values()))

    rows = play(agent)

    assert rows["facts"]["reward"].tolist() == [1.0] * 8
    assert rows["turn_id"].amax(1).sort().values.tolist() == list(range(8))


def test_256_concurrent_calls_of_64_agents_are_answered(play):
    def agent(url, example):
        replies = [chat(url, "ab"[number % 2] * 3, max_tokens=2) for number in range(4)]
        return float(sum("choices" in each for each in replies))

    rows = play(agent, prompts=["a", "b"] * 8, group_size=4)

    first = torch.unique(rows["trajectory_id"], return_inverse=True)[0]
    assert len(first) == 64
    assert rows["facts"]["calls"].eq(4).all()
    assert rows["facts"]["reward"].eq(4).all()
    assert int((rows["turn_id"].amax(1) + 1 > 0).sum()) == 256


MODULE = """
import os
from urllib.request import urlopen, Request

def call(url):
    urlopen(Request(url + "/completions", b'{"prompt": "a=", "max_tokens": 2}')).read()

async def waits(url, example):
    import asyncio
    await asyncio.to_thread(call, url)
    return 1.0

def dies(url, example):
    call(url)
    if example["prompt"] == "b=":
        os._exit(3)
    call(url)
    return 1.0
"""


def test_agents_may_end_their_process(play, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    agents = ProcessAgents(num_workers=1, timeout=30.0)

    with closing([agents]):
        rows = play(f"{tmp_path}/mine.py:waits", prompts=["a=", "b="], agents=agents)
        assert rows["facts"]["reward"].tolist() == [1.0, 1.0]
        rows = play(f"{tmp_path}/mine.py:dies", prompts=["a=", "b=", "c="], agents=agents, wait=0.2)

    errors = dict(
        zip(rows["trajectory_id"].tolist(), decode_texts(rows["episode_error"]), strict=True)
    )
    assert errors[0] == errors[2] == ""
    assert "exit code 3" in errors[1]
    # Those that began anew made their two calls, not three.
    whole = rows["trajectory_id"] != 1
    assert rows["facts"]["calls"][whole].eq(2).all()


def test_an_agent_that_is_not_callable_is_refused(play, tmp_path):
    for agent in ("no_such.module", f"{tmp_path}/none.py:agent", "math.pi"):
        with pytest.raises(ConfigError, match="cannot be called"):
            play(agent)
    with pytest.raises(ConfigError, match="other processes cannot import"):
        play(failing, agents=ProcessAgents(num_workers=1))


def test_an_error_of_the_policy_ends_the_rollout(play):
    broken = tiny_policy("ab=")
    with torch.no_grad():
        for weight in broken.model.parameters():
            weight.fill_(torch.nan)

    with pytest.raises(NumericalError):
        play(lambda url, example: chat(url, "a=") and None, policy=broken)
