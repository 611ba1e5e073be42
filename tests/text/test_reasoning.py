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
    StepTokens,
    ThoughtEnd,
    answer_prefix,
    first_targets,
    last_words,
    response_ids,
    rows_after_thought,
    rows_without_thought,
    split_steps,
)
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import byte_tokenizer, character_tokenizer

BYTES = byte_tokenizer()


END = ThoughtEnd(BYTES, "</think>")


def ids(text):
    return BYTES(text)["input_ids"]


def test_last_words_are_three_by_default():
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


def test_an_end_that_is_a_special_token_is_detected():
    tokenizer = character_tokenizer(characters="ab")
    tokenizer.add_special_tokens({"additional_special_tokens": ["</think>"]})
    tokenizer.split_special_tokens = False
    end = ThoughtEnd(tokenizer, "</think>")

    assert len(end.ids) == 1
    assert end.length([2, 3, *end.ids, 2]) == 3


def test_response_ids_include_holes():
    tokens = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 8, 9]])
    mask = torch.tensor([[0, 1, 0, 1, 0], [0, 0, 0, 0, 0]]).bool()

    rows, starts = response_ids(make_batch(tokens=tokens, response_mask=mask))

    assert rows == [[6, 7, 8], []]
    assert starts.tolist() == [1, 5]


@pytest.mark.parametrize(
    ("count", "expected"), [(1, " pa"), (2, " para"), (3, " para n"), (9, " para n")]
)
def test_a_target_ends_after_num_tokens(count, expected):
    answer = prompt_batch([Example("", " para n", "", (3, 5, 7))])

    assert first_targets(BYTES, answer, count) == [ids(expected)]


def test_an_empty_answer_has_no_target():
    assert first_targets(BYTES, prompt_batch([Example("", "", "")]), 1) == [[]]


@given(st.text(min_size=1, max_size=8), st.data())
def test_answer_prefix_has_whole_characters(answer, data):
    size = len(answer.encode())
    ends = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    count = data.draw(st.integers(1, 4))

    result = answer_prefix(answer, ends, count)

    # By hand: the characters one after the other, until the byte of the end is covered.
    places = [byte + 1 for byte, end in enumerate(ends) if end][:count]
    place = max(places, default=0)
    taken = ""
    for char in answer:
        taken += char if len(taken.encode()) < place else ""
    assert result == taken


def test_rows_after_thought_score_the_target_only():
    batch = encode_rows(BYTES, ["p<think>", "q<think>"], ["ab</think>c", "d"])

    rows = rows_after_thought(BYTES, batch, [ids("xy"), ids("z")], END)

    texts = [
        BYTES.decode(row[m]) for row, m in zip(*thought_batch(rows, "attention_mask"), strict=True)
    ]
    scored = [
        BYTES.decode(row[m]) for row, m in zip(*thought_batch(rows, "response_mask"), strict=True)
    ]
    assert texts == ["p<think>ab</think>xy", "q<think>d</think>z"]
    assert scored == ["xy", "z"]


def thought_batch(rows, mask):
    return rows["tokens"], rows[mask]


def test_a_row_without_a_response_has_an_empty_thought():
    batch = encode_rows(BYTES, ["pq", "pqr"], ["", ""])
    batch["attention_mask"] &= ~batch["response_mask"]
    batch["response_mask"] = torch.zeros_like(batch["response_mask"])

    rows = rows_after_thought(BYTES, batch, [ids("x"), ids("x")], END)

    texts = [
        BYTES.decode(row[m]) for row, m in zip(*thought_batch(rows, "attention_mask"), strict=True)
    ]
    assert texts == ["pq</think>x", "pqr</think>x"]


def test_rows_without_thought_have_the_context_only():
    rows = rows_without_thought(BYTES, ["p<think>", "<think>"], [ids("x"), ids("y")], "<think>")

    assert rows["tokens"].tolist() == [ids("px"), [BYTES.eos_token_id, *ids("y")]]
    assert rows["response_mask"].tolist() == [[False, True], [False, True]]


def test_a_prompt_without_think_start_raises_with_the_remedy():
    with pytest.raises(DataError, match=r"'p' does not end with '<think>'.*reward.think_start"):
        rows_without_thought(BYTES, ["p"], [ids("x")], "<think>")


def byte_ids(tokenizer, data):
    ids = {data: n for n, data in enumerate(StepTokens(tokenizer)._table)}
    return [ids[bytes([byte])] for byte in data]


def test_a_step_ends_with_the_token_that_writes_its_last_byte():
    tokenizer = byte_tokenizer()
    ids = byte_ids(tokenizer, "é\nab".encode())

    result = StepTokens(tokenizer).counts(ids, "é\nab", ["é\n", "a", "b"])

    assert result == [3, 4, 5]


def test_one_token_may_end_several_steps():
    tokenizer = character_tokenizer(characters="ab", words=["ab;ab"])
    ids = tokenizer.convert_tokens_to_ids(["a", "<eos>", "ab;ab", "b"])

    result = StepTokens(tokenizer).counts(ids, "aab;abb", ["a", "ab;", "ab", "b"])

    assert result == [1, 3, 3, 4]


def test_steps_of_invalid_utf_8_are_located_by_decoding():
    tokenizer = byte_tokenizer()
    ids = byte_ids(tokenizer, b"a\n\xc3b\nc")
    tokens = StepTokens(tokenizer)

    text = tokens.text(ids)

    assert text == "a\n\ufffdb\nc"
    assert tokens.counts(ids, text, ["a\n", "\ufffdb\n", "c"]) == [2, 5, 6]
    # Of a text that the tokens do not write in the end all of them are needed.
    assert tokens.counts(ids, text, ["a\n", "x"]) == [2, 6]
    # Every step has a last token, an empty one too.
    assert tokens.counts(ids, text, [""]) == [1]


@pytest.mark.parametrize(
    ("text", "separator", "steps"),
    [
        ("a;b", ";", ["a;", "b"]),
        ("a;b;", ";", ["a;", "b;"]),
        (";;a", ";", [";;a"]),
        ("a;;b", ";", ["a;;", "b"]),
        (";", ";", [";"]),
        ("ab", "", ["a", "b"]),
        ("", "", [""]),
        ("ab", ";", ["ab"]),
    ],
)
def test_steps_concatenate_to_the_text(text, separator, steps):
    assert split_steps(text, separator) == steps
    assert "".join(steps) == text
