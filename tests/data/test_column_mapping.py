import datetime
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.data.column_mapping import Fields, json_value
from rlcomp.data.records import Row, read_rows
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example
from rlcomp.verify import pattern


def fields(**changes) -> Fields:
    defaults = {
        "prompt_field": "question",
        "answer_field": "answer",
        "demonstration_field": None,
        "answer_pattern": None,
        "prompt_template": "{prompt}",
    }
    return Fields(**{**defaults, **changes})


def row(**columns) -> Row:
    return Row("data.jsonl:7", {"question": "1+1?", "answer": "two #### 2", **columns})


def parquet_of(folder, columns):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), folder / "a.parquet")
    return folder / "a.parquet"


def test_a_column_that_parquet_lacks_is_named_beside_all_it_has(tmp_path):
    file = parquet_of(tmp_path, {"question": ["a"], "answer": ["b"], "level": [3]})

    with pytest.raises(DataError, match=r"row 1: .*did you mean 'question'.*answer, level, quest"):
        fields(prompt_field="qestion").examples(read_rows(str(file)))


def test_without_more_ado_the_answer_is_its_column_and_the_demonstration():
    assert fields().examples([row()]) == [Example("1+1?", "two #### 2", "two #### 2")]


def test_the_pattern_finds_the_answer_and_the_demonstration_keeps_its_column():
    found = fields(answer_pattern=r"####\s*(.+)$", demonstration_field="answer").examples([row()])

    assert found == [Example("1+1?", "2", "two #### 2")]


def test_a_backtracking_pattern_is_refused_with_the_row(monkeypatch):
    monkeypatch.setattr(pattern, "_SECONDS", 0.05)

    with pytest.raises(ConfigError, match=r"data.jsonl:7: the pattern .* takes more than 0.05 s"):
        fields(answer_pattern="(a+)+b").examples([row(answer="a" * 40)])


def test_without_a_demonstration_column_the_found_answer_is_the_demonstration():
    assert fields(answer_pattern=r"####\s*(.+)$").examples([row()]) == [Example("1+1?", "2", "2")]


def test_the_template_words_the_prompt_with_any_column():
    template = "[{level}] {prompt} {{sic}}\n"

    found = fields(prompt_template=template).examples([row(level=3)])

    assert found[0].prompt == "[3] 1+1? {sic}\n"


def test_a_list_of_texts_fills_a_template_line_by_line_and_stays_a_column():
    tests = ["assert f(1) == 2", "assert f(2) == 3"]

    (found,) = fields(prompt_template="{prompt}\n{tests}").examples([row(tests=tests)])

    assert found.prompt == "1+1?\nassert f(1) == 2\nassert f(2) == 3"
    assert found.columns == {"tests": tests}


@pytest.mark.parametrize("told", [["a", 1], {"a": "b"}, [None]])
def test_no_other_list_fills_a_template(told):
    with pytest.raises(DataError, match=r"data.jsonl:7: column 'told' is the (list|dict) "):
        fields(prompt_template="{prompt}{told}").examples([row(told=told)])


def test_braces_in_the_data_are_left_alone():
    assert fields().examples([row(question="{x} {")])[0].prompt == "{x} {"


def test_a_template_with_an_unknown_column_names_those_there():
    with pytest.raises(ConfigError, match=r"\{leve\}.*did you mean 'level'.*known: answer, level"):
        fields(prompt_template="{leve} {prompt}").examples([row(level=3)])


@pytest.mark.parametrize("template", ["{", "{}", "{0}", "{prompt.x}", "{prompt[0]}", "{prompt:>9}"])
def test_a_template_that_is_not_plain_is_refused(template):
    with pytest.raises(ConfigError, match="prompt_template"):
        fields(prompt_template=template)


def test_a_row_without_the_column_names_line_and_nearest():
    with pytest.raises(DataError, match=r"data.jsonl:7: .*'anser'; did you mean 'answer'"):
        fields(answer_field="anser").examples([row()])


NO_TEXT = [
    (None, r"empty \(null\)"),
    (True, "the bool True"),
    (b"2", "the bytes b'2'"),
    (float("nan"), "the float nan"),
    (float("-inf"), "the float -inf"),
    (Decimal("Infinity"), r"the Decimal Decimal\('Infinity'\)"),
    (datetime.date(2020, 1, 31), r"the date datetime.date\(2020, 1, 31\)"),
    (["2"], r"the list \['2'\]"),
    ({"value": 2}, r"the dict \{'value': 2\}"),
]


@pytest.mark.parametrize("column", ["answer", "question"])
@pytest.mark.parametrize(("value", "shown"), NO_TEXT)
def test_a_column_that_holds_no_text_is_refused(column, value, shown):
    words = rf"data.jsonl:7: column '{column}' is {shown}, not a text or a finite number"
    with pytest.raises(DataError, match=words):
        fields().examples([row(**{column: value})])


def test_not_a_number_in_a_file_is_refused_by_its_line(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"question": "q", "answer": 1}\n{"question": "q", "answer": NaN}\n')

    with pytest.raises(DataError, match=r"a.jsonl:2: column 'answer' is the float nan"):
        fields().examples(read_rows(str(file)))


NUMBERS = [
    (72, "72"),
    (72.0, "72"),
    (2.5, "2.5"),
    (-0.125, "-0.125"),
    (100.0, "100"),
    (1e22, "10000000000000000000000"),
    (1e-7, "0.0000001"),
    (0.1, "0.1"),
    (Decimal("2.50"), "2.5"),
    (Decimal("1E+3"), "1000"),
]


@pytest.mark.parametrize(("number", "text"), NUMBERS)
def test_numbers_are_read_as_people_write_them(number, text):
    assert fields().examples([row(answer=number)])[0].answer == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_comes_back_from_its_text(number):
    text = fields().examples([row(answer=number)])[0].answer

    assert float(text) == number
    assert "e" not in text


def test_a_lone_surrogate_becomes_a_question_mark():
    text = json.loads('"a\\ud800b"')

    with pytest.warns(match=r"a lone surrogate.*, read as '\?': 1 \(first: data.jsonl:7\)"):
        assert fields().examples([row(), row(question=text)])[1].prompt == "a?b"


def test_half_characters_are_counted_by_row_wherever_a_text_is_read():
    half = "\udfff"
    rows = [
        row(question="1", answer="1", told="x", unread=half),
        row(question=half, answer=half, told="x", unread=""),
        row(question="3", answer="3", told=half, unread=""),
    ]
    rows = [Row(f"a:{place}", found.columns) for place, found in enumerate(rows)]

    with pytest.warns(match=r"read as '\?': 2 \(first: a:1\)$"):
        fields(prompt_template="{prompt} {told}").examples(rows)
    with pytest.warns(match=r"read as '\?': 2 \(first: a:1\)$"):
        fields(demonstration_field="told").examples(rows)


def test_contradicting_answers_are_counted_once():
    def asked(question, answer):
        return row(question=question, answer=answer)

    rows = [asked("a", "1"), asked("b", "2"), asked("a", "1"), asked("c", "3")]
    assert [example.answer for example in fields().examples(rows)] == ["1", "2", "1", "3"]

    with pytest.warns(match=r"contradict each other: 2 of 3 \(first: 'b'\)") as told:
        fields().examples([*rows, asked("b", "4"), asked("c", "0"), asked("b", "5")])
    assert len(told) == 1


def test_an_answer_that_does_not_match_names_the_line():
    with pytest.raises(DataError, match=r"data.jsonl:7: answer_pattern '== \(.\)' does not match"):
        fields(answer_pattern="== (.)").examples([row()])


def test_a_group_that_took_no_part_is_no_answer():
    with pytest.raises(DataError, match="does not match"):
        fields(answer_pattern="two|(three)").examples([row()])


@pytest.mark.parametrize(("pattern", "words"), [("(", "no regular expression"), ("a", "no group")])
def test_a_pattern_that_cannot_work_is_refused(pattern, words):
    with pytest.raises(ConfigError, match=words):
        fields(answer_pattern=pattern)


def test_other_columns_become_columns_of_the_example():
    rows = [row(solution="1+1=2", level=3, tests=["f(1) == 2"])]

    found = fields(demonstration_field="solution", prompt_template="{level}: {prompt}").examples(
        rows
    )

    assert found[0].columns == {"level": 3, "tests": ["f(1) == 2"]}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("NaN", "column 'level' is nan, which is not JSON"),
        ('{"low": [-Infinity]}', "column 'level' is .*not JSON"),
        ("[" * 65 + "]" * 65, "column 'level' holds lists or mappings more than 64 deep"),
        ('{"a":' * 500 + "1" + "}" * 500, "column 'level' holds lists or mappings more than 64"),
        ('"' + "x" * 2**20 + '"', "column 'level' holds 1048578 bytes, more than 1048576"),
        ("9" * 5000, "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
    ids=lambda value: value[:12],
)
def test_a_column_that_no_batch_holds_is_refused_by_its_line(tmp_path, value, told):
    file = tmp_path / "a.jsonl"
    sound = '{"question": "q", "answer": "a", "level": 1}\n'
    file.write_text(f'{sound}{{"question": "q", "answer": "a", "level": {value}}}\n')

    with pytest.raises(DataError, match=rf"a\.jsonl:2: .*{told}") as error:
        fields().examples(read_rows(str(file)))

    assert len(str(error.value)) < 400


def test_a_name_of_a_column_with_half_a_character_is_refused_by_its_line(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"question": "q", "answer": "a", "\\ud800": 1}\n')

    with pytest.raises(DataError, match=r"a\.jsonl:1: the name of column '\\ud800'"):
        fields().examples(read_rows(str(file)))


def test_an_answer_longer_than_a_batch_holds_is_refused_by_its_line():
    assert len(fields().examples([row(answer="x" * 2**20)])[0].answer) == 2**20
    with pytest.raises(DataError, match=r"data\.jsonl:7: column 'answer' holds 1048577 bytes"):
        fields().examples([row(answer="x" * (2**20 + 1))])


def test_a_column_holds_json_and_nothing_where_that_cannot_be():
    held = {
        "cost": Decimal("2.5"),
        "on": datetime.datetime(2024, 2, 29, 12),
        "picture": b"...",
        "calls": ({"arguments": (1, None)},),
        "easy": True,
    }

    assert json_value(held) == {
        "cost": 2.5,
        "on": "2024-02-29T12:00:00",
        "picture": None,
        "calls": [{"arguments": [1, None]}],
        "easy": True,
    }


@pytest.mark.parametrize(
    ("columns", "changes", "told"),
    [
        (["answer", "problem"], {}, r"no column 'question' .*; set task.prompt_field=problem$"),
        (["question", "target"], {}, r"no column 'answer' .*; set task.answer_field=target$"),
        (
            ["prompt", "completion"],
            {},
            r"^f:1: the row has no column 'question' and no column 'answer' \(known: completion, "
            r"prompt\); set task.prompt_field=prompt task.answer_field=completion$",
        ),
        (
            ["question", "answer", "z"],
            {"demonstration_field": "y"},
            r"no column 'y' .*; set task.demonstration_field to the column of demonstrations, or m",
        ),
        # Near by its letters only: what is asked is no solution, and no column is two things.
        (
            ["problem", "solution"],
            {},
            r"no column 'answer' \(known: problem, solution\); set task.prompt_field=problem "
            r"task.answer_field=solution$",
        ),
        (
            ["solution"],
            {"demonstration_field": "answer"},
            r"\(known: solution\); set task.answer_field=solution "
            r"task.demonstration_field=solution and task.prompt_field to the column of prompts$",
        ),
        (["question", "right", "id"], {}, r"; set task.answer_field=right$"),
        (["question", "id"], {}, r"; set task.answer_field to the column of answers, or mend the"),
        (["question", "a", "b"], {}, r"; set task.answer_field to the column of answers, or mend"),
        # The nearest name comes before the usual ones.
        (
            ["my_prompt", "prompt", "answer"],
            {"prompt_field": "my_promt"},
            r"; set task.prompt_field=my_prompt$",
        ),
        (
            ["question", "solution"],
            {"demonstration_field": "answer"},
            r"no column 'answer' \(known: question, solution\); set task.answer_field=solution "
            r"task.demonstration_field=solution$",
        ),
    ],
)
def test_missing_columns_are_refused_with_the_setting(columns, changes, told):
    with pytest.raises(DataError, match=told):
        fields(**changes).examples([Row("f:1", dict.fromkeys(columns, "2"))])


def test_the_input_of_an_instruction_is_said_to_be_left_out_with_a_line_that_joins_it(tmp_path):
    import json
    import shlex
    import subprocess
    import sys

    columns = [
        {"instruction": "Add them.", "input": "1 2", "output": "3"},
        {"instruction": "Name a colour.", "input": "", "output": "red"},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, columns)))
    with pytest.raises(DataError, match="leaves the column 'input' out; to ask it as") as error:
        fields().examples([Row("a.jsonl:1", columns[0])])
    command = str(error.value).partition("with python")[2].partition(", then task.path=a.new")[0]
    python = shlex.quote(sys.executable)
    subprocess.run(["bash", "-c", f"{python}{command}"], cwd=tmp_path, check=True)

    rows = map(json.loads, (tmp_path / "a.new.jsonl").read_text().splitlines())

    assert [row["instruction"] for row in rows] == ["Add them.\n\n1 2", "Name a colour."]


def test_pairs_of_preferences_are_named_in_the_message():
    columns = {"prompt": "?", "chosen": "a", "rejected": "b"}

    with pytest.raises(
        DataError, match=r"task.prompt_field=prompt .*; chosen and rejected are pref"
    ):
        fields().examples([Row("f:1", columns)])


def test_dotted_names_reach_into_a_column():
    columns = {"prompt": "1+1", "reward_model": {"ground_truth": "2", "style": "rule"}}
    dotted = fields(prompt_field="prompt", answer_field="reward_model.ground_truth")

    (example,) = dotted.examples([Row("f:1", columns)])

    assert (example.prompt, example.answer) == ("1+1", "2")
    assert example.columns == {"reward_model": {"ground_truth": "2", "style": "rule"}}
    with pytest.raises(DataError, match=r"set task.answer_field=reward_model.ground_truth$"):
        fields(prompt_field="prompt").examples([Row("f:1", columns)])
    with pytest.raises(DataError, match=r"no column 'prompt.x'; did"):
        fields(prompt_field="prompt.x").examples([Row("f:1", {**columns, "answer": "2"})])


def test_a_demonstration_of_a_conversation_has_to_be_there_too():
    chat = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]

    with pytest.raises(
        DataError, match=r"no column 'y' .*; set task.demonstration_field=solution$"
    ):
        fields(demonstration_field="y").examples([Row("f:1", {"messages": chat, "solution": "!"})])


def test_the_only_other_column_of_a_conversation_is_likely_the_answer():
    columns = {"prompt": [{"role": "user", "content": "?"}], "ground_truth": "2"}

    with pytest.raises(DataError, match=r"ground_truth, prompt\); set task.answer_field=ground_tr"):
        fields().examples([Row("f:1", columns)])
    with pytest.raises(DataError, match=r"\(known: prompt\); end the messages with the ass"):
        fields().examples([Row("f:1", {"prompt": columns["prompt"]})])


def test_an_answer_without_a_match_suggests_to_drop_the_pattern():
    with pytest.raises(DataError, match=r"ends in '2'; .*set task.answer_pattern=null$"):
        fields(answer_pattern="#### (.+)").examples([row(answer="2")])
