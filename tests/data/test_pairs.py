"""Pairs of messages through a chat template: one prompt, two answers, only they are trained."""

import pytest

from components.task.preferences import Preferences
from rlcomp.data.pairs import pair_rows
from rlcomp.data.preference_rows import preference_examples
from rlcomp.data.records import Row
from rlcomp.errors import DataError
from rlcomp.text.chat import ChatPrompt
from rlcomp.text.tokenizer import byte_tokenizer

TEMPLATE = (
    "{% for turn in messages %}{{ turn.role[0] }}:{{ turn.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
)


@pytest.mark.parametrize(
    "row",
    [
        '{"prompt": "1?", "chosen": [{"role": "assistant", "content": "yes"}], '
        '"rejected": [{"role": "assistant", "content": "no"}]}',
        '{"prompt": [{"role": "user", "content": "1?"}], "chosen": "yes", "rejected": "no"}',
        r'{"chosen": "\n\nHuman: 1?\n\nAssistant: yes", '
        r'"rejected": "\n\nHuman: 1?\n\nAssistant: no"}',
    ],
)
def test_both_answers_follow_the_same_prompt(tmp_path, row):
    (tmp_path / "chat.jinja").write_text(TEMPLATE)
    (tmp_path / "pairs.jsonl").write_text(row + "\n")
    tokenizer = byte_tokenizer()
    prompt = ChatPrompt(tokenizer=tokenizer, template=str(tmp_path / "chat.jinja"))
    task = Preferences(path=str(tmp_path / "pairs.jsonl"), dialogues="messages")

    rows = pair_rows(tokenizer, prompt, [task.example(0)])

    whole = [tokenizer.decode(one["tokens"][one["attention_mask"]]) for one in rows]
    trained = [tokenizer.decode(one["tokens"][one["response_mask"]]) for one in rows]
    assert whole == ["u:1?<eos>a:yes<eos>", "u:1?<eos>a:no<eos>"]
    assert trained == ["yes<eos>", "no<eos>"]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"input": "1?"}, "the prompt is None, not a text; set task.prompt_field=input"),
        ({"asked": "1?", "by": "me"}, r"name its column, task.prompt_field \(known: asked, by, ch"),
    ],
)
def test_a_pair_without_its_prompt_is_told_which_column_may_hold_it(columns, told):
    row = Row("f:1", {**columns, "chosen": "yes", "rejected": "no"})

    with pytest.raises(DataError, match=told):
        preference_examples(row, "prompt", "messages")


def test_a_completion_without_its_label_is_no_preference():
    row = Row("f:1", {"prompt": "1?", "completion": "yes"})

    with pytest.raises(DataError, match=r"f:1: .*no "):
        preference_examples(row, "prompt", "messages")
