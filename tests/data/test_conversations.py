"""Conversations of rows: where they stand, how they are split, what is refused by name."""

import json
import re
import subprocess
import sys

import pytest

from rlcomp.data.column_mapping import Fields
from rlcomp.data.column_names import no_answer
from rlcomp.data.conversations import conversation_of
from rlcomp.data.records import Row
from rlcomp.errors import ConfigError, DataError, RlcompWarning

SYSTEM = {"role": "system", "content": "Be short."}
USER = {"role": "user", "content": "2+2?"}
FOUR = {"role": "assistant", "content": "4"}
AGAIN = {"role": "user", "content": "5+3?"}
EIGHT = {"role": "assistant", "content": "8"}
PLAIN = {
    "prompt_field": "question",
    "answer_field": "answer",
    "demonstration_field": None,
    "answer_pattern": None,
    "prompt_template": "{prompt}",
}


def found(prompt_field="question", **columns):
    return conversation_of(Row("a.jsonl:7", columns), prompt_field)


def example(fields=(), **columns):
    (made,) = Fields(**{**PLAIN, **dict(fields)}).examples([Row("a.jsonl:7", columns)])
    return made


def test_the_assistants_last_turn_is_what_to_imitate():
    talk = found(messages=[SYSTEM, USER, FOUR, AGAIN, EIGHT])

    assert talk.messages == [SYSTEM, USER, FOUR, AGAIN]
    assert talk.completion == [EIGHT]
    assert (talk.question, talk.response, talk.used) == ("5+3?", "8", ("messages",))


def test_messages_that_end_with_a_user_have_nothing_to_imitate():
    talk = found(messages=[USER])

    assert (talk.messages, talk.completion, talk.response) == ([USER], [], "")
    assert talk.column() == {"messages": [USER]}


@pytest.mark.parametrize("completion", ["8", [EIGHT]])
def test_a_completion_stands_beside_a_prompt(completion):
    talk = found(prompt=[USER, FOUR, AGAIN], completion=completion)

    assert (talk.messages, talk.completion) == ([USER, FOUR, AGAIN], [EIGHT])
    assert talk.used == ("prompt", "completion")
    assert talk.column() == {"messages": [USER, FOUR, AGAIN], "completion": [EIGHT]}


def test_the_column_may_have_any_name():
    assert found("talk", talk=[USER, FOUR], messages=[AGAIN]).messages == [USER]
    assert found("conversation", conversation=[USER]).used == ("conversation",)


def test_a_text_is_no_conversation_whatever_else_the_row_holds():
    assert found(question="2+2?", messages=[USER]) is None
    assert found(prompt="2+2?") is None
    assert found(messages="2+2?") is None
    assert found(messages=[]) is None
    assert found(messages=["2+2?"]) is None


def test_parts_of_text_are_joined_and_what_is_null_is_missing():
    parts = [{"type": "text", "text": "2+"}, {"type": "text", "text": "2?"}]

    talk = found(messages=[{"role": "user", "content": parts, "tool_calls": None}])

    assert talk.messages == [USER]


def test_half_a_character_is_read_as_a_question_mark():
    assert found(messages=[{"role": "user", "content": "\ud800!"}]).question == "?!"


def test_a_call_needs_no_text_and_its_answer_asks_for_a_response():
    call = {"role": "assistant", "tool_calls": [{"function": {"name": "add"}}], "content": None}
    tool = {"role": "tool", "content": "4", "name": "add"}

    talk = found(messages=[USER, call, tool])

    assert talk.messages[1] == {"role": "assistant", "tool_calls": call["tool_calls"]}
    assert talk.question == "4"


@pytest.mark.parametrize("tools", [[{"name": "add"}], ({"name": "add"},), '[{"name": "add"}]'])
def test_tools_are_schemas_or_their_json(tools):
    talk = found(messages=[USER], tools=tools)

    assert talk.column()["tools"] == [{"name": "add"}]


@pytest.mark.parametrize("tools", [None, "", " ", []])
def test_there_may_be_no_tools(tools):
    assert found(messages=[USER], tools=tools).tools == []


@pytest.mark.parametrize("kind", ["image", "image_url", "input_audio", "video"])
def test_other_parts_than_text_are_refused_by_name(kind):
    bad = {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": kind}]}

    with pytest.raises(DataError, match=rf"a.jsonl:7: message 2 of 'messages'.*'{kind}', not text"):
        found(messages=[SYSTEM, bad])


@pytest.mark.parametrize("name", ["image", "images", "audio", "audios", "video", "videos"])
def test_a_row_with_media_is_refused(name):
    with pytest.raises(DataError, match=rf"a.jsonl:7: it has '{name}', and .*read text only"):
        found(messages=[USER], **{name: ["x.png"]})
    assert found(messages=[USER], **{name: []}).messages == [USER]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"messages": [{"role": "User", "content": ""}]}, "role is 'User'; did you mean 'user'"),
        ({"messages": [{"content": "a"}]}, "role is None.*the roles are system, developer, user"),
        ({"messages": [{"role": "a|><|b", "content": ""}]}, r"message 1 .*role is 'a\|><\|b'"),
        ({"messages": [USER, "a"]}, "message 2 of 'messages' is 'a': write {role: user"),
        ({"messages": [{"role": "user"}]}, "content is None, not a text"),
        ({"messages": [{"role": "assistant", "tool_calls": []}]}, "content is None, not a text"),
        ({"messages": [{"role": "user", "content": 4}]}, "content is 4, not a text or a list"),
        ({"messages": [{"role": "user", "content": ["a"]}]}, "is .*'a'.*, not text"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "is 'text', not text"),
        ({"messages": [FOUR]}, "'messages' holds no message before the assistant's last one"),
        ({"messages": [SYSTEM]}, "ends in a turn of the system, which has no response"),
        ({"messages": [USER, FOUR, EIGHT]}, "ends in a turn of the assistant"),
        ({"prompt": [USER, FOUR]}, "'prompt' ends in a turn of the assistant.*'completion'"),
        ({"prompt": [USER, FOUR], "completion": "8"}, "ends in a turn of the assistant"),
        ({"prompt": [USER], "completion": [AGAIN, EIGHT]}, "'completion' must be a text, or"),
        ({"prompt": [USER], "completion": [FOUR, AGAIN]}, "'completion' must be a text, or"),
        ({"prompt": [USER], "completion": []}, "'completion' must be a text, or"),
        ({"prompt": [USER], "completion": 8}, "column 'completion' is 8, not a list of messages"),
        ({"messages": [USER], "tools": "[}"}, "column 'tools' is not JSON"),
        ({"messages": [USER], "tools": {"a": 1}}, "'tools' is {'a': 1}, not a list of JSON"),
        ({"messages": [USER], "tools": ["add"]}, r"'tools' is \['add'\], not a list of JSON"),
        ({"messages": [USER], "conversation": "a"}, "rename that column, or set task.prompt_f"),
    ],
)
def test_an_invalid_conversation_is_refused_with_the_row(columns, told):
    with pytest.raises(DataError, match=rf"a\.jsonl:7.*{told}"):
        found(**columns)


def test_an_example_has_the_last_message_as_prompt_and_all_as_a_column():
    made = example(messages=[SYSTEM, USER, FOUR, AGAIN, EIGHT], level=3, tools=[{"name": "add"}])

    assert (made.prompt, made.answer, made.demonstration) == ("5+3?", "8", "8")
    assert made.columns == {
        "level": 3,
        "tools": [{"name": "add"}],
        "conversation": {
            "messages": [SYSTEM, USER, FOUR, AGAIN],
            "completion": [EIGHT],
            "tools": [{"name": "add"}],
        },
    }


def test_conversations_that_end_alike_are_held_out_apart():
    one, other = (example(messages=[*before, AGAIN, EIGHT]) for before in ([], [USER, FOUR]))

    assert one.prompt == other.prompt
    assert one.held_out_by != other.held_out_by


def test_the_response_is_no_part_of_the_held_out_key():
    one, other = (example(messages=[AGAIN, last]) for last in (FOUR, EIGHT))

    assert one.held_out_by == other.held_out_by


def test_the_same_question_with_two_answers_is_told_and_a_like_end_is_not():
    rows = [Row("a:1", {"messages": [AGAIN, last]}) for last in (FOUR, EIGHT)]
    with pytest.warns(RlcompWarning, match="contradict each other: 1 of 1"):
        Fields(**PLAIN).examples(rows)


def test_the_answer_is_a_column_if_there_is_one():
    made = example(messages=[USER, FOUR], answer="four")

    assert (made.answer, made.demonstration) == ("four", "4")
    assert set(made.columns) == {"conversation"}


def test_without_a_pattern_the_answer_follows_the_thought():
    said = {"role": "assistant", "content": "<think>\n2+2\n</think>\n\n4"}

    made = example(messages=[USER, said])

    assert (made.answer, made.demonstration) == ("4", said["content"])


def test_the_pattern_finds_the_answer_in_what_the_assistant_says():
    said = {"role": "assistant", "content": "2+2 is #### 4"}

    assert example({"answer_pattern": "#### (.*)"}, messages=[USER, said]).answer == "4"


def test_a_column_of_demonstrations_takes_the_place_of_the_conversations_own():
    made = example({"demonstration_field": "said"}, messages=[USER, FOUR], said="It is 4.")

    assert (made.demonstration, made.answer) == ("It is 4.", "It is 4.")
    assert made.columns["conversation"]["completion"] == [
        {"role": "assistant", "content": "It is 4."}
    ]


def test_a_question_without_an_answer_is_refused_with_the_setting_that_names_its_column():
    with pytest.raises(DataError, match=r"no column 'answer' and no final.*task\.answer_field"):
        example(messages=[USER], solution="4")


def test_a_wording_of_the_prompt_does_not_go_with_messages():
    with pytest.raises(ConfigError, match=r"prompt_template is 'Q: {prompt}', but a\.jsonl:7"):
        example({"prompt_template": "Q: {prompt}"}, messages=[USER, FOUR])


@pytest.mark.parametrize("column", ["messages", "prompt", "question"])
def test_messages_as_a_text_of_json_are_refused(column):
    text = '[{"role": "user", "content": "?"}]'

    with pytest.raises(DataError, match=rf"'{column}' is a text that holds messages as JSON, and"):
        conversation_of(Row("f:1", {column: text}), "question")


def test_the_command_makes_messages_of_texts_of_json(tmp_path):
    file, new = tmp_path / "it's.jsonl", tmp_path / "it's.new.jsonl"
    file.write_text(json.dumps({"messages": json.dumps([USER, FOUR]), "level": 3}) + "\n")

    with pytest.raises(DataError) as raised:
        conversation_of(Row(f"{file}:1", {"messages": json.dumps([USER])}), "question")

    command = str(raised.value).partition(" with ")[2].rpartition(", then ")[0]
    subprocess.run(command.replace("python", sys.executable, 1), shell=True, check=True)
    assert json.loads(new.read_text()) == {"messages": [USER, FOUR], "level": 3}


def test_a_text_that_begins_with_a_bracket_is_a_text():
    assert conversation_of(Row("f:1", {"prompt": "[1, 2] sorted is"}), "prompt") is None


def test_another_format_is_refused_with_a_conversion():
    turns = [{"from": "human", "value": "?"}, {"from": "gpt", "value": "!"}]

    with pytest.raises(DataError, match=r"ShareGPT's format: write 'messages' with 'role' \(human"):
        conversation_of(Row("f:1", {"conversations": turns}), "question")
    assert conversation_of(Row("f:1", {"conversations": "x"}), "question") is None


def test_the_command_for_another_format_makes_messages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    turns = [{"from": who, "value": who[0]} for who in ("system", "human", "gpt")]
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": 1, "conversations": turns}) + "\n")

    with pytest.raises(DataError) as told:
        conversation_of(Row("a.jsonl:1", {"conversations": turns}), "question")
    command = re.search(
        r"write a.new.jsonl with (python .*), then task.path=a.new.jsonl", str(told.value)
    )
    subprocess.run(command[1].replace("python", sys.executable, 1), shell=True, check=True)

    said = [("system", "s"), ("user", "h"), ("assistant", "g")]
    assert json.loads((tmp_path / "a.new.jsonl").read_text()) == {
        "messages": [{"role": role, "content": content} for role, content in said],
        "id": 1,
    }


def test_no_other_column_is_asked_for_where_there_is_none():
    row = Row("f:1", {"messages": [{"role": "user", "content": "?"}]})

    told = no_answer(row, "answer", ["messages"])

    assert told.endswith(
        "turn of the assistant (known: messages); end the messages with the assistant's"
    )
