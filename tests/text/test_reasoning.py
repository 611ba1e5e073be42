import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken

from rlcomp.data.examples import prompt_batch
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.testing import make_batch
from rlcomp.text.reasoning import (
    ThoughtEnd,
    answer_prefix,
    first_targets,
    last_words,
    response_ids,
    rows_after_thought,
    rows_without_thought,
)
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import byte_tokenizer, character_tokenizer

BYTES = byte_tokenizer()
END = ThoughtEnd(BYTES, "</think>")


def ids(text):
    return BYTES(text)["input_ids"]


def test_the_last_words_of_a_text_are_three_unless_told():
    assert last_words("a b  c\nd e") == "c d e"
    assert last_words("a b", count=1) == "b"
    assert last_words("a b") == "a b"


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_thought_ends_with_the_first_end(thought, answer):
    text = f"{thought}</think>{answer}"

    length = END.length(ids(text))

    # One token is one byte.
    assert length == len(text[: text.index("</think>") + len("</think>")].encode())


@given(st.text(alphabet="<ethink/>ab", max_size=30))
def test_closing_a_thought_twice_changes_nothing(text):
    once = END.close([*ids(text), BYTES.eos_token_id])

    assert END.close(once) == once
    assert END.length(once) == len(once)


def test_a_response_without_an_end_is_all_thought_and_loses_its_eos():
    whole = [*ids("ab"), BYTES.eos_token_id]

    assert END.length(whole) is None
    assert END.close(whole) == ids("ab</think>")
    assert END.close(ids("ab")) == ids("ab</think>")
    assert END.close([]) == ids("</think>")


def test_the_token_in_which_the_end_ends_belongs_to_the_thought():
    # ">b" is one token: a, <, />, >b ... the text "</>" ends within it.
    tokenizer = character_tokenizer(characters="ab<>/")
    tokenizer.add_tokens([AddedToken(">b", normalized=False)])
    end = ThoughtEnd(tokenizer, "</>")
    row = tokenizer("a</>ba")["input_ids"]

    assert tokenizer.convert_ids_to_tokens(row) == ["a", "<", "/", ">b", "a"]
    assert end.length(row) == 4


def test_an_end_that_is_a_special_token_is_found():
    tokenizer = character_tokenizer(characters="ab")
    tokenizer.add_special_tokens({"additional_special_tokens": ["</think>"]})
    tokenizer.split_special_tokens = False
    end = ThoughtEnd(tokenizer, "</think>")

    assert len(end.ids) == 1
    assert end.length([2, 3, *end.ids, 2]) == 3


def test_what_stands_in_the_holes_of_a_response_is_part_of_it():
    tokens = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 8, 9]])
    mask = torch.tensor([[0, 1, 0, 1, 0], [0, 0, 0, 0, 0]]).bool()

    rows, starts = response_ids(make_batch(tokens=tokens, response_mask=mask))

    assert rows == [[6, 7, 8], []]
    assert starts.tolist() == [1, 5]


@pytest.mark.parametrize(
    ("count", "expected"), [(1, " pa"), (2, " para"), (3, " para n"), (9, " para n")]
)
def test_a_target_ends_with_the_last_of_so_many_tokens(count, expected):
    answer = prompt_batch([Example("", " para n", "", (3, 5, 7))])

    assert first_targets(BYTES, answer, count) == [ids(expected)]


def test_an_empty_answer_has_no_target():
    assert first_targets(BYTES, prompt_batch([Example("", "", "")]), 1) == [[]]


@given(st.text(min_size=1, max_size=8), st.data())
def test_targets_are_whole_characters_up_to_the_end_or_just_behind_it(answer, data):
    size = len(answer.encode())
    ends = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    count = data.draw(st.integers(1, 4))

    found = answer_prefix(answer, ends, count)

    # By hand: the characters one after the other, until the byte of the end is covered.
    places = [byte + 1 for byte, end in enumerate(ends) if end][:count]
    place = max(places, default=0)
    taken = ""
    for char in answer:
        taken += char if len(taken.encode()) < place else ""
    assert found == taken


def test_rows_are_prompt_thought_target_and_only_the_target_is_scored():
    batch = encode_rows(BYTES, ["p<think>", "q<think>"], ["ab</think>c", "d"])

    rows = rows_after_thought(BYTES, batch, [ids("xy"), ids("z")], END)

    texts = [BYTES.decode(row[m]) for row, m in zip(*held(rows, "attention_mask"), strict=True)]
    scored = [BYTES.decode(row[m]) for row, m in zip(*held(rows, "response_mask"), strict=True)]
    assert texts == ["p<think>ab</think>xy", "q<think>d</think>z"]
    assert scored == ["xy", "z"]


def held(rows, mask):
    return rows["tokens"], rows[mask]


def test_a_row_without_a_response_is_scored_behind_an_empty_thought():
    batch = encode_rows(BYTES, ["pq", "pqr"], ["", ""])
    batch["attention_mask"] &= ~batch["response_mask"]
    batch["response_mask"] = torch.zeros_like(batch["response_mask"])

    rows = rows_after_thought(BYTES, batch, [ids("x"), ids("x")], END)

    texts = [BYTES.decode(row[m]) for row, m in zip(*held(rows, "attention_mask"), strict=True)]
    assert texts == ["pq</think>x", "pqr</think>x"]


def test_without_a_thought_the_context_stands_alone():
    rows = rows_without_thought(BYTES, ["p<think>", "<think>"], [ids("x"), ids("y")], "<think>")

    assert rows["tokens"].tolist() == [ids("px"), [BYTES.eos_token_id, *ids("y")]]
    assert rows["response_mask"].tolist() == [[False, True], [False, True]]


def test_a_prompt_that_starts_no_thought_is_refused_with_the_remedy():
    with pytest.raises(DataError, match=r"'p' does not end with '<think>'.*reward.think_start"):
        rows_without_thought(BYTES, ["p"], [ids("x")], "<think>")
