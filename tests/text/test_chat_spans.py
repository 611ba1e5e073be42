"""Assistant spans: which tokens are trained, by hand and against transformers' own mask."""

from itertools import groupby

import pytest
from tokenizers import pre_tokenizers

from rlcomp.errors import DataError
from rlcomp.text.chat_spans import assistant_spans, difference
from rlcomp.text.chat_template import ChatTemplate

BAR = "\uff5c"
EOS = f"<{BAR}end▁of▁sentence{BAR}>"
TALK = [
    {"role": "user", "content": "Two and two?"},
    {"role": "assistant", "content": "Four."},
    {"role": "user", "content": "And the sum?"},
    {"role": "assistant", "content": "Eight, I think."},
]
THOUGHT = [
    TALK[0],
    {"role": "assistant", "content": "<think>\n2+2\n</think>\n\nFour."},
    TALK[2],
    {"role": "assistant", "content": "<think>\n4+4\n</think>\n\nEight."},
]


def demonstration(tokenizer, messages, unchanged_only=True, tools=(), arguments=None):
    template = ChatTemplate(tokenizer, None, arguments or {})
    chat = template.chat(messages, tools)
    return assistant_spans(template, chat, unchanged_only=unchanged_only).demonstration(chat)


def trained(tokenizer, row):
    """The trained runs of a row, as texts."""
    runs = groupby(zip(row.ids, row.trained, strict=True), key=lambda pair: pair[1])
    return [tokenizer.decode([one for one, _ in run]) for mask, run in runs if mask]


def theirs(tokenizer, messages, **settings):
    result = tokenizer.apply_chat_template(
        messages, return_assistant_tokens_mask=True, return_dict=True, **settings
    )
    return result["input_ids"], result["assistant_masks"]


# What the policy has to write in each format, the token that ends its turn included.
TURNS = {
    "chatml": ["Four.<|im_end|>", "Eight, I think.<|im_end|>"],
    "llama3": ["Four.<|eot_id|>", "Eight, I think.<|eot_id|>"],
    "mistral": [" Four.</s>", " Eight, I think.</s>"],
    "gemma": ["Four.<end_of_turn>", "Eight, I think.<end_of_turn>"],
    "phi3": ["Four.<|end|>", "Eight, I think.<|end|>"],
    "zephyr": ["Four.</s>", "Eight, I think.</s>"],
}


@pytest.mark.parametrize("family", TURNS)
def test_every_assistant_turn_is_trained_up_to_its_end(family, chat_tokenizer):
    row = demonstration(chat_tokenizer(family), TALK)

    assert trained(chat_tokenizer(family), row) == TURNS[family]


@pytest.mark.parametrize("family", TURNS)
def test_the_mask_equals_that_of_generation_marks(family, chat_tokenizer):
    ids, mask = theirs(chat_tokenizer(family), TALK)

    row = demonstration(chat_tokenizer(family), TALK)

    # The row ends where the policy stops: what the template writes behind is left out.
    size = len(row.ids)
    assert row.ids == ids[:size]
    assert [int(one) for one in row.trained] == mask[:size]
    assert 0 <= len(ids) - size <= 2
    assert not any(mask[size:])


@pytest.mark.parametrize("family", TURNS)
def test_a_turn_follows_the_prompt_of_a_rollout(family, chat_tokenizer):
    tokenizer = chat_tokenizer(family)

    row = demonstration(tokenizer, TALK)

    for turn in (1, 3):
        asked = tokenizer.apply_chat_template(
            TALK[:turn], add_generation_prompt=True, return_dict=False
        )
        assert row.ids[: len(asked)] == asked
        assert (row.trained[len(asked) - 1], row.trained[len(asked)]) == (False, True)


def test_marks_without_the_stop_token_differ_by_that_token(chat_tokenizer):
    from copy import deepcopy

    tokenizer = deepcopy(chat_tokenizer("chatml"))
    tokenizer.chat_template = tokenizer.chat_template.replace(
        "{{- message['content'] + '<|im_end|>' -}}{%- endgeneration -%}",
        "{{- message['content'] -}}{%- endgeneration -%}{{- '<|im_end|>' -}}",
    )
    end = tokenizer.eos_token_id

    row = demonstration(tokenizer, TALK)

    _, mask = theirs(tokenizer, TALK)
    extra = [n for n, one in enumerate(row.trained) if one and not mask[n]]
    assert len(extra) == 2
    assert {row.ids[n] for n in extra} == {end}
    assert sum(row.trained) == sum(mask) + 2


def test_a_spelled_special_token_in_a_turn_is_text(chat_tokenizer):
    tokenizer = chat_tokenizer("chatml")
    talk = [TALK[0], {"role": "assistant", "content": "By <|im_end|>!"}]

    row = demonstration(tokenizer, talk)

    assert trained(tokenizer, row) == ["By <|im_end|>!<|im_end|>"]
    assert row.ids.count(tokenizer.eos_token_id) == 2


def test_qwen_3_trains_the_last_turn_only(chat_tokenizer):
    tokenizer = chat_tokenizer("qwen3")

    row = demonstration(tokenizer, THOUGHT)

    assert trained(tokenizer, row) == ["<think>\n4+4\n</think>\n\nEight.<|im_end|>"]
    assert "2+2" not in tokenizer.decode(row.ids)


def test_a_rewritten_turn_is_reported_in_both_forms(chat_tokenizer):
    template = ChatTemplate(chat_tokenizer("qwen3"), None, {})
    chat = template.chat(THOUGHT, ())

    new, later = assistant_spans(template, chat, unchanged_only=True).rewritten

    # Ten characters from before the place where the two differ.
    assert new == "assistant\n<think>\n2+2\n</think>\n\nFour.<|im_end|>\n"
    assert later.startswith("assistant\nFour.<|im_end|>\n<|im_start|>user\n")


def test_qwen_3_trains_all_turns_unless_unchanged_only(chat_tokenizer):
    tokenizer = chat_tokenizer("qwen3")

    row = demonstration(tokenizer, TALK, unchanged_only=False)

    assert trained(tokenizer, row) == [
        "Four.<|im_end|>",
        "<think>\n\n</think>\n\nEight, I think.<|im_end|>",
    ]


def test_an_empty_thought_of_the_prompt_is_not_trained(chat_tokenizer):
    tokenizer = chat_tokenizer("qwen3")

    row = demonstration(tokenizer, TALK[:2], arguments={"enable_thinking": False})

    assert trained(tokenizer, row) == ["Four.<|im_end|>"]


def test_tool_calls_are_trained_and_tool_answers_are_not(chat_tokenizer):
    tokenizer = chat_tokenizer("qwen3")
    call = {"function": {"name": "add", "arguments": {"a": 2}}}
    talk = [
        TALK[0],
        {"role": "assistant", "reasoning_content": "ask", "tool_calls": [call]},
        {"role": "tool", "content": "4"},
        {"role": "assistant", "content": "Four."},
    ]

    row = demonstration(tokenizer, talk, tools=[{"name": "add"}])

    assert trained(tokenizer, row) == [
        '<think>\nask\n</think>\n\n\n<tool_call>\n{"name": "add", "arguments": {"a": 2}}\n'
        "</tool_call><|im_end|>",
        "<think>\n\n</think>\n\nFour.<|im_end|>",
    ]


def test_deepseek_r1_is_trained_after_the_opening_of_the_thought(chat_tokenizer):
    tokenizer = chat_tokenizer("deepseek_r1")

    row = demonstration(tokenizer, THOUGHT)

    asked = tokenizer.apply_chat_template(
        THOUGHT[:3], add_generation_prompt=True, return_dict=False
    )
    assert row.ids[: len(asked)] == asked
    assert tokenizer.decode(asked).endswith(f"<{BAR}Assistant{BAR}><think>\n")
    assert trained(tokenizer, row) == [f"4+4\n</think>\n\nEight.{EOS}"]


def test_reasoning_content_is_the_thought(chat_tokenizer):
    tokenizer = chat_tokenizer("deepseek_r1")
    talk = [TALK[0], {**TALK[1], "reasoning_content": "2+2\n"}]

    row = demonstration(tokenizer, talk)

    assert trained(tokenizer, row) == [f"2+2\n</think>\n\nFour.{EOS}"]


def test_a_demonstration_without_the_opening_of_its_turn_raises(chat_tokenizer):
    with pytest.raises(DataError, match=r"opens a turn with '<think>\\n'.*'Eight, I think\.'"):
        demonstration(chat_tokenizer("deepseek_r1"), TALK)


def test_a_turn_without_a_stop_token_raises(tmp_path, chat_tokenizer):
    file = tmp_path / "chat.jinja"
    file.write_text("{% for m in messages %}{{ m.content }}{{ m.name or eos_token }}{% endfor %}")
    template = ChatTemplate(chat_tokenizer("chatml"), str(file), {})
    chat = template.chat([TALK[0], {**TALK[1], "name": "stop"}])

    with pytest.raises(DataError, match=r"does not end the turn 'Four\.stop' by '<\|im_end\|>'"):
        assistant_spans(template, chat, unchanged_only=True)


def test_a_first_message_of_the_assistant_is_not_trained(chat_tokenizer):
    tokenizer = chat_tokenizer("chatml")

    row = demonstration(tokenizer, [{"role": "assistant", "content": "Hello."}, *TALK])

    assert trained(tokenizer, row) == TURNS["chatml"]


def test_the_leading_space_of_a_tokenizer_comes_once():
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    # As the sentencepiece of Llama 2 and Mistral.
    words = {"</s>": 0, "▁": 1, "a": 2, "b": 3, ":": 4, "<unk>": 5}
    backend = Tokenizer(models.BPE(words, [], unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    backend.decoder = decoders.Metaspace(prepend_scheme="first")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role == 'user' and 'b:' or 'a:' }}{{ m.content }}"
        "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}"
    )
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bb"}]

    row = demonstration(tokenizer, talk)

    # "▁b:a</s>a:bb</s>": no second space in front of what is trained.
    assert row.ids == [1, 3, 4, 2, 0, 2, 4, 3, 3, 0]
    assert row.trained == [False] * 7 + [True] * 3


def test_a_token_across_the_border_of_a_turn_is_split(chat_tokenizer):
    from copy import deepcopy

    # GPT-2's way of cutting texts takes the last of two line ends to the word behind them.
    tokenizer = deepcopy(chat_tokenizer("llama3"))
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    asked = tokenizer.apply_chat_template(TALK[:1], add_generation_prompt=True, return_dict=False)
    whole = tokenizer.apply_chat_template(TALK[:2], return_dict=False)
    assert whole[: len(asked)] != asked

    row = demonstration(tokenizer, TALK)

    assert row.ids[: len(asked)] == asked
    assert trained(tokenizer, row) == TURNS["llama3"]
    assert tokenizer.decode(row.ids) == tokenizer.apply_chat_template(TALK, tokenize=False)


@pytest.mark.parametrize(
    ("new", "later", "shown"),
    [
        # Ten characters before the first that differs.
        ("0123456789abcX", "0123456789abcYZ", ("3456789abcX", "3456789abcYZ")),
        ("abX", "abY", ("abX", "abY")),
        ("0123456789ab", "0123456789abcd", ("23456789ab", "23456789abcd")),
        ("0123456789abcd", "0123456789ab", ("23456789abcd", "23456789ab")),
    ],
)
def test_difference_has_some_common_text(new, later, shown, chat_tokenizer):
    template = ChatTemplate(chat_tokenizer("chatml"), None, {})
    chat = template.chat([{"role": "user", "content": "a"}], ())

    assert difference(chat, new, later) == shown
