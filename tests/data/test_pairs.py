"""Pairs of messages through a chat template: one prompt, two answers, only they are trained."""

import pytest

from components.task.labels import PreferenceTask
from rlcomp.data.pairs import (
    desirable,
    label_noise,
    pair_margins,
    pair_rows,
    pair_weights,
    ratings,
    tied_pairs,
)
from rlcomp.data.preference_rows import preference_examples
from rlcomp.data.records import Row
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
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
    task = PreferenceTask(path=str(tmp_path / "pairs.jsonl"), dialogues="messages")

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
def test_a_pair_without_a_prompt_suggests_the_column(columns, told):
    row = Row("f:1", {**columns, "chosen": "yes", "rejected": "no"})

    with pytest.raises(DataError, match=told):
        preference_examples(row, "prompt", "messages")


def columns(*rows):
    return [Example("1?", "a", "a", columns=row) for row in rows]


def test_a_weight_is_the_column_s_times_the_annotator_s():
    some = columns({"weight": 3, "annotator": "me"}, {"annotator": "you"})

    assert pair_weights(some, {}).tolist() == [3, 1]
    assert pair_weights(some, {"me": 0.5, "you": 2.0}).tolist() == [1.5, 2]
    assert pair_weights(columns({}, {}), {}) is None
    assert pair_weights(columns({"annotator": "me"}), {"me": 0.5}).tolist() == [0.5]


def test_noise_and_margin_are_0_where_a_row_says_nothing():
    some = columns({"label_noise": 0.25, "margin": 2}, {}, {"label_noise": 0, "annotator": "me"})

    assert label_noise(some, {}).tolist() == [0.25, 0, 0]
    assert pair_margins(some).tolist() == [2, 0, 0]
    assert (label_noise(columns({}), {}), pair_margins(columns({}))) == (None, None)
    # What a row says goes before its annotator.
    told = columns({"label_noise": 0, "annotator": "me"}, {"annotator": "me"})
    assert label_noise(told, {"me": 0.125}).tolist() == [0, 0.125]
    assert label_noise(columns({"label_noise": 1}), {}).tolist() == [1]


def test_a_row_of_no_known_annotator_is_refused():
    with pytest.raises(DataError, match="has the annotator None, known are 'me', 'you'"):
        label_noise(columns({}), {"me": 0.1, "you": 0.2})


@pytest.mark.parametrize(
    ("read", "row"),
    [
        (lambda some: pair_weights(some, {}), {"weight": -0.1}),
        (lambda some: pair_weights(some, {}), {"weight": True}),
        (pair_margins, {"margin": 3.5e38}),
        (lambda some: label_noise(some, {}), {"label_noise": 1.01}),
        (lambda some: label_noise(some, {}), {"label_noise": "0.5"}),
        (ratings, {"rating": -3.5e38}),
        (ratings, {"rating": "5"}),
        (ratings, {}),
        (desirable, {"desirable": 1}),
    ],
)
def test_a_number_that_is_none_is_refused(read, row):
    with pytest.raises(DataError, match=r"the example '1\?' has "):
        read(columns(row))


def test_the_largest_numbers_are_numbers():
    assert ratings(columns({"rating": -3.4e38}, {"rating": 3.4e38})).isfinite().all()
    assert pair_margins(columns({"margin": 3.4e38})).isfinite().all()


def test_a_rating_goes_before_a_label_and_a_label_is_0_or_1():
    some = columns({"rating": 2.5, "desirable": False}, {"desirable": True}, {"desirable": False})

    assert ratings(some).tolist() == [2.5, 1, 0]
    assert desirable(some).tolist() == [False, True, False]


def test_ties_are_marked():
    assert tied_pairs(columns({"tie": True}, {}, {"tie": False})).tolist() == [True, False, False]
    assert tied_pairs(columns({}, {"tie": False})) is None


def test_a_completion_without_its_label_is_no_preference():
    row = Row("f:1", {"prompt": "1?", "completion": "yes"})

    with pytest.raises(DataError, match=r"f:1: .*no "):
        preference_examples(row, "prompt", "messages")
