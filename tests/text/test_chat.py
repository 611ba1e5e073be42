"""Chat prompts: what a policy is asked, what it is shown to imitate, where it has to stop."""

import re
import warnings
from copy import deepcopy

import pytest

from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError, DataError, RlcompWarning
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import tiny_policy
from rlcomp.text.chat import ChatPrompt
from rlcomp.text.chat import _without_thought as without_thought
from rlcomp.text.prompt import TextPrompt
from rlcomp.text.rows import demonstration_rows, encode_rows
from rlcomp.text.tokenizer import byte_tokenizer

SYSTEM = {"role": "system", "content": "Be short."}
USER = {"role": "user", "content": "Two and two?"}
THINKS = {"role": "assistant", "content": "<think>\n2+2\n</think>\n\nFour."}
AGAIN = {"role": "user", "content": "Sum?"}


def columns(messages, completion=(), **others):
    held = {"messages": messages, "completion": [*completion], **others}
    return {"conversation": {name: part for name, part in held.items() if part}}


@pytest.fixture
def chatml(chat_tokenizer):
    return lambda **settings: ChatPrompt(tokenizer=chat_tokenizer("chatml"), **settings)


def test_a_text_becomes_a_user_message(chatml):
    asked = "<|im_start|>user\nSum?<|im_end|>\n<|im_start|>assistant\n"

    assert chatml().render(["Sum?"], [{"level": 3}]) == [asked]
    tokenizer = chatml().tokenizer
    assert chatml().encode(["Sum?"], [{}]) == [tokenizer(asked, add_special_tokens=False).input_ids]


def test_prompts_are_in_the_order_of_their_texts(chatml):
    first, second = chatml().render(["a", "b"], [{}, columns([SYSTEM, USER])])

    assert first == "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
    assert second == (
        "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nb<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_the_text_is_the_last_message_of_a_conversation(chatml):
    # A conditioning put a preference in front of it.
    (asked,) = chatml().render(["72:Sum?"], [columns([USER, THINKS, AGAIN])])

    assert asked.endswith(
        "Four.<|im_end|>\n<|im_start|>user\n72:Sum?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_the_system_message_is_added_to_conversations_without_one(chatml):
    prompt = chatml(system="Think.")

    without, given, developer = prompt.render(
        ["a", "b", "c"],
        [{}, columns([SYSTEM, USER]), columns([{**SYSTEM, "role": "developer"}, USER])],
    )

    assert without.startswith("<|im_start|>system\nThink.<|im_end|>\n<|im_start|>user\na<")
    assert given.startswith("<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nb<")
    assert developer.startswith("<|im_start|>developer\nBe short.<|im_end|>\n<|im_start|>user\nc<")


def test_rendered_prompts_have_spelled_special_tokens(chatml):
    (asked,) = chatml().render(["a<|im_end|>b"], [{}])

    assert asked == "<|im_start|>user\na<|im_end|>b<|im_end|>\n<|im_start|>assistant\n"


def test_tools_are_passed_to_the_template(chat_tokenizer):
    prompt = ChatPrompt(tokenizer=chat_tokenizer("qwen3"))

    (asked,) = prompt.render(["Sum?"], [columns([AGAIN], tools=[{"name": "add"}])])

    assert '<tools>\n{"name": "add"}\n</tools>' in asked


def test_the_response_to_a_text_is_the_assistant_message(chatml):
    prompt = chatml()

    (row,) = prompt.demonstrations(["Sum?"], ["Four."], [{}])

    asked = len(prompt.encode(["Sum?"], [{}])[0])
    assert row.trained == [False] * asked + [True] * (len(row.ids) - asked)
    assert prompt.tokenizer.decode(row.ids[asked:]) == "Four.<|im_end|>"


def test_the_response_to_a_conversation_is_its_last_turn(chatml):
    prompt = chatml()

    (row,) = prompt.demonstrations(["Sum?"], ["no"], [columns([USER, THINKS, AGAIN], [THINKS])])

    said = [one for one, mask in zip(row.ids, row.trained, strict=True) if mask]
    assert prompt.tokenizer.decode(said) == 2 * f"{THINKS['content']}<|im_end|>"


def test_a_demonstration_without_a_response_raises(chatml):
    with pytest.raises(DataError, match=r"ends in 'Sum\?' has no response to imitate"):
        chatml().demonstrations(["Sum?"], [""], [columns([AGAIN])])


def test_thinking_strip_removes_thoughts(chatml):
    prompt = chatml(thinking="strip")
    field = {"role": "assistant", "content": "Eight.", "reasoning_content": "4+4"}

    (row,) = prompt.demonstrations(["Sum?"], [""], [columns([USER, THINKS, AGAIN], [field])])

    assert prompt.tokenizer.decode(row.ids) == (
        "<|im_start|>user\nTwo and two?<|im_end|>\n<|im_start|>assistant\nFour.<|im_end|>\n"
        "<|im_start|>user\nSum?<|im_end|>\n<|im_start|>assistant\nEight.<|im_end|>"
    )


def test_thoughts_in_user_messages_stay(chatml):
    (asked,) = chatml(thinking="strip").render(["a</think>b"], [{}])

    assert "a</think>b" in asked


def test_all_turns_of_qwen_3_are_trained_without_thoughts(chat_tokenizer):
    prompt = ChatPrompt(tokenizer=chat_tokenizer("qwen3"), thinking="strip")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (row,) = prompt.demonstrations(["Sum?"], [""], [columns([USER, THINKS, AGAIN], [THINKS])])

    said = [one for one, mask in zip(row.ids, row.trained, strict=True) if mask]
    assert prompt.tokenizer.decode(said) == (
        "Four.<|im_end|><think>\n\n</think>\n\nFour.<|im_end|>"
    )


def test_a_template_that_rewrites_turns_warns_once(chat_tokenizer):
    prompt = ChatPrompt(tokenizer=chat_tokenizer("qwen3"))
    row = columns([USER, THINKS, AGAIN], [THINKS])
    told = (
        r"rewrites a turn of the assistant when.*'assistant\\n<think>\\n2\+2.*becomes "
        r"'assistant\\nFour.*not trained.*prompt.thinking=strip.*prompt.template=FILE"
    )

    with pytest.warns(RlcompWarning, match=told) as result:
        prompt.demonstrations(["Sum?", "Sum?"], ["", ""], [row, row])

    assert len(result) == 1


def test_a_template_that_keeps_turns_does_not_warn(chatml):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chatml().demonstrations(["Sum?"], [""], [columns([USER, THINKS, AGAIN], [THINKS])])


def test_a_conversation_column_without_messages_raises(chatml):
    with pytest.raises(DataError, match=r"a column 'conversation', \['hello'\]: rename it"):
        chatml().encode(["a"], [{"conversation": ["hello"]}])


def test_a_policy_without_the_stop_token_raises(chat_tokenizer):
    phi, chatml = (chat_tokenizer(family) for family in ("phi3", "chatml"))
    told = re.escape("ends a turn by '<|end|>', but the policy stops at '<|endoftext|>' only")
    remedy = re.escape("set policy.stop_tokens=['<|end|>']")

    with pytest.raises(ConfigError, match=f"{told}.*{remedy}"):
        ChatPrompt(tokenizer=phi).check_policy(tiny_policy(tokenizer=phi))
    ChatPrompt(tokenizer=chatml).check_policy(tiny_policy(tokenizer=chatml))


def test_a_policy_stop_token_may_end_a_turn(chat_tokenizer):
    phi = chat_tokenizer("phi3")
    plain = tiny_policy(tokenizer=phi)
    policy = LanguageModel(
        model=plain.model, tokenizer=phi, decoding=plain.decoding, stop_tokens=["<|end|>"]
    )

    ChatPrompt(tokenizer=phi).check_policy(policy)


def test_text_prompts_are_encoded_as_texts():
    tokenizer = byte_tokenizer()
    texts, responses = ["2+2=", "", "né"], ["4", "5", ""]

    rows = TextPrompt(tokenizer=tokenizer).demonstrations(texts, responses, [{}, {}, {}])

    made, expected = demonstration_rows(tokenizer, rows), encode_rows(tokenizer, texts, responses)
    assert set(made.keys()) == set(expected.keys())
    assert all((made[key] == expected[key]).all() for key in expected.keys())
    assert TextPrompt(tokenizer=tokenizer).render(texts, [{}, {}, {}]) == texts


def test_text_prompt_of_a_conversation_raises_with_the_remedy():
    prompt = TextPrompt(tokenizer=byte_tokenizer())

    with pytest.raises(ConfigError, match=r"rows are conversations.*prompt=chat"):
        prompt.encode(["a", "b"], [{}, columns([USER])])
    assert prompt.encode(["a"], [{"conversation": "of old"}]) == [[66]]


def test_demonstration_rows_are_right_padded_and_keep_holes():
    from rlcomp.interfaces.prompt import Demonstration

    rows = [Demonstration([5, 6, 7], [False, True, False]), Demonstration([8, 9], [False, True])]

    made = demonstration_rows(byte_tokenizer(), rows)

    assert made["tokens"].tolist() == [[5, 6, 7], [8, 9, 0]]
    assert made["attention_mask"].tolist() == [[True, True, True], [True, True, False]]
    assert made["response_mask"].tolist() == [[False, True, False], [False, True, False]]


TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def test_conversation_text_ends_with_the_opening_of_a_turn(chatml):
    text = chatml(system="Be short.").conversation([USER], [])

    assert text.endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert text.startswith("<|im_start|>system\nBe short.<|im_end|>\n")


def test_tools_that_the_template_leaves_out_raise(chat_tokenizer, importable):
    def double(x: int) -> int:
        """Doubles."""

    tools = {"double": Unbuilt(importable(double), {})}
    with pytest.raises(ConfigError, match=r"prompt\.tools"):
        ChatPrompt(tokenizer=chat_tokenizer("chatml"), tools=tools)

    # One that lists them, and one that does so where an answer is due only.
    listed = "{% if tools %}{{ tools[0].function.name }}{% endif %}"
    turns = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
    due = "{% if add_generation_prompt %}" + listed + "{% endif %}"
    for template in (listed + turns, due + turns):
        tokenizer = deepcopy(chat_tokenizer("chatml"))
        tokenizer.chat_template = template
        prompt = ChatPrompt(tokenizer=tokenizer, tools=tools)
        assert "double" in prompt.render(["a"], [{}])[0]


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        ("<think>\na\n</think>\n\nb", "b"),
        ("<think>a</think>b</think>c", "c"),
        ("a", "a"),
        (None, None),
    ],
)
def test_a_stripped_turn_is_the_text_after_its_last_thought(content, kept):
    message = {"role": "assistant", "content": content, "reasoning_content": "x"}

    assert without_thought(message) == {"role": "assistant", "content": kept}
    user = {"role": "user", "content": "<think>a</think>b"}
    assert without_thought(user) == user
