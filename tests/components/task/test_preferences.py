"""Preferences from files; of single rows tests/data/test_preference_rows.py tells."""

import json

import pytest

from components.task.labels import PreferenceTask
from rlcomp.data.pairs import pair_rows
from rlcomp.errors import DataError, RlcompWarning
from rlcomp.text.prompt import TextPrompt
from rlcomp.text.tokenizer import byte_tokenizer

PAIR = {"prompt": "1?", "chosen": "yes", "rejected": "no"}
RATED = {"prompt": "1?", "responses": ["a", "b"], "ratings": [1, 2]}


@pytest.fixture
def task(tmp_path):
    """A task of given rows."""

    def made(*rows, **settings):
        file = tmp_path / "prefs.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return PreferenceTask(path=str(file), **settings)

    return made


def test_ties_are_left_out_and_counted(task):
    tie = {**RATED, "ratings": [1, 1]}

    with pytest.warns(
        RlcompWarning, match="answers are all alike, left out: 2 of 3; task.ties=keep"
    ):
        assert len(task(tie, PAIR, tie)) == 1
    with pytest.raises(DataError, match="all of its 1 rows are ties"):
        task(tie)


def test_a_tie_that_is_kept_warns_of_nothing(task, recwarn):
    tied = task(PAIR | {"tie": True}, PAIR, ties="keep")

    assert [one.columns.get("tie") for one in tied.examples] == [True, None]
    assert not recwarn.list


def test_a_bad_row_is_refused_with_file_and_line(task):
    with pytest.raises(DataError, match=r"prefs\.jsonl:2: .*no preference"):
        task(PAIR, {"prompt": "1?", "chosen": "yes"})


def test_settings_reach_the_rows(task):
    hh = "\n\nHuman: a?\n\nAssistant:"
    talk = {"chosen": f"{hh} yes", "rejected": f"{hh} no"}

    assert len(task(RATED)) == 1
    assert len(task(RATED, ratings="each")) == 2
    assert task(RATED, ratings="each").example(1).columns == {"rating": 2.0}
    assert len(task(PAIR | {"tie": True}, ties="keep")) == 1
    assert "conversation" in task(talk, dialogues="messages").example(0).columns
    assert "conversation" not in task(talk).example(0).columns
    assert (
        task({"asked": "2?", "chosen": "y", "rejected": "n"}, prompt_field="asked")
        .example(0)
        .prompt
        == "2?"
    )
    assert (task(PAIR).held_out, task(PAIR, held_out=0.5).held_out) == (0.1, 0.5)


def test_the_pairs_of_hh_become_rows(shared_data):
    task = PreferenceTask(path=str(shared_data / "prefs" / "hh_harmless_300.jsonl.gz"))
    tokenizer = byte_tokenizer()

    rows = pair_rows(tokenizer, TextPrompt(tokenizer=tokenizer), [task.example(n) for n in (0, 1)])

    assert len(task) == 300
    assert all(task.example(n).prompt.endswith("\n\nAssistant:") for n in range(300))
    assert rows["chosen"].tolist() == [True, False, True, False]
