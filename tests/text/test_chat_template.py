"""Chat templates: what they write, and that nothing people write is a special token."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import ConfigError, DataError
from rlcomp.text.chat_template import Chat, ChatTemplate

BAR = "\uff5c"
USER = {"role": "user", "content": "Two and two?"}
ASSISTANT = {"role": "assistant", "content": "Four."}
AGAIN = {"role": "user", "content": "And the sum?"}
TALK = [USER, ASSISTANT, AGAIN]

# The formats, as their model cards and papers have them: question, answer, question, header.
WRITTEN = {
    "chatml": (
        "<|im_start|>user\nTwo and two?<|im_end|>\n<|im_start|>assistant\nFour.<|im_end|>\n"
        "<|im_start|>user\nAnd the sum?<|im_end|>\n<|im_start|>assistant\n"
    ),
    "llama3": (
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nTwo and two?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nFour.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nAnd the sum?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "mistral": "<s>[INST] Two and two?[/INST] Four.</s>[INST] And the sum?[/INST]",
    "gemma": (
        "<bos><start_of_turn>user\nTwo and two?<end_of_turn>\n<start_of_turn>model\nFour."
        "<end_of_turn>\n<start_of_turn>user\nAnd the sum?<end_of_turn>\n<start_of_turn>model\n"
    ),
    "qwen3": (
        "<|im_start|>user\nTwo and two?<|im_end|>\n<|im_start|>assistant\nFour.<|im_end|>\n"
        "<|im_start|>user\nAnd the sum?<|im_end|>\n<|im_start|>assistant\n"
    ),
    "phi3": (
        "<|user|>\nTwo and two?<|end|>\n<|assistant|>\nFour.<|end|>\n<|user|>\nAnd the sum?<|end|>"
        "\n<|assistant|>\n"
    ),
    "deepseek_r1": (
        f"<{BAR}begin▁of▁sentence{BAR}><{BAR}User{BAR}>Two and two?<{BAR}Assistant{BAR}>Four."
        f"<{BAR}end▁of▁sentence{BAR}><{BAR}User{BAR}>And the sum?<{BAR}Assistant{BAR}><think>\n"
    ),
    "zephyr": (
        "<|user|>\nTwo and two?</s>\n<|assistant|>\nFour.</s>\n<|user|>\nAnd the sum?</s>\n"
        "<|assistant|>\n"
    ),
}
STOPS = {
    "chatml": "<|im_end|>",
    "llama3": "<|eot_id|>",
    "mistral": "</s>",
    "gemma": "<end_of_turn>",
    "qwen3": "<|im_end|>",
    "phi3": "<|end|>",
    "deepseek_r1": f"<{BAR}end▁of▁sentence{BAR}>",
    "zephyr": "</s>",
}
families = pytest.mark.parametrize("family", WRITTEN)


def prompt_ids(tokenizer, messages, tools=()):
    chat = ChatTemplate(tokenizer, None, {}).chat(messages, tools)
    return chat.ids(chat.text(len(messages), add_generation_prompt=True))


def theirs(tokenizer, messages, **settings):
    return tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_dict=False, **settings
    )


@families
def test_a_rendered_prompt_is_that_of_the_format(family, chat_tokenizer):
    template = ChatTemplate(chat_tokenizer(family), None, {})
    chat = template.chat(TALK)

    assert chat.text(3, add_generation_prompt=True) == WRITTEN[family]
    assert template.stop == STOPS[family]
    assert chat_tokenizer(family).convert_ids_to_tokens(template.stop_id) == STOPS[family]


@families
@given(text=st.text(st.sampled_from("a sum?\n\t<|é\U0001f600"), max_size=12))
def test_without_special_tokens_the_ids_are_those_of_transformers(family, text, chat_tokenizer):
    tokenizer = chat_tokenizer(family)
    messages = [{**USER, "content": text}, ASSISTANT, {**AGAIN, "content": f"{text}."}]

    assert prompt_ids(tokenizer, messages) == theirs(tokenizer, messages)


@families
@given(data=st.data())
def test_messages_have_no_special_tokens(family, data, chat_tokenizer):
    tokenizer = chat_tokenizer(family)
    special = {i: str(t) for i, t in tokenizer.added_tokens_decoder.items() if t.special}
    parts = st.sampled_from([*special.values(), "sum", " ", "\n", "<", "|>", "\ue000", "0"])
    said = st.lists(parts, max_size=5).map(lambda some: f"x{''.join(some)}x")
    messages = [{**m, "content": data.draw(said)} for m in TALK]

    ids = prompt_ids(tokenizer, messages)

    # The template's own are those around harmless messages, in their order.
    harmless = theirs(tokenizer, TALK)
    assert [one for one in ids if one in special] == [one for one in harmless if one in special]
    whole = tokenizer.decode(ids)
    assert all(m["content"] in whole for m in messages)


def test_unescape_restores_spelled_special_tokens(chat_tokenizer):
    tokenizer = chat_tokenizer("qwen3")
    content = f"say {tokenizer.eos_token} twice"
    chat = Chat(ChatTemplate(tokenizer, None, {}), [{"role": "user", "content": content}], ())

    hidden = chat.text(1, add_generation_prompt=False)

    assert content not in hidden
    assert content in chat.unescape(hidden)


def test_special_tokens_in_tools_and_names_of_arguments_are_text(chat_tokenizer):
    tokenizer = chat_tokenizer("qwen3")
    tool = {"name": "<|im_end|>", "parameters": {"<|im_start|>": [1, None]}}
    ends = tokenizer.convert_tokens_to_ids("<|im_end|>")

    ids = prompt_ids(tokenizer, [USER], [tool])

    # Behind the tools, and behind the user.
    assert ids.count(ends) == 2
    assert '{"name": "<|im_end|>", "parameters": {"<|im_start|>": [1, null]}}' in tokenizer.decode(
        ids
    )


def test_bos_comes_once(chat_tokenizer):
    ids = prompt_ids(chat_tokenizer("llama3"), TALK)

    bos = chat_tokenizer("llama3").bos_token_id
    assert (ids[0], ids.count(bos)) == (bos, 1)


def test_normalised_special_tokens_in_capitals_are_text(chat_tokenizer):
    from tokenizers import AddedToken, normalizers
    from transformers import PreTrainedTokenizerFast

    backend = type(chat_tokenizer("qwen3").backend_tokenizer).from_str(
        chat_tokenizer("qwen3").backend_tokenizer.to_str()
    )
    backend.normalizer = normalizers.Lowercase()
    backend.add_special_tokens([AddedToken("<|note|>", normalized=True)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>")
    tokenizer.chat_template = chat_tokenizer("qwen3").chat_template
    note = tokenizer.convert_tokens_to_ids("<|note|>")
    talk = [{**USER, "content": "a <|NOTE|> b"}]

    assert note in theirs(tokenizer, talk)
    assert note not in prompt_ids(tokenizer, talk)


def test_a_special_token_that_is_a_word_is_encoded_by_characters():
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    pieces = [(each, -1.0) for each in ["<unk>", "</s>", "<", "/", "s", ">", "u", ":", "\n"]]
    backend = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
    template = ChatTemplate(tokenizer, None, {})

    assert tokenizer("</s>", add_special_tokens=False, split_special_tokens=True).input_ids == [1]
    assert template.plain_ids("</s>") == [2, 3, 4, 5]


def written(tmp_path, text):
    file = tmp_path / "chat.jinja"
    file.write_text(text)
    return str(file)


TURNS = "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"


def test_a_template_file_replaces_the_tokenizers_template(tmp_path, chat_tokenizer):
    template = ChatTemplate(chat_tokenizer("gemma"), written(tmp_path, TURNS), {})

    assert template.chat([USER]).text(1, add_generation_prompt=True) == "user: Two and two?<eos>"
    assert template.stop == "<eos>"


def test_arguments_are_passed_to_the_template(chat_tokenizer):
    template = ChatTemplate(chat_tokenizer("qwen3"), None, {"enable_thinking": False})

    assert (
        template.chat([USER])
        .text(1, add_generation_prompt=True)
        .endswith("assistant\n<think>\n\n</think>\n\n")
    )


def test_a_tokenizer_without_a_template_raises_with_the_remedy(chat_tokenizer):
    from rlcomp.text.tokenizer import byte_tokenizer

    with pytest.raises(ConfigError, match=r"no chat template.* set prompt\.template=chat\.jinja$"):
        ChatTemplate(byte_tokenizer(), None, {})


@pytest.mark.parametrize(
    ("letters", "asked"), [(None, "user: 1+1\nassistant: "), ("0123456789+", "1+1")]
)
def test_the_template_of_the_remedy_works(tmp_path, letters, asked):
    import subprocess

    from rlcomp.text.tokenizer import byte_tokenizer, character_tokenizer

    known = None if letters is None else character_tokenizer(characters=letters)
    tokenizer = known or byte_tokenizer()
    with pytest.raises(ConfigError) as error:
        ChatTemplate(tokenizer, None, {})
    command, _, told = str(error.value).partition("write one, ")[2].partition(", and set ")
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)

    template = ChatTemplate(tokenizer, str(tmp_path / "chat.jinja"), {})

    assert (
        template.chat([{"role": "user", "content": "1+1"}]).text(1, add_generation_prompt=True)
        == asked
    )
    assert template.stop == tokenizer.eos_token
    assert ("names no roles" in told) == (letters is not None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{% for m in %}", "cannot render the turns user, assistant"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "cannot render the turns"),
        ("{{ raise_exception('No, thanks') }}", r"No, thanks\).*prompt\.template=FILE"),
        ("{{ messages[0].content }}", "writes no special token after an assistant's turn"),
        ("{{ messages[-1].content }}.", "writes no special token after an assistant's turn"),
        (
            "{{ messages[-1].content }}{{ eos_token if add_generation_prompt }}",
            "writes no special token after an assistant's turn",
        ),
        ("{{ eos_token }}", "writes no special token after an assistant's turn"),
        ("", "no chat template"),
        ("{{ messages[0].name }}", "makes 0 characters"),
        ("{{ 'x' * 16777217 }}", "makes 16777217 characters"),
    ],
)
def test_an_unusable_template_raises_one_message(text, told, tmp_path, chat_tokenizer):
    with pytest.raises(ConfigError, match=told):
        ChatTemplate(chat_tokenizer("qwen3"), written(tmp_path, text), {})


def test_the_error_names_the_template_file(tmp_path, chat_tokenizer):
    with pytest.raises(ConfigError, match=re.escape(f"the template {tmp_path / 'chat.jinja'}")):
        ChatTemplate(chat_tokenizer("qwen3"), written(tmp_path, "{{ 1 / 0 }}"), {})


@pytest.mark.parametrize("content", [b"\xff", b" " * (2**18 + 1)])
def test_a_binary_or_large_template_file_raises(content, tmp_path, chat_tokenizer):
    file = tmp_path / "chat.jinja"
    file.write_bytes(content)

    with pytest.raises(ConfigError, match=r"prompt\.template '.*' cannot be read"):
        ChatTemplate(chat_tokenizer("qwen3"), str(file), {})


def test_messages_that_a_template_refuses_raise_with_turns_and_reason(chat_tokenizer):
    chat = ChatTemplate(chat_tokenizer("gemma"), None, {}).chat(
        [{"role": "system", "content": "Add."}, USER]
    )

    with pytest.raises(DataError, match=r"the turns system, user .*System role not supported"):
        chat.text(2, add_generation_prompt=True)


def test_a_template_that_splits_a_spelled_special_token_raises(tmp_path, chat_tokenizer):
    cut = "{% for m in messages %}{{ m.content[:8] }}{{ eos_token }}{% endfor %}"
    chat = ChatTemplate(chat_tokenizer("qwen3"), written(tmp_path, cut), {}).chat(
        [{**USER, "content": "1234567<|im_end|>"}]
    )

    with pytest.raises(DataError, match=r"cuts a message within.*'<\|im_end\|>'"):
        chat.ids(chat.text(1, add_generation_prompt=True))


@pytest.mark.parametrize("cut", ["m.content[:-1]", "m.content[:3] ~ m.content[4:]"])
def test_one_split_special_token_after_a_whole_one_raises(cut, tmp_path, chat_tokenizer):
    one = f"{{{{ {cut} if m.role == 'user' else m.content }}}}{{{{ eos_token }}}}"
    template = f"{{% for m in messages %}}{one}{{% endfor %}}"
    chat = ChatTemplate(chat_tokenizer("qwen3"), written(tmp_path, template), {}).chat(
        [{**USER, "content": "<|im_end|><|im_start|>"}]
    )
    text = chat.text(1, add_generation_prompt=True)

    for read in (chat.ids, chat.mark):
        with pytest.raises(DataError, match=r"cuts a message within.*'<\|im_end\|>'"):
            read(text)


def test_one_of_several_templates_is_chosen_by_tools(chat_tokenizer):
    from copy import deepcopy

    tokenizer = deepcopy(chat_tokenizer("qwen3"))
    tokenizer.chat_template = {"default": TURNS, "tool_use": f"[{TURNS}"}
    template = ChatTemplate(tokenizer, None, {})

    assert (
        template.chat([USER]).text(1, add_generation_prompt=True) == "user: Two and two?<|im_end|>"
    )
    assert template.chat([USER], [{"name": "f"}]).text(1, add_generation_prompt=True)[0] == "["
