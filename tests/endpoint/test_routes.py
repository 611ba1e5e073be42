"""Routes of the endpoint: which path does what, and how many tokens an answer may have."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from rlcomp.endpoint.request_queue import RequestQueue
from rlcomp.endpoint.routes import Routes
from rlcomp.endpoint.server import RefusedError
from rlcomp.endpoint.trace import Trace
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.session import TurnSample
from rlcomp.errors import DataError
from rlcomp.text.special_tokens import MarkedTextCodec
from rlcomp.text.tokenizer import character_tokenizer

CALL = '<tool_call>{"name":"f","arguments":{"x": 1}}</tool_call>'
TOKENIZER = character_tokenizer(characters="abcd|", words=[CALL])
TEXTS = MarkedTextCodec(TOKENIZER)
KNOWN = TOKENIZER.get_vocab()
USER = {"role": "user", "content": "a"}


class Prompt:
    """Conversations as contents between bars."""

    continues = True

    def __init__(self):
        self.messages, self.tools = None, None

    def conversation(self, messages, tools):
        self.messages, self.tools = messages, tools
        text = "".join(f"{message['content']}|" for message in messages)
        if "z" in text:
            raise DataError("no token for 'z'")
        return text


class Server:
    """Routes, and a policy that says what it is asked to say here."""

    def __init__(self, *, episodes=2, max_new_tokens=6, context=None):
        self.desk = RequestQueue(episodes, lambda: Trace(TEXTS), wait=60.0, max_calls=8)
        self.prompt = Prompt()
        self.routes = Routes(
            self.desk,
            self.prompt,
            TEXTS.table,
            decodings=(Decoding(), Decoding(temperature=0.5)),
            max_new_tokens=max_new_tokens,
            context=context,
        )
        for episode in range(1, episodes):
            self.desk.end(episode)

    def post(self, name, /, method="POST", episode=0, **body):
        path = f"{self.routes.path(episode)}/{name}"
        return json.loads(self.routes(method, path, json.dumps(body).encode()).body)

    def ask(self, name, answer, **body):
        """The reply to a call that is answered in pieces, and the call."""
        with ThreadPoolExecutor(1) as threads:
            reply = threads.submit(self.post, name, **body)
            while not (self.desk._waiting or reply.done()):
                pass
            if reply.done():
                return reply.result(), None
            (call,) = self.desk.next_batch()
            ids = [KNOWN[piece] for piece in answer]
            texts = TurnSample(ids, [-0.5] * len(ids), False)
            self.desk.answer(call, [texts] * call.n)
            return reply.result(5), call


def refusal(call, *arguments, **settings):
    with pytest.raises(RefusedError) as caught:
        call(*arguments, **settings)
    return caught.value.status, caught.value.code


def test_each_episode_has_its_own_secret():
    routes = Server(episodes=3).routes
    paths = [routes.path(number) for number in range(3)]

    assert len({*paths}) == 3
    # 24 bytes, as 32 characters.
    assert [len(path) for path in paths] == [1 + 32 + 3] * 3
    for path in paths:
        assert routes.admits(path)
        assert routes.admits(f"{path}/completions")
        assert routes.admits(f"{path}/completions?x=y")
    for path in ("", "/", "/v1", f"x{paths[0]}", f"/{paths[0]}", paths[0][:-1] + "2"):
        assert not routes.admits(path)
        assert refusal(routes, "POST", path, b"{}") == (404, "not_found")


def test_the_list_of_models_has_one_entry():
    server = Server()

    (model,) = server.post("models", method="GET")["data"]

    assert model["id"] == "policy"
    assert refusal(server.post, "models") == (404, "not_found")
    assert refusal(server.post, "no_such") == (404, "not_found")
    assert refusal(server.post, "no_such", method="GET") == (404, "not_found")
    assert refusal(server.post, "completions", method="GET")[0] == 405


def test_a_completion_continues_its_text():
    server = Server()

    reply, call = server.ask("completions", "cd|", prompt="ab", stop="|", n=2, seed=5)

    assert [choice["text"] for choice in reply["choices"]] == ["cd", "cd"]
    assert reply["usage"] == {"prompt_tokens": 2, "completion_tokens": 6, "total_tokens": 8}
    assert call.context.ids == [KNOWN["a"], KNOWN["b"]]
    assert (call.episode, call.stops, call.n, call.seed) == (0, ("|",), 2, 5)
    assert server.desk.traces[0].calls == 1


def test_a_chat_continues_the_text_of_the_prompt_format():
    server = Server()
    tool = {"type": "function", "function": {"name": "f"}}

    reply, call = server.ask("chat/completions", "b", messages=[USER], tools=[tool])

    assert reply["choices"][0]["message"] == {"role": "assistant", "content": "b"}
    assert call.context.text == "a|"
    assert (server.prompt.messages, server.prompt.tools) == ([USER], [tool])


@pytest.mark.parametrize("continues", [True, False])
def test_leading_tokens_depend_on_the_prompt_format(continues, monkeypatch):
    server = Server()
    monkeypatch.setattr(TEXTS, "_bos", [KNOWN["d"]])
    server.prompt.continues = continues

    chat, call = server.ask("chat/completions", "b", messages=[USER])
    assert call.context.ids == [KNOWN["d"]] * continues + [KNOWN["a"], KNOWN["|"]]
    assert chat["usage"]["prompt_tokens"] == 2 + continues
    _, call = server.ask("completions", "b", prompt="c")
    assert call.context.ids == [KNOWN["d"], KNOWN["c"]]


def test_tool_calls_of_the_client_have_the_sampled_tokens():
    server = Server()
    tool = {"type": "function", "function": {"name": "f"}}
    reply, _ = server.ask("chat/completions", [CALL], messages=[USER], tools=[tool])
    texts = reply["choices"][0]["message"]
    assert json.loads(texts["tool_calls"][0]["function"]["arguments"]) == {"x": 1}

    server.ask("chat/completions", "b", messages=[USER, texts], tools=[tool])
    assert [message["content"] for message in server.prompt.messages] == ["a", CALL]

    server.post("begin")  # a new try knows nothing of it
    server.ask("chat/completions", "b", messages=[USER, texts], tools=[tool])
    assert [message["content"] for message in server.prompt.messages] == ["a", ""]


@pytest.mark.parametrize(
    ("context", "asked", "limit"),
    [
        (None, None, 6),
        (None, 4, 4),
        (None, 9, 6),
        (9, None, 6),
        (8, None, 6),
        (7, None, 5),
        (7, 9, 5),
        (7, 4, 4),
        (3, None, 1),
    ],
)
def test_an_answer_is_limited_by_the_context(context, asked, limit):
    server = Server(context=context)

    _, call = server.ask("completions", "b", prompt="ab", max_tokens=asked)

    assert call.limit == limit


def test_a_full_context_and_an_unencodable_text_are_refused():
    server = Server(context=2)

    assert refusal(server.post, "completions", prompt="ab") == (400, "context_length_exceeded")
    assert refusal(server.post, "completions", prompt="abc") == (400, "context_length_exceeded")
    assert refusal(server.post, "completions", prompt="z") == (400, "cannot_be_written")
    chat = [{"role": "user", "content": "z"}]
    assert refusal(server.post, "chat/completions", messages=chat) == (400, "cannot_be_written")
    assert refusal(server.post, "completions", prompt="a", temperature=0.7)[0] == 400


def test_allowed_decoding_options_may_be_requested():
    server = Server()

    for temperature in (1.0, 0.5):
        reply, _ = server.ask("completions", "b", prompt="a", temperature=temperature)
        assert reply["choices"][0]["text"] == "b"


def test_a_stream_has_server_sent_events():
    server = Server()
    path = server.routes.path(0)

    with ThreadPoolExecutor(1) as threads:
        body = json.dumps({"prompt": "a", "stream": True}).encode()
        sent = threads.submit(server.routes, "POST", f"{path}/completions", body)
        (call,) = server.desk.next_batch()
        server.desk.answer(call, [TurnSample([KNOWN["b"]], [-0.5], False)])

    assert sent.result().media_type == "text/event-stream"
    assert sent.result().body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("reward", [0, -1.5, 3.4e38, -3.4e38])
def test_a_reward_is_added(reward):
    server = Server()
    server.ask("completions", "b", prompt="a")

    assert server.post("reward", reward=reward) == {}
    assert server.desk.traces[0].posted == [reward]
    assert server.post("end", reward=reward) == {}
    assert server.desk.traces[0].returned == reward


@pytest.mark.parametrize("reward", [True, "1", [1], 3.5e38, -3.5e38])
def test_an_invalid_reward_is_refused(reward):
    server = Server()
    server.ask("completions", "b", prompt="a")

    assert refusal(server.post, "reward", reward=reward)[0] == 400
    assert refusal(server.post, "end", reward=reward)[0] == 400
    assert refusal(server.post, "reward") == (400, "invalid_request")


def test_an_agent_begins_and_ends():
    server = Server(episodes=1)

    assert server.post("begin") == {}
    assert server.desk.began == [True]
    assert server.post("end", failed="x" * 2000 + "\ud800") == {}
    assert server.desk.traces[0].failed == "x" * 1000
    assert server.desk.traces[0].returned is None
    assert refusal(server.post, "begin") == (410, "over")

    other = Server(episodes=1)
    other.post("end", failed="\ud800", reward=None)
    assert other.desk.traces[0].failed == "?"
