"""Preferences from files: every form that people have, and rows that are refused by line."""

import json

import pytest

from components.task.preferences import Preferences
from rlcomp.data.pairs import pair_rows
from rlcomp.errors import DataError, RlcompWarning
from rlcomp.text.prompt import TextPrompt
from rlcomp.text.tokenizer import byte_tokenizer

USER = {"role": "user", "content": "1?"}
YES, NO = ({"role": "assistant", "content": text} for text in ("yes", "no"))
HH = "\n\nHuman: a?\n\nAssistant: b\n\nHuman: c?\n\nAssistant:"


@pytest.fixture
def task(tmp_path):
    """A task of given rows."""

    def made(*rows, **settings):
        file = tmp_path / "prefs.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return Preferences(path=str(file), **settings)

    return made


def test_a_pair_of_texts(task):
    example = task({"prompt": "1?", "chosen": "yes", "rejected": "no", "annotator": "me"}).example(
        0
    )

    assert (example.prompt, example.demonstration, example.answer) == ("1?", "yes", "yes")
    assert example.columns == {"rejected": "no", "annotator": "me"}


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": [USER], "chosen": [YES], "rejected": [NO]},
        {"prompt": [USER], "chosen": "yes", "rejected": "no"},
        {"prompt": "1?", "chosen": [YES], "rejected": [NO]},
        # The prompt is what both begin with, whether it stands in a column as well or not.
        {"chosen": [USER, YES], "rejected": [USER, NO]},
        {"prompt": "1?", "chosen": [USER, YES], "rejected": [USER, NO]},
        {"prompt": [USER], "chosen": [USER, YES], "rejected": [USER, NO]},
    ],
)
def test_pairs_of_messages(task, row):
    example = task(row).example(0)

    assert (example.prompt, example.demonstration) == ("1?", "yes")
    assert example.columns == {
        "conversation": {"messages": [USER], "completion": [YES]},
        "rejected": [NO],
    }


def test_dialogues_of_hh_are_texts_that_end_where_the_assistant_speaks(task):
    example = task({"chosen": f"{HH} yes", "rejected": f"{HH} no", "id": 4}).example(0)

    assert (example.prompt, example.demonstration) == (HH, " yes")
    assert example.columns == {"rejected": " no", "id": 4}


def test_dialogues_of_hh_are_messages_where_they_are_asked_for(task):
    rows = {"chosen": f"{HH} yes", "rejected": f"{HH} no"}

    example = task(rows, dialogues="messages").example(0)

    said = [(one["role"], one["content"]) for one in example.columns["conversation"]["messages"]]
    assert said == [("user", "a?"), ("assistant", "b"), ("user", "c?")]
    assert example.columns["conversation"]["completion"] == [YES]
    assert example.columns["rejected"] == [NO]


def test_a_ranking_gives_every_pair_its_share(task):
    found = task({"prompt": "1?", "responses": ["a", "b", "c"], "ranking": [2, 0, 1]})

    pairs = {(e.demonstration, e.columns["rejected"], e.columns["weight"]) for e in found.examples}
    assert pairs == {("c", "a", 1 / 3), ("c", "b", 1 / 3), ("a", "b", 1 / 3)}


def test_ratings_give_the_pairs_that_differ(task):
    found = task({"prompt": "1?", "responses": ["a", "b", "c"], "ratings": [1, 4.5, 1]})

    pairs = {(e.demonstration, e.columns["rejected"], e.columns["weight"]) for e in found.examples}
    assert pairs == {("b", "a", 0.5), ("b", "c", 0.5)}


@pytest.mark.parametrize(
    ("votes", "chosen", "noise"), [([3, 1], "yes", 0.25), ([1, 4], "no", 0.2), ([2, 0], "yes", 0)]
)
def test_the_minority_of_annotators_is_the_label_noise(task, votes, chosen, noise):
    row = {"prompt": "1?", "chosen": "yes", "rejected": "no", "votes": votes}

    example = task(row).example(0)

    assert (example.demonstration, example.columns["label_noise"]) == (chosen, noise)


def test_verdicts_of_alpaca_eval(task):
    row = {"instruction": "1?", "output_1": "no", "output_2": "yes", "preference": 1.75}

    example = task(row).example(0)

    assert (example.prompt, example.demonstration) == ("1?", "yes")
    assert example.columns == {"rejected": "no", "label_noise": 0.25}


def test_single_labels(task):
    found = task(
        {"prompt": "1?", "completion": "yes", "label": True},
        {"prompt": "2?", "completion": "no", "label": False},
    )

    assert [one.columns for one in found.examples] == [{"desirable": True}, {"desirable": False}]
    assert found.example(1).demonstration == "no"


def test_ties_are_left_out_and_counted(task):
    tie = {"prompt": "1?", "responses": ["a", "b"], "ratings": [1, 1]}
    pair = {"prompt": "1?", "chosen": "yes", "rejected": "no"}

    with pytest.warns(RlcompWarning, match="answers are all alike, left out: 2 of 3"):
        assert len(task(tie, pair, tie)) == 1
    with pytest.raises(DataError, match="all of its 1 rows are ties"):
        task(tie)


PAIR = {"prompt": "1?", "chosen": "yes", "rejected": "no"}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"prompt": "1?", "chosen": "yes"}, "no preference: a row has 'chosen' and 'rejected'"),
        (
            {"question": "1?", "response_chosen": "yes", "response_rejected": "no"},
            r"write .*'prompt': row.pop\('question'\), 'chosen': row.pop\('response_chosen'\), 're",
        ),
        ({**PAIR, "rejected": "yes"}, "both answers of the pair are the same"),
        ({**PAIR, "rejected": None}, "the answer is None, not a text"),
        ({**PAIR, "prompt": ""}, "the prompt is empty"),
        ({"chosen": "yes", "rejected": "no"}, r"the prompt is None, .* task\.prompt_field"),
        ({**PAIR, "chosen": [YES]}, "one answer is a text, the other messages"),
        ({"chosen": [YES], "rejected": [NO]}, "no message before or none in an answer"),
        ({**PAIR, "votes": [1]}, r"'votes' is \[1\]: must be \[for chosen, for rejected\]"),
        ({**PAIR, "votes": [0, 0]}, "nobody has voted"),
        ({**PAIR, "votes": [-1, 2]}, "'votes' holds -1: must be a number from 0 to 3.4e[+]38"),
        (
            {"chosen": f"{HH} yes", "rejected": "\n\nHuman: a?\n\nAssistant: no"},
            "the dialogues differ before the assistant's last turn",
        ),
        ({"prompt": "1?", "responses": ["a"], "ratings": [1]}, "'responses' is .* two or more"),
        ({"prompt": "1?", "responses": ["a", "b"], "ratings": [1]}, "each of the 2 responses"),
        (
            {"prompt": "1?", "responses": ["a", "b"], "ratings": [1, None]},
            "'ratings' holds None: must be a number",
        ),
        (
            {"prompt": "1?", "responses": ["a", "b"], "ranking": [1, 2]},
            "'ranking' is .* the places of the responses, 0 to 1, best first",
        ),
        ({"prompt": "1?", "completion": "yes", "label": 1}, "'label' is 1: must be true or false"),
    ],
)
def test_a_bad_row_is_refused_with_file_and_line(task, row, words):
    with pytest.raises(DataError, match=rf"prefs\.jsonl:2: .*{words}"):
        task(PAIR, row)


HUGE = 10**400


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"weight": 1e300}, "'weight' holds 1e[+]300: must be a number from 0 to 3.4e[+]38"),
        ({"weight": -0.00001}, "'weight' holds -1e-05"),
        ({"weight": HUGE}, "'weight' holds a number of more than 38 digits"),
        ({"margin": "1"}, "'margin' holds '1'"),
        ({"label_noise": 1.00001}, "'label_noise' holds 1.00001: must be a number from 0 to 1"),
        ({"votes": [1e308, 1e308]}, "'votes' holds 1e[+]308"),
        ({"votes": [HUGE, 1]}, "'votes' holds a number of more than 38 digits"),
        ({"annotator": ["x"]}, r"'annotator' is \['x'\]: must be a text"),
        ({"step": "no"}, "'step' is 'no': must be true or false"),
        ({"desirable": "no"}, "'desirable' is 'no': must be true or false"),
        ({"conversation": {"messages": []}}, "'conversation'.*another name"),
    ],
)
def test_what_says_how_a_label_counts_is_held_when_the_file_is_read(task, told, words):
    with pytest.raises(DataError, match=rf"prefs\.jsonl:2: column {words}"):
        task(PAIR, PAIR | told)


def test_single_labels_are_held_to_the_same(task):
    with pytest.raises(DataError, match=r":1: column 'weight' holds 'much'"):
        task({"prompt": "1?", "completion": "yes", "label": True, "weight": "much"})


def test_the_largest_numbers_stay_finite(task):
    assert task(PAIR | {"votes": [3e38, 1e38]}).example(0).columns["label_noise"] == 0.25
    assert task(PAIR | {"weight": 3e38}).example(0).columns["weight"] == 3e38
    assert task(PAIR | {"weight": None}).example(0).columns == {"rejected": "no"}


def test_a_row_of_too_many_answers_is_refused(task):
    def ranked(count):
        return {"prompt": "1?", "responses": [*map(str, range(count))], "ratings": [*range(count)]}

    assert len(task(ranked(128))) == 128 * 127 // 2
    with pytest.raises(DataError, match=r":1: column 'responses' has 129 answers: at most 128"):
        task(ranked(129))


def test_the_pairs_of_hh_become_rows(shared_data):
    task = Preferences(path=str(shared_data / "prefs" / "hh_harmless_300.jsonl.gz"))
    tokenizer = byte_tokenizer()

    rows = pair_rows(tokenizer, TextPrompt(tokenizer=tokenizer), [task.example(n) for n in (0, 1)])

    assert len(task) == 300
    assert all(task.example(n).prompt.endswith("\n\nAssistant:") for n in range(300))
    assert rows["chosen"].tolist() == [True, False, True, False]


TEXTS = {"prompt": "1?", "chosen": "yes", "rejected": "no"}
ALPACA = {"instruction": "1?", "output_1": "yes", "output_2": "no"}
ARENA = {"prompt": "1?", "response_a": "yes", "response_b": "no"}


@pytest.mark.parametrize(
    "row",
    [
        {**TEXTS, "tie": True},
        {**TEXTS, "votes": [2, 2]},
        {**ALPACA, "preference": 1.5},
        {**ARENA, "winner": "tie"},
        {**ARENA, "winner": "tie (bothbad)"},
    ],
)
def test_ties_are_kept_where_they_are_asked_for(task, row):
    found = task(row, TEXTS, ties="keep")

    tie, pair = (found.example(index).columns for index in (0, 1))
    assert tie == {"rejected": "no", "tie": True, "label_noise": 0.5}
    assert pair == {"rejected": "no"}
    with pytest.warns(RlcompWarning, match="left out: 1 of 2; task.ties=keep"):
        assert len(task(row, TEXTS)) == 1


def test_equal_ratings_are_a_tie_with_its_share_of_the_row(task):
    found = task({"prompt": "1?", "responses": ["a", "b", "c"], "ratings": [2, 1, 2]}, ties="keep")

    pairs = {
        (e.demonstration, e.columns["rejected"], e.columns["weight"], e.columns.get("tie"))
        for e in found.examples
    }
    assert pairs == {("a", "b", 1 / 3, None), ("c", "b", 1 / 3, None), ("a", "c", 1 / 3, True)}


@pytest.mark.parametrize(("winner", "chosen"), [("model_a", "yes"), ("model_b", "no")])
def test_battles_of_an_arena(task, winner, chosen):
    said = {f"conversation_{x}": [USER, y] for x, y in zip("ab", (YES, NO), strict=True)}

    texts = task({**ARENA, "winner": winner, "model_a": "x"}).example(0)
    messages = task({**said, "winner": winner}).example(0)

    assert (texts.demonstration, texts.columns["model_a"]) == (chosen, "x")
    assert (messages.prompt, messages.demonstration) == ("1?", chosen)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({**ARENA, "winner": "model_c"}, r"jsonl:1: column .winner. is .model_c.: must be one of"),
        ({**ARENA, "winner": ["tie"]}, "column 'winner' is"),
        ({**TEXTS, "tie": "yes"}, "column 'tie' is 'yes': must be true or false"),
    ],
)
def test_a_verdict_that_is_none_is_refused(task, row, told):
    with pytest.raises(DataError, match=told):
        task(row)
