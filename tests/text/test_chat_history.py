"""Chat history: templates that go on behind what they wrote, and those that write it anew."""

import warnings
from copy import deepcopy

import pytest

from rlcomp.errors import ConfigError, RlcompWarning
from rlcomp.text.chat import ChatPrompt

KEEP = ("chatml", "llama3", "mistral", "gemma", "phi3", "zephyr")

LAST = (  # Mistral 7B v0.3 writes the system message into the last one of the user
    "{% for m in messages if m.role != 'system' %}{% if m.role == 'user' %}[INST] "
    "{% if loop.last and messages[0].role == 'system' %}{{ messages[0].content }} {% endif %}"
    "{{ m.content }}[/INST]{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
REFUSED = {
    "rounds are counted down": (
        "{% for m in messages %}{{ loop.revindex }}{{ m.content }}{{ eos_token }}{% endfor %}",
        {},
        r"prompt.observations is 'user', but .*'1\?.* becomes '5\?.*observations=inline.*FILE",
    ),
    "the system message moves": (LAST, {"system": "Be short."}, "rewrites turns when"),
    "old turns are left out": (
        "{% for m in messages[-2:] %}{{ m.content }}{{ eos_token }}{% endfor %}",
        {},
        "rewrites turns when later turns follow",
    ),
    "turns of the assistant are left out": (
        "{% for m in messages %}{% if loop.last or m.role == 'user' %}"
        "{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}",
        {},
        "leaves out turns of the assistant when later turns follow; set prompt.observations=inline",
    ),
    "no tools": (
        "{% for m in messages if m.role != 'tool' %}{{ m.content }}{{ eos_token }}{% endfor %}",
        {"observations": "tool"},
        "leaves messages of the role 'tool' out; set prompt.observations=inline",
    ),
    "it wants users and assistants": (
        "{% for m in messages %}{% if m.role not in ('user', 'assistant') %}"
        "{{ raise_exception('what?') }}{% endif %}{{ m.content }}{{ eos_token }}{% endfor %}",
        {"observations": "tool"},
        r"prompt.observations is 'tool', but .*user, assistant, tool .*what\?.*observations=inline",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_template_that_does_not_append_raises(name, chat_tokenizer):
    tokenizer = deepcopy(chat_tokenizer("zephyr"))
    tokenizer.chat_template, settings, told = REFUSED[name]
    prompt = ChatPrompt(tokenizer=tokenizer, **settings)

    with pytest.raises(ConfigError, match=told):
        prompt.dialogues(["Sum?"], [{}])
    assert ChatPrompt(tokenizer=tokenizer, **{**settings, "observations": "inline"}).dialogues(
        ["Sum?"], [{}]
    )


def test_a_template_that_does_not_append_with_tools_raises_with_tools(chat_tokenizer):
    tokenizer = deepcopy(chat_tokenizer("mistral"))
    plain_turns = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
    tokenizer.chat_template = {"default": plain_turns, "tool_use": REFUSED["no tools"][0]}
    prompt = ChatPrompt(tokenizer=tokenizer, observations="tool")
    talk = {"messages": [{"role": "user", "content": "Sum?"}], "tools": [{"name": "f"}]}

    assert prompt.dialogues(["Sum?"], [{}])
    with pytest.raises(ConfigError, match="leaves messages of the role 'tool' out"):
        prompt.dialogues(["Sum?"], [{"conversation": talk}])


THOUGHTS = {
    "qwen3": ({}, r"'assistant\\n<think>\\nHm.*becomes 'assistant\\nZyz.*observations=tool.*FILE"),
    "qwen3 without thinking": ({"arguments": {"enable_thinking": False}}, r"<think>\\n\\n</think>"),
    "deepseek_r1": ({}, "<think>.*as the policy wrote it"),
    "chatml": ({"thinking": "strip"}, "rewrites the thought of a turn when"),
}


@pytest.mark.parametrize("name", THOUGHTS)
def test_a_template_that_drops_earlier_thoughts_warns_once(name, chat_tokenizer):
    settings, told = THOUGHTS[name]
    prompt = ChatPrompt(tokenizer=chat_tokenizer(name.split()[0]), **settings)

    with pytest.warns(RlcompWarning, match=told) as result:
        prompt.dialogues(["Sum?", "And?"], [{}, {}])

    assert len(result) == 1


@pytest.mark.parametrize("family", [*KEEP, "qwen3"])
def test_a_template_that_keeps_thoughts_does_not_warn(family, chat_tokenizer):
    role = "tool" if family == "qwen3" else "user"

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ChatPrompt(tokenizer=chat_tokenizer(family), observations=role).dialogues(["?"], [{}])


# A thought of an earlier turn is left out, and so is the white space around it.
STRIPS = (
    "{% for m in messages %}{{ m.role + ':' }}{% if loop.last or m.role != 'assistant' %}"
    "{{ m.content }}{% else %}{{ m.content.split('</think>')[-1] | trim }}{% endif %}"
    "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)
# Every turn of the assistant is written in capitals when later turns follow.
SHOUTS = STRIPS.replace(".split('</think>')[-1] | trim", " | upper")
# What the assistant says begins with a space that the prompt does not end with.
SPACED = (
    "{% for m in messages %}{{ m.role + ':' }}{{ ' ' if m.role == 'assistant' else '' }}"
    "{{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)
OPENS = SPACED.replace("{{ ' ' if", "{{ 'says ' if").replace(
    "{{ 'assistant:' }}", "{{ 'assistant:says ' }}"
)


@pytest.mark.parametrize(
    ("template", "fault"), [(STRIPS, "warned"), (SHOUTS, "refused"), (SPACED, ""), (OPENS, "")]
)
def test_a_template_may_drop_thoughts_only(template, fault, chat_tokenizer):
    tokenizer = deepcopy(chat_tokenizer("zephyr"))
    tokenizer.chat_template = template
    prompt = ChatPrompt(tokenizer=tokenizer)

    if fault == "refused":
        with pytest.raises(ConfigError, match="observations"):
            prompt.dialogues(["Sum?"], [{}])
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        prompt.dialogues(["Sum?"], [{}])
    assert [each.category for each in told] == [RlcompWarning] * (fault == "warned")
