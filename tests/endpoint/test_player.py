"""The player of outside agents: what they are told, what becomes of it, what ends a rollout."""

import json
import time
import urllib.request
from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict

from rlcomp.batch import decode_texts, encode_texts
from rlcomp.endpoint import player as module
from rlcomp.endpoint.agent import post_report
from rlcomp.endpoint.player import TracePlayer
from rlcomp.endpoint.server import HttpLimits
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.testing import make_batch, tiny_policy


def ask(url, prompt="a=", **more):
    body = json.dumps({"prompt": prompt, **more}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/completions", body)) as reply:
        return json.load(reply)["choices"][0]["text"]


class Agents:
    """Agents that run one after the other, or are said not to have ended."""

    def __init__(self, *, why="", error=None):
        self.why, self.error = why, error
        self.checked, self.closed = [], 0

    def check(self, function):
        self.checked.append(function)

    def run(self, function, calls):
        if self.error is not None:
            raise self.error
        for call in calls:
            function(call["base_url"], call["example"])
        return [self.why] * len(calls)

    def close(self):
        self.closed += 1


def episodes(rows):
    """What is told of each episode."""
    return dict(
        zip(rows["trajectory_id"].tolist(), decode_texts(rows["episode_error"]), strict=True)
    )


def test_an_agent_gets_prompt_columns_and_seed(play):
    seen = []

    def agent(url, example):
        seen.append(example)
        ask(url)
        return 0.0

    play(agent, prompts=["a", "b"], group_size=2, columns=[{"n": 5}, {"n": 6}])

    seen.sort(key=lambda example: example["prompt"])
    assert [(e["prompt"], e["answer"], e["n"]) for e in seen] == [("a", "", 5)] * 2 + [
        ("b", "", 6)
    ] * 2
    assert len({example["seed"] for example in seen}) == 4
    before, seen[:] = [*seen], []
    play(agent, prompts=["a", "b"], group_size=2, columns=[{"n": 5}, {"n": 6}])
    assert {e["seed"] for e in seen} == {e["seed"] for e in before}
    seen.clear()
    play(agent, prompts=["a"], seed=4)
    assert not {e["seed"] for e in seen} & {e["seed"] for e in before}


def test_an_agent_gets_the_policy_prompt_and_the_answer(policy):
    seen = []
    player = TracePlayer(
        policy=policy, agent=lambda url, example: seen.append(example), max_new_tokens=2
    )
    texts = {"prompt": ["a", "b"], "policy_prompt": ["ca", "cb"], "answer": ["1", "2"]}
    batch = TensorDict({key: encode_texts(value) for key, value in texts.items()}, batch_size=[2])

    rows = player.play(batch, group_size=1, decoding=None, generator=None, seed=3)

    seen.sort(key=lambda example: example["prompt"])
    assert [(e["prompt"], e["answer"]) for e in seen] == [("ca", "1"), ("cb", "2")]
    assert decode_texts(rows["prompt"]) == ["a", "b"]
    assert decode_texts(rows["answer"]) == ["1", "2"]


def test_rows_of_an_episode_belong_to_it_and_to_its_group(play):
    def agent(url, example):
        for _ in range(2 if example["prompt"] == "a" else 1):
            ask(url, "b", max_tokens=2)

    rows = play(agent, prompts=["a", "b"], group_size=2)

    assert rows["trajectory_id"].tolist() == [0, 0, 1, 1, 2, 3]
    assert rows["group_id"].tolist() == [0, 0, 0, 0, 1, 1]
    assert decode_texts(rows["prompt"]) == ["a"] * 4 + ["b"] * 2
    assert rows["facts"]["rows"].tolist() == [2, 2, 2, 2, 1, 1]
    assert rows["facts"]["calls"].tolist() == [2, 2, 2, 2, 1, 1]


def test_the_response_is_the_last_answer_in_every_row_of_an_episode(play):
    answers = []

    def agent(url, example):
        ask(url, "a=", max_tokens=4)
        answers.append(ask(url, "b=", max_tokens=4))

    rows = play(agent)

    assert len(rows) == 2
    assert decode_texts(rows["response"]) == [answers[0]] * 2


def test_an_episode_without_a_call_is_one_row_without_response_tokens(play):
    rows = play(lambda url, example: 1.0)

    assert len(rows) == 1
    assert not rows["response_mask"].any()
    assert rows["attention_mask"].sum() == 1
    assert decode_texts(rows["response"]) == [""]
    assert rows["facts"]["calls"].tolist() == rows["facts"]["rows"].tolist() == [0.0]
    assert episodes(rows) == {0: "the agent made no call"}


def test_a_failure_before_the_first_call_keeps_its_reason(play):
    def agent(url, example):
        raise ZeroDivisionError

    assert episodes(play(agent))[0].startswith("ZeroDivisionError")


@pytest.mark.parametrize("why", ["", "it was killed"])
def test_an_agent_without_a_report_has_failed(why, play):
    rows = play(lambda url, example: ask(url), agents=Agents(why=why))

    assert rows["facts"]["calls"].tolist() == [1.0]
    if why:
        assert episodes(rows) == {0: why}
    else:
        assert "without a result" in episodes(rows)[0]


def test_agents_that_cannot_be_run_end_the_rollout_with_their_error(play):
    error = ConfigError("no such agent")
    agents = Agents(error=error)

    with pytest.raises(ConfigError) as caught:
        play(print, agents=agents)

    assert caught.value is error
    assert agents.closed == 1


def test_a_rollout_waits_for_its_agents(play):
    class Slow(Agents):
        done = False

        def run(self, function, calls):
            answers = super().run(function, calls)
            for call in calls:
                post_report(call["base_url"], "end", {"reward": 1.0})
            time.sleep(0.05)
            self.done = True
            return answers

    agents = Slow()
    play(lambda url, example: None, agents=agents)

    assert agents.done


def test_agents_are_checked_by_the_constructor_and_kept_open(play):
    agents = Agents()

    def agent(url, example):
        ask(url)

    play(agent, agents=agents)

    assert agents.checked == [agent]
    assert agents.closed == 0


class Broken:
    """A format of prompts whose conversations cannot be written, by a mistake of ours."""

    continues = True

    def __init__(self):
        self.policies = []

    def check_policy(self, policy):
        self.policies.append(policy)

    def conversation(self, messages, tools):
        raise ZeroDivisionError


def test_an_internal_error_ends_the_rollout(play, policy):
    prompt = Broken()

    def agent(url, example):
        body = b'{"messages": [{"role": "user", "content": "a"}]}'
        urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", body))

    with pytest.raises(ZeroDivisionError):
        play(agent, prompt=prompt)
    assert prompt.policies == [policy]


def test_the_endpoint_closes_with_the_rollout(play, monkeypatch):
    answers = {}

    def agent(url, example):
        answers["url"] = url
        ask(url)

    servers, serving = [], module.serving

    def kept(route, limits):
        servers.append(limits)
        return serving(route, limits)

    monkeypatch.setattr(module, "serving", kept)
    play(agent)

    with pytest.raises(OSError, match="refused"):
        ask(answers["url"])
    play(lambda url, example: 0.0, prompts=["a"] * 11, group_size=3)
    # Four connections an agent, and room for a few clients that leave theirs open.
    assert servers == [HttpLimits(connections=128), HttpLimits(connections=132)]


def test_another_decoding_distribution_is_used_and_may_be_requested(policy):
    answers = []

    def agent(url, example):
        answers.append([ask(url, temperature=temperature, max_tokens=4) for temperature in (0, 1)])

    player = TracePlayer(policy=policy, agent=agent, max_new_tokens=4)
    batch = make_batch(prompt=["a="] * 2)
    greedy = Decoding(temperature=0.0)

    rows = player.play(batch, group_size=1, decoding=greedy, generator=None, seed=3)
    assert episodes(rows) == {0: "", 1: ""}
    assert answers[0] == answers[1]
    assert answers[0][0] == answers[0][1]
    rows = player.play(batch, group_size=1, decoding=None, generator=None, seed=3)
    assert "HTTPError" in episodes(rows)[0]


def test_limits_of_player_and_policy_apply(policy):
    player = TracePlayer(policy=policy, agent=print, max_calls=7, max_new_tokens=5)

    assert (player.limits.turns, player.limits.turn_tokens) == (7, 5)
    assert player.limits.context == policy.context_length == 64
    plain = TracePlayer(policy=policy, agent=print, max_new_tokens=5)
    assert (plain.limits.turns, plain.wait) == (32, 1.0)


def test_a_policy_without_sessions_is_refused(policy):
    without = SimpleNamespace(tokenizer=policy.tokenizer, context_length=64)

    with pytest.raises(ConfigError, match="session"):
        TracePlayer(policy=without, agent=print, max_new_tokens=5)
    routed = SimpleNamespace(
        session=policy.session,
        tokenizer=policy.tokenizer,
        context_length=64,
        decoding=Decoding(keep_routing="rollout"),
    )
    with pytest.raises(ConfigError, match="routing"):
        TracePlayer(policy=routed, agent=print, max_new_tokens=5)


def test_rows_have_the_version_of_the_weights(play):
    policy = tiny_policy("a=", context_length=64)
    for _ in range(3):
        policy.updated()

    rows = play(lambda url, example: ask(url), policy=policy, max_new_tokens=2)

    assert rows["policy_version"][rows["response_mask"]].unique().tolist() == [3]
    assert torch.equal(rows["response_mask"], rows["policy_version"] == 3)
