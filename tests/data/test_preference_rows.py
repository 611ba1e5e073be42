"""A row of a file of preferences as examples: every form that people have, and what is refused."""

import pytest

from rlcomp.data.comparisons import compared_answers, rated_answers, rating_of
from rlcomp.data.preference_rows import preference_examples
from rlcomp.data.records import Row
from rlcomp.errors import DataError

USER = {"role": "user", "content": "1?"}
YES, NO = ({"role": "assistant", "content": text} for text in ("yes", "no"))
HH = "\n\nHuman: a?\n\nAssistant: b\n\nHuman: c?\n\nAssistant:"
PAIR = {"prompt": "1?", "chosen": "yes", "rejected": "no"}


def examples(*rows, dialogues="text", field="prompt", **settings):
    """The examples of all rows of a file."""
    return [
        example
        for line, row in enumerate(rows, start=1)
        for example in preference_examples(
            Row(f"prefs.jsonl:{line}", row), field, dialogues, **settings
        )
    ]


def test_a_pair_of_texts():
    (example,) = examples({**PAIR, "annotator": "me"})

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
def test_pairs_of_messages(row):
    example = examples(row)[0]

    assert (example.prompt, example.demonstration) == ("1?", "yes")
    assert example.columns == {
        "conversation": {"messages": [USER], "completion": [YES]},
        "rejected": [NO],
    }


def test_dialogues_of_hh_are_texts_that_end_where_the_assistant_speaks():
    example = examples({"chosen": f"{HH} yes", "rejected": f"{HH} no", "id": 4})[0]

    assert (example.prompt, example.demonstration) == (HH, " yes")
    assert example.columns == {"rejected": " no", "id": 4}


def test_dialogues_of_hh_become_messages_on_request():
    rows = {"chosen": f"{HH} yes", "rejected": f"{HH} no"}

    example = examples(rows, dialogues="messages")[0]

    said = [(one["role"], one["content"]) for one in example.columns["conversation"]["messages"]]
    assert said == [("user", "a?"), ("assistant", "b"), ("user", "c?")]
    assert example.columns["conversation"]["completion"] == [YES]
    assert example.columns["rejected"] == [NO]


def test_a_ranking_gives_every_pair_its_share():
    found = examples({"prompt": "1?", "responses": ["a", "b", "c"], "ranking": [2, 0, 1]})

    pairs = {(e.demonstration, e.columns["rejected"], e.columns["weight"]) for e in found}
    assert pairs == {("c", "a", 1 / 3), ("c", "b", 1 / 3), ("a", "b", 1 / 3)}


def test_ratings_give_the_pairs_that_differ():
    found = examples({"prompt": "1?", "responses": ["a", "b", "c"], "ratings": [1, 4.5, 1]})

    pairs = {(e.demonstration, e.columns["rejected"], e.columns["weight"]) for e in found}
    assert pairs == {("b", "a", 0.5), ("b", "c", 0.5)}


@pytest.mark.parametrize(
    ("votes", "chosen", "noise"), [([3, 1], "yes", 0.25), ([1, 4], "no", 0.2), ([2, 0], "yes", 0)]
)
def test_the_minority_of_annotators_is_the_label_noise(votes, chosen, noise):
    row = {"prompt": "1?", "chosen": "yes", "rejected": "no", "votes": votes}

    example = examples(row)[0]

    assert (example.demonstration, example.columns["label_noise"]) == (chosen, noise)


def test_verdicts_of_alpaca_eval():
    row = {"instruction": "1?", "output_1": "no", "output_2": "yes", "preference": 1.75}

    example = examples(row)[0]

    assert (example.prompt, example.demonstration) == ("1?", "yes")
    assert example.columns == {"rejected": "no", "label_noise": 0.25}


def test_single_labels():
    found = examples(
        {"prompt": "1?", "completion": "yes", "label": True},
        {"prompt": "2?", "completion": "no", "label": False},
    )

    assert [one.columns for one in found] == [{"desirable": True}, {"desirable": False}]
    assert found[1].demonstration == "no"


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
        ({"chosen": [YES], "rejected": [NO]}, "an answer has no message, or no prompt before"),
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
            "'ranking' is .* the indices of the responses, 0 to 1, best first",
        ),
        ({"prompt": "1?", "completion": "yes", "label": 1}, "'label' is 1: must be true or false"),
    ],
)
def test_a_bad_row_is_refused_with_file_and_line(row, words):
    with pytest.raises(DataError, match=rf"prefs\.jsonl:2: .*{words}"):
        examples(PAIR, row)


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
def test_what_says_how_a_label_counts_is_held_when_the_file_is_read(told, words):
    with pytest.raises(DataError, match=rf"prefs\.jsonl:2: column {words}"):
        examples(PAIR, PAIR | told)


def test_single_labels_are_held_to_the_same():
    with pytest.raises(DataError, match=r":1: column 'weight' holds 'much'"):
        examples({"prompt": "1?", "completion": "yes", "label": True, "weight": "much"})


def test_the_largest_numbers_stay_finite():
    assert examples(PAIR | {"votes": [3e38, 1e38]})[0].columns["label_noise"] == 0.25
    assert examples(PAIR | {"weight": 3e38})[0].columns["weight"] == 3e38
    assert examples(PAIR | {"weight": None})[0].columns == {"rejected": "no"}


def test_a_row_of_too_many_answers_is_refused():
    def ranked(count):
        return {"prompt": "1?", "responses": [*map(str, range(count))], "ratings": [*range(count)]}

    assert len(examples(ranked(128))) == 128 * 127 // 2
    with pytest.raises(DataError, match=r":1: column 'responses' has 129 answers: at most 128"):
        examples(ranked(129))


TEXTS = {"prompt": "1?", "chosen": "yes", "rejected": "no"}
ALPACA = {"instruction": "1?", "output_1": "yes", "output_2": "no"}
ARENA = {"prompt": "1?", "response_a": "yes", "response_b": "no"}


@pytest.mark.parametrize(
    "row",
    [
        {**TEXTS, "tie": True},
        {**TEXTS, "tie": True, "votes": [3, 1]},
        {**TEXTS, "votes": [2, 2]},
        {**ALPACA, "preference": 1.5},
        *({**ARENA, "winner": winner} for winner in ("tie", "tie (bothbad)", "both_bad")),
    ],
)
def test_ties_are_included_on_request(row):
    tie, pair = examples(row, {**TEXTS, "tie": False}, ties=True)

    assert tie.columns == {"rejected": "no", "tie": True, "label_noise": 0.5}
    assert pair.columns == {"rejected": "no"}
    assert examples(row) == []


def test_equal_ratings_are_a_tie_with_its_share_of_the_row():
    found = examples(
        {"prompt": "1?", "responses": ["a", "b", "c"], "ratings": [2, 1, 2]}, ties="keep"
    )

    pairs = {
        (e.demonstration, e.columns["rejected"], e.columns["weight"], e.columns.get("tie"))
        for e in found
    }
    assert pairs == {("a", "b", 1 / 3, None), ("c", "b", 1 / 3, None), ("a", "c", 1 / 3, True)}


@pytest.mark.parametrize(("winner", "chosen"), [("model_a", "yes"), ("model_b", "no")])
def test_battles_of_an_arena(winner, chosen):
    said = {f"conversation_{x}": [USER, y] for x, y in zip("ab", (YES, NO), strict=True)}

    texts = examples({**ARENA, "winner": winner, "model_a": "x"})[0]
    messages = examples({**said, "winner": winner})[0]

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
def test_a_verdict_that_is_none_is_refused(row, told):
    with pytest.raises(DataError, match=told):
        examples(row)


def test_a_pair_given_the_other_way_round_is_no_tie_by_a_false_column():
    (pair,) = compared_answers(Row("f:1", {**PAIR, "tie": False, "votes": [1, 3]}))

    assert pair == ("no", "yes", {"label_noise": 0.25})


@pytest.mark.parametrize(
    ("preference", "noise"), [(0.9999, 0.0), (2.0001, 0.0), (1.25, 0.25), (1.75, 0.25)]
)
def test_a_judge_s_figure_may_be_a_rounding_error_outside(preference, noise):
    (example,) = examples({**ALPACA, "preference": preference})

    assert example.columns["label_noise"] == noise


@pytest.mark.parametrize("preference", [0.9998, 2.0002, True, "2", None, float("nan")])
def test_and_no_more(preference):
    with pytest.raises(DataError, match=r"'preference' holds .*: must be a number from 1 to 2"):
        examples({**ALPACA, "preference": preference})


@pytest.mark.parametrize("name", ["weight", "margin", "label_noise"])
def test_no_label_counts_less_than_nothing(name):
    assert examples({**PAIR, name: 0})[0].columns[name] == 0
    with pytest.raises(DataError, match=f"'{name}' holds -1e-06"):
        examples({**PAIR, name: -1e-6})


def test_the_largest_number_of_float32_and_the_next():
    assert rating_of(Row("f:1", {"rating": -3.4e38})) == -3.4e38
    assert rating_of(Row("f:1", {"rating": 3 * 10**38})) == 3e38
    assert rating_of(Row("f:1", {"rating": 3.4e38})) == 3.4e38
    for far in (3.5e38, -3.5e38, float("inf"), 35 * 10**37):
        with pytest.raises(DataError, match=r"f:1: column 'rating' holds"):
            rating_of(Row("f:1", {"rating": far}))


def test_answers_with_a_rating_each():
    row = {"prompt": "1?", "responses": ["a", "b"], "ratings": [1, 2.5], "id": 7}

    found = examples(row, {"prompt": "2?", "completion": "c", "rating": 3}, ratings="each")

    assert [(e.prompt, e.demonstration, e.columns) for e in found] == [
        ("1?", "a", {"rating": 1.0, "id": 7}),
        ("1?", "b", {"rating": 2.5, "id": 7}),
        ("2?", "c", {"rating": 3.0}),
    ]
    assert [e.columns["rejected"] for e in examples(row)] == ["a"]
    assert rated_answers(Row("f:1", row)) == [("a", 1.0), ("b", 2.5)]


def test_equal_answers_with_a_rating_each_are_no_pair():
    row = {"prompt": "1?", "responses": ["a", "a"], "ratings": [1, 2]}

    assert [e.columns["rating"] for e in examples(row, ratings="each")] == [1.0, 2.0]
    with pytest.raises(DataError, match="both answers of the pair are the same"):
        examples(row)


def test_a_label_and_a_rating_of_one_answer_are_both_kept():
    (example,) = examples({"prompt": "1?", "completion": "c", "label": False, "rating": -2})

    assert example.columns == {"desirable": False, "rating": -2.0}


def test_places_of_a_ranking_may_be_texts_and_each_stands_once():
    row = {"prompt": "1?", "responses": ["a", "b"], "ranking": ["1", "0"]}

    assert [(e.demonstration, e.columns["rejected"]) for e in examples(row)] == [("b", "a")]
    for bad in ([0, 0], [1.0, 0.0], [True, False]):
        with pytest.raises(DataError, match="best first, each once"):
            examples({**row, "ranking": bad})


@pytest.mark.parametrize("name", ["ranking", "ratings"])
def test_there_are_as_many_places_or_ratings_as_answers(name):
    for given in ([0], [0, 1, 2], "01", None):
        with pytest.raises(DataError, match=f"column '{name}' is .*one number for each of the 2"):
            examples({"prompt": "1?", "responses": ["a", "b"], name: given})


def test_of_a_ranking_and_ratings_the_ranking_counts():
    row = {"prompt": "1?", "responses": ["a", "b"], "ranking": [0, 1], "ratings": [1, 2]}

    assert examples(row)[0].demonstration == "a"


@pytest.mark.parametrize("votes", ["31", 3, [1, 2, 3], {"for": 3}])
def test_votes_are_a_list_of_two(votes):
    with pytest.raises(DataError, match=r"must be \[for chosen, for rejected\]"):
        examples({**PAIR, "votes": votes})


def test_a_near_miss_of_a_name_is_suggested():
    with pytest.raises(DataError, match="did you mean 'rejectd'"):
        examples({"prompt": "1?", "chosen": "yes", "rejectd": "no"})
    with pytest.raises(DataError, match="did you mean 'choosen'"):
        examples({"prompt": "1?", "choosen": "yes", "rejected": "no"})


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"query": "1?", "a_positive": "y", "a_negative": "n"}, {"prompt": "query"}),
        ({"prompt": "1?", "query": "2?", "a_positive": "y", "a_negative": "n"}, {}),
    ],
)
def test_other_column_names_are_suggested_with_a_missing_prompt(columns, named):
    with pytest.raises(DataError) as told:
        examples(columns)

    for new, old in {**named, "chosen": "a_positive", "rejected": "a_negative"}.items():
        assert f"'{new}': row.pop('{old}')" in str(told.value)
    assert ("row.pop('query')" in str(told.value)) is bool(named)


def test_ambiguous_columns_are_not_guessed():
    with pytest.raises(DataError) as told:
        examples({"chosen_1": "a", "chosen_2": "b", "rejected_1": "c"})

    assert "row.pop" not in str(told.value)


def test_the_prompt_is_in_a_column_of_any_name_or_the_instruction():
    (asked,) = examples({"asked": "1?", "chosen": "yes", "rejected": "no"}, field="asked")
    (told,) = examples({"instruction": "2?", "chosen": "yes", "rejected": "no"})
    (both,) = examples({**PAIR, "instruction": "2?"})

    assert [e.prompt for e in (asked, told, both)] == ["1?", "2?", "1?"]
    assert (asked.columns, told.columns) == ({"rejected": "no"}, {"rejected": "no"})
    assert both.columns == {"rejected": "no", "instruction": "2?"}


def test_other_columns_stay_but_for_what_is_null_and_messages():
    (example,) = examples({**PAIR, "id": 0, "source": None, "messages": [USER]})

    assert example.columns == {"rejected": "no", "id": 0}


def test_half_a_character_is_a_question_mark():
    (example,) = examples({"prompt": "1\ud800", "chosen": "yes", "rejected": "n\ud800"})

    assert (example.prompt, example.columns["rejected"]) == ("1?", "n?")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f"{HH} yes\n\nHuman: d?", f"{HH} no\n\nHuman: d?"),
        ("\n\nAssistant: yes", "\n\nAssistant: no"),
        (f"{HH} yes", f"{HH} no\n\nHuman: d?"),
    ],
)
def test_a_dialogue_ends_with_the_assistant_behind_a_question(first, second):
    with pytest.raises(DataError, match="differ before the assistant's last turn, or do not end"):
        examples({"chosen": first, "rejected": second})


def test_tools_are_of_both_answers():
    tool = {"type": "function", "function": {"name": "add", "parameters": {}}}
    (example,) = examples({"prompt": [USER], "chosen": [YES], "rejected": [NO], "tools": [tool]})

    assert example.columns["conversation"]["tools"] == [tool]
    assert "tools" not in example.columns


def test_the_common_beginning_never_has_a_last_message():
    same = {"role": "assistant", "content": "so"}
    row = {"chosen": [USER, same, USER, YES], "rejected": [USER, same, USER, NO]}

    (example,) = examples(row)

    assert example.columns["conversation"]["messages"] == [USER, same, USER]
    assert example.columns["conversation"]["completion"] == [YES]
    (parted,) = examples({"chosen": [USER, YES, USER, YES], "rejected": [USER, NO, USER, YES]})
    assert parted.columns["conversation"]["messages"] == [USER]
    assert parted.columns["rejected"] == [NO, USER, YES]


def test_responses_without_ratings_are_no_answers_with_a_rating_each():
    row = {"prompt": "p", "responses": ["a", "b"], "chosen": "c", "rejected": "d"}

    (pair,) = examples(row, ratings="each")

    assert (pair.demonstration, pair.columns["rejected"]) == ("c", "d")
