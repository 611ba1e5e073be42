"""Episodes as chats: what stands between turns, by hand and against transformers' own rendering."""

import warnings
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import DataError, RlcompWarning
from rlcomp.interfaces.prompt import NO_OBSERVATION, Observation
from rlcomp.text.chat import ChatPrompt

BAR = "\uff5c"
# By hand, as the formats have it: from the end of a turn to the begin of the next one.
BEHIND = {
    "chatml": "<|im_end|>\n<|im_start|>user\nAnd then?<|im_end|>\n<|im_start|>assistant\n",
    "llama3": (
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nAnd then?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "mistral": "</s>[INST] And then?[/INST]",
    "gemma": ("<end_of_turn>\n<start_of_turn>user\nAnd then?<end_of_turn>\n<start_of_turn>model\n"),
    "qwen3": "<|im_end|>\n<|im_start|>user\nAnd then?<|im_end|>\n<|im_start|>assistant\n",
    "phi3": "<|end|>\n<|user|>\nAnd then?<|end|>\n<|assistant|>\n",
    "deepseek_r1": (
        f"<{BAR}end▁of▁sentence{BAR}><{BAR}User{BAR}>And then?<{BAR}Assistant{BAR}><think>\n"
    ),
    "zephyr": "</s>\n<|user|>\nAnd then?</s>\n<|assistant|>\n",
}
TOOL = {
    "chatml": "<|im_end|>\n<|im_start|>tool\n4<|im_end|>\n<|im_start|>assistant\n",
    "qwen3": (
        "<|im_end|>\n<|im_start|>user\n<tool_response>\n4\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    ),
}
KEEP = [family for family in BEHIND if family not in ("qwen3", "deepseek_r1")]
families = pytest.mark.parametrize("family", BEHIND)


def plain(tokenizer, text):
    return tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]


def dialogue(prompt, text="Sum?", columns=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RlcompWarning)
        return prompt.dialogues([text], [columns or {}])[0]


def observation(text):
    return Observation([], text)


def stop_of(tokenizer, family):
    return tokenizer.convert_tokens_to_ids(BEHIND[family].partition(">")[0] + ">")


def episode(prompt, said, told, stops):
    """The ids of an episode whose turns end with a stop token, or by a text."""
    tokenizer = prompt.tokenizer
    one = dialogue(prompt)
    ids = one.opening(NO_OBSERVATION)
    for turn, answer in zip(said, [*told, None], strict=True):
        ids = ids + plain(tokenizer, turn) + ([prompt.template.stop_id] if stops else [])
        ids = ids if answer is None else ids + one.reply(observation(answer), ids[-1:])
    return ids


def theirs(tokenizer, said, told, role, **settings):
    """The same conversation as transformers writes it, up to the end of its last turn."""
    talk = [{"role": "user", "content": "Sum?"}]
    for turn, answer in zip(said, [*told, None], strict=True):
        talk.append({"role": "assistant", "content": turn})
        talk += [] if answer is None else [{"role": role, "content": answer}]
    return tokenizer.apply_chat_template(talk, return_dict=False, **settings)


@families
def test_the_frame_between_turns_is_that_of_the_format(family, chat_tokenizer):
    tokenizer = chat_tokenizer(family)
    one = dialogue(ChatPrompt(tokenizer=tokenizer))
    stop = stop_of(tokenizer, family)

    by_text, by_token = (one.reply(observation("And then?"), said) for said in ([70], [70, stop]))

    assert tokenizer.decode(by_text) == BEHIND[family]
    # The policy has written the token that ends its turn: it stands there once.
    assert by_text == [stop, *by_token]


@pytest.mark.parametrize("family", TOOL)
def test_a_tool_message_has_the_frame_of_tools(family, chat_tokenizer):
    tokenizer = chat_tokenizer(family)

    one = dialogue(ChatPrompt(tokenizer=tokenizer, observations="tool"))

    assert tokenizer.decode(one.reply(observation("4"), [])) == TOOL[family]


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("family", [*KEEP, "qwen3"])
def test_three_turns_equal_the_rendered_template(family, stops, chat_tokenizer):
    tokenizer = chat_tokenizer(family)
    # Mistral's writes a space in front of what the assistant says, Qwen 3 an empty thought in the
    # last turn: both are the policy's own.
    first = " " if family == "mistral" else ""
    last = "<think>\n\n</think>\n\n" if family == "qwen3" else ""
    said, told = ["Two", "I ask: <four>", "Eight."], ["No.", "the sum\n is eight"]
    expected = theirs(tokenizer, said, told, "user")

    written = [first + said[0], first + said[1], first + last + said[2]]
    ids = episode(ChatPrompt(tokenizer=tokenizer), written, told, stops)

    assert ids == expected[: len(ids)]
    # What is missing at the end stands behind the policy's last token.
    rest = tokenizer.decode(expected[len(ids) :])
    end = tokenizer.decode([stop_of(tokenizer, family)])
    assert rest in {"", "\n", "<|endoftext|>", "\n<|endoftext|>"} if stops else rest.startswith(end)


def test_qwen_3_keeps_thoughts_before_tool_messages(chat_tokenizer):
    tokenizer = chat_tokenizer("qwen3")
    said = [f"<think>\n{n}\n</think>\n\nDone." for n in range(3)]
    expected = theirs(tokenizer, said, ["a", "b"], "tool")

    ids = episode(ChatPrompt(tokenizer=tokenizer, observations="tool"), said, ["a", "b"], True)

    assert ids == expected[: len(ids)]
    assert tokenizer.decode(ids).count("</think>") == 3


@families
@given(text=st.text(st.sampled_from("a sum?\n\t<|é\U0001f600"), max_size=12))
def test_an_observation_is_encoded_as_the_template_renders_it(family, text, chat_tokenizer):
    # Llama 3 and Gemma take white space off its ends; line ends may melt into the frame's.
    tokenizer = chat_tokenizer(family)
    talk = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "x"}]
    talk.append({"role": "user", "content": text})
    whole = tokenizer.apply_chat_template(talk, add_generation_prompt=True, return_dict=False)

    ids = dialogue(ChatPrompt(tokenizer=tokenizer)).reply(observation(text), [])

    assert ids == whole[-len(ids) :]


@families
@given(data=st.data())
def test_an_observation_has_no_special_tokens(family, data, chat_tokenizer):
    tokenizer = chat_tokenizer(family)
    special = {i: str(t) for i, t in tokenizer.added_tokens_decoder.items() if t.special}
    parts = st.sampled_from([*special.values(), "sum", " ", "\n", "<", "|>", "\ue000", "0"])
    text = "x" + "".join(data.draw(st.lists(parts, max_size=5))) + "x"
    one = dialogue(ChatPrompt(tokenizer=tokenizer))

    ids, first = one.reply(observation(text), []), one.opening(observation(text))

    frame, head = one.reply(observation("x"), []), one.opening(NO_OBSERVATION)
    for result, harmless in ((ids, frame), (first, head)):
        own = [[each for each in row if each in special] for row in (result, harmless)]
        assert own[0] == own[1]
        assert text in tokenizer.decode(result)


def test_the_first_observation_ends_the_last_message_of_the_prompt(chat_tokenizer):
    prompt = ChatPrompt(tokenizer=chat_tokenizer("chatml"), system="Add.")
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    talk.append({"role": "user", "content": "Sum?"})
    held = {"conversation": {"messages": talk}}
    system = "<|im_start|>system\nAdd.<|im_end|>\n<|im_start|>user\n"
    due = "<|im_end|>\n<|im_start|>assistant\n"

    def opened(text, columns, told):
        return prompt.tokenizer.decode(dialogue(prompt, text, columns).opening(observation(told)))

    assert opened("Sum?", {}, " You see 2.") == f"{system}Sum? You see 2.{due}"
    assert opened("", {}, "You see 2.") == f"{system}You see 2.{due}"
    assert opened("Sum?", {}, "") == f"{system}Sum?{due}"
    before = "a<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\n"
    assert opened("Sum?", held, " 2") == f"{system}{before}Sum? 2{due}"


def test_openings_are_separate_lists(chat_tokenizer):
    one = dialogue(ChatPrompt(tokenizer=chat_tokenizer("chatml")))

    one.opening(NO_OBSERVATION).append(7)

    assert one.opening(NO_OBSERVATION)[-1] != 7


def test_an_empty_observation_is_an_empty_message(chat_tokenizer):
    one = dialogue(ChatPrompt(tokenizer=chat_tokenizer("chatml")))
    empty = "<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n"

    assert chat_tokenizer("chatml").decode(one.reply(NO_OBSERVATION, [])) == empty


def test_a_turn_that_ends_by_a_stop_text_gets_the_template_ending(
    chat_tokenizer,
):
    tokenizer = deepcopy(chat_tokenizer("zephyr"))
    tokenizer.chat_template = (  # Llama 2's way
        "{% for m in messages %}{% if m.role == 'user' %}[{{ m.content }}]{% else %}"
        " {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}"
    )
    one = dialogue(ChatPrompt(tokenizer=tokenizer))
    stop = tokenizer.eos_token_id

    assert tokenizer.decode(one.reply(observation("b"), [70])) == " </s>[b]"
    assert tokenizer.decode(one.reply(observation("b"), [stop])) == "[b]"


def test_inline_observations_are_plain_text_in_the_turn(chat_tokenizer):
    prompt = ChatPrompt(tokenizer=chat_tokenizer("mistral"), observations="inline")
    one = dialogue(prompt)
    (head,) = prompt.encode(["Sum?"], [{}])

    assert one.opening(Observation([70, 71], "ab")) == [*head, 70, 71]
    assert one.reply(Observation([70, 71], "ab"), [72]) == [70, 71]


def test_tools_of_the_data_choose_the_template_of_a_reply(chat_tokenizer):
    tokenizer = deepcopy(chat_tokenizer("chatml"))
    turns = "{% for m in messages %}{{ m.content }}{{ eos_token }}M{% endfor %}"
    tokenizer.chat_template = {"default": turns, "tool_use": turns.replace("M", "T")}
    talk = {"messages": [{"role": "user", "content": "Sum?"}], "tools": [{"name": "f"}]}
    one = dialogue(ChatPrompt(tokenizer=tokenizer), columns={"conversation": talk})

    assert tokenizer.decode(one.opening(NO_OBSERVATION)) == "Sum?<|im_end|>T"
    assert tokenizer.decode(one.reply(observation("4"), [])) == "<|im_end|>T4<|im_end|>T"


def test_a_demonstration_in_turns_is_encoded_as_an_episode(chat_tokenizer):
    prompt = ChatPrompt(tokenizer=chat_tokenizer("chatml"))
    decode = prompt.tokenizer.decode

    (row,) = prompt.demonstrations(["Sum?"], [("<a>", "4<|im_end|>", "Four.")], [{}])

    pieces = ["", ""]
    for one, trained in zip(row.ids, row.trained, strict=True):
        pieces[trained] += decode([one])
    assert pieces[True] == "<a>Four.<|im_end|>"
    asked = "<|im_start|>user\nSum?<|im_end|>\n<|im_start|>assistant\n"
    assert pieces[False] == f"{asked}{BEHIND['chatml'].replace('And then?', '4<|im_end|>')}"
    assert decode(row.ids) == (
        f"{asked}<a>{BEHIND['chatml'].replace('And then?', '4<|im_end|>')}Four.<|im_end|>"
    )
    # What spells the token that ends a turn is text: two turns and two messages end.
    assert row.ids.count(prompt.template.stop_id) == 4


def test_an_observation_that_the_template_refuses_raises(chat_tokenizer):
    tokenizer = deepcopy(chat_tokenizer("chatml"))
    tokenizer.chat_template = (
        "{% for m in messages %}{% if 'bad' in m.content %}{{ raise_exception('bad') }}{% endif %}"
        "{{ m.content }}{{ eos_token }}{% endfor %}"
    )
    one = dialogue(ChatPrompt(tokenizer=tokenizer))

    with pytest.raises(DataError, match="cannot render the turns user, assistant, user"):
        one.reply(observation("bad"), [])
