"""Clients of others, as they are: the openai package, and an agent framework."""

import asyncio

import pytest
import torch

from rlcomp.batch import decode_texts
from rlcomp.testing import tiny_policy
from rlcomp.text.chat import ChatPrompt
from rlcomp.text.tokenizer import byte_tokenizer

OPENED = []

HERMES = (
    "{% if tools %}{{ '<t>' + (tools | tojson) + '<eos>' }}{% endif %}"
    "{% for m in messages %}{{ '<' + m.role + '>' + m.content }}"
    "{% for c in m.tool_calls or [] %}{{ '<tool_call>' + (c.function | tojson) + '</tool_call>' }}"
    "{% endfor %}{{ '<eos>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Looks up.",
        "parameters": {"type": "object", "properties": {"x": {"type": "string"}}},
    },
}


@pytest.fixture(scope="module")
def chat_policy():
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = HERMES
    return tiny_policy(tokenizer=tokenizer, context_length=16_384)


def clients(url):
    openai = pytest.importorskip("openai")
    OPENED.append(openai.OpenAI(base_url=url, api_key="none", max_retries=0))
    return OPENED[-1]


@pytest.fixture(autouse=True)
def _closed():
    yield
    while OPENED:
        OPENED.pop().close()


def test_the_openai_client_works_unchanged(play, policy):
    def agent(url, example):
        client = clients(url)
        assert client.models.list().data[0].id == "policy"
        messages = [{"role": "user", "content": example["prompt"]}]
        for _ in range(2):
            made = client.chat.completions.create(
                model="policy", messages=messages, max_completion_tokens=4, logprobs=True, seed=1
            )
            content = made.choices[0].message.content
            assert made.usage.completion_tokens == len(made.choices[0].logprobs.content)
            messages += [
                {"role": "assistant", "content": content},
                {"role": "user", "content": "|"},
            ]
        text = client.completions.create(model="policy", prompt="b=", max_tokens=2, n=2, logprobs=1)
        assert len(text.choices) == 2
        streamed = client.chat.completions.create(model="policy", messages=messages, stream=True)
        texts = [chunk.choices[0].delta.content or "" for chunk in streamed]
        return float(len(texts) == 2)

    rows = play(agent)

    assert decode_texts(rows["episode_error"]) == [""] * len(rows)
    assert rows["facts"]["reward"].eq(1).all()
    assert rows["facts"]["calls"].eq(4).all()
    with torch.no_grad():
        assert (policy.log_probs(rows) - rows["rollout_log_probs"]).abs().max() < 1e-5


def test_errors_are_exceptions_of_the_openai_client(play):
    openai = pytest.importorskip("openai")
    replies = {}

    def agent(url, example):
        client = clients(url)
        with pytest.raises(openai.BadRequestError) as refused:
            client.completions.create(model="policy", prompt="a=", temperature=0.5)
        replies["refused"] = refused.value
        client.completions.create(model="policy", prompt="a=")
        return 0.0

    play(agent)

    assert replies["refused"].code == "unsupported_value"
    assert "decoding.temperature" in str(replies["refused"])


def test_agents_may_be_coroutines(play):
    openai = pytest.importorskip("openai")

    async def agent(url, example):
        async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:
            calls = [
                client.completions.create(model="policy", prompt=text, max_tokens=2)
                for text in ("a=", "b=", "c=")
            ]
            return float(len(await asyncio.gather(*calls)))

    rows = play(agent)

    assert rows["facts"]["reward"].tolist() == [3.0] * 3


def test_a_chat_with_tools_continues_its_row(play, chat_policy):
    """A policy that writes a tool call, which the client hands back in another form."""
    call = '<tool_call>{ "name": "look",  "arguments": {"x": "<eos>"} }</tool_call>'

    class Writes:
        """The policy, of which the first answer is given."""

        def __init__(self):
            self.given = [chat_policy.tokenizer(call)["input_ids"] + [1]]

        def __getattr__(self, name):
            return getattr(chat_policy, name)

        def session(self, prompts, **settings):
            made = chat_policy.session(prompts, **settings)
            if self.given:
                tokens, generate = self.given.pop(), made.generate

                def given(rows, *, limits, texts):
                    (real,) = generate(rows, limits=[1], texts=texts)
                    return [type(real)(tokens, [-1.0] * len(tokens), False)]

                made.generate = given
            return made

    def agent(url, example):
        client = clients(url)
        messages = [{"role": "user", "content": "find <eos>"}]
        made = client.chat.completions.create(model="policy", messages=messages, tools=[TOOL])
        message = made.choices[0].message
        assert made.choices[0].finish_reason == "tool_calls"
        assert message.content is None
        assert message.tool_calls[0].function.name == "look"
        assert message.tool_calls[0].function.arguments == '{"x": "<eos>"}'
        messages += [
            message,
            {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "7"},
        ]
        client.chat.completions.create(model="policy", messages=messages, tools=[TOOL])
        return 1.0

    prompt = ChatPrompt(tokenizer=chat_policy.tokenizer)
    rows = play(agent, policy=Writes(), prompt=prompt, max_new_tokens=4)

    assert decode_texts(rows["episode_error"]) == [""]
    # One row: <eos> stands in it where the template or the policy wrote it, and nowhere else.
    ids = rows["tokens"][0].tolist()
    sampled = rows["response_mask"][0].tolist()
    last = len(ids) - 1 - ids[::-1].index(1)
    assert ids[: last + 1].count(1) - sum(
        i == 1 and s for i, s in zip(ids, sampled, strict=True)
    ) in (3, 4)
    text = chat_policy.tokenizer.decode([i for i, s in zip(ids, sampled, strict=True) if s])
    assert text.startswith(call)


def test_an_agent_framework_works_unchanged(play, chat_policy):
    smolagents = pytest.importorskip("smolagents", reason="smolagents is not installed")

    class Look(smolagents.Tool):
        name, description, output_type = "look", "Looks up.", "string"
        inputs = {"x": {"type": "string", "description": "what"}}

        def forward(self, x: str) -> str:
            return x

    def agent(url, example):
        model = smolagents.OpenAIServerModel("policy", api_base=url, api_key="none")
        made = smolagents.ToolCallingAgent(
            tools=[Look()], model=model, max_steps=2, verbosity_level=-1
        )
        made.run(example["prompt"])
        return 1.0

    prompt = ChatPrompt(tokenizer=chat_policy.tokenizer)
    rows = play(agent, policy=chat_policy, prompt=prompt, max_new_tokens=4, prompts=["find a"])

    assert decode_texts(rows["episode_error"]) == [""] * len(rows)
    assert rows["facts"]["reward"].eq(1).all()
    assert rows["facts"]["calls"].ge(2).all()
    assert rows["response_mask"].sum() >= 2
    with torch.no_grad():
        assert (chat_policy.log_probs(rows) - rows["rollout_log_probs"]).abs().max() < 1e-5
