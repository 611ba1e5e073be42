"""Which token completes each step, by the bytes of tokens and where these are not the text's."""

import pytest

from rlcomp.text.reasoning import StepTokens, split_steps
from rlcomp.text.tokenizer import byte_tokenizer, character_tokenizer


def byte_ids(tokenizer, data):
    ids = {data: n for n, data in enumerate(StepTokens(tokenizer)._table)}
    return [ids[bytes([byte])] for byte in data]


def test_a_step_ends_with_the_token_that_writes_its_last_byte():
    tokenizer = byte_tokenizer()
    ids = byte_ids(tokenizer, "é\nab".encode())

    found = StepTokens(tokenizer).counts(ids, "é\nab", ["é\n", "a", "b"])

    assert found == [3, 4, 5]


def test_special_tokens_write_nothing_and_one_token_may_end_several_steps():
    tokenizer = character_tokenizer(characters="ab", words=["ab;ab"])
    ids = tokenizer.convert_tokens_to_ids(["a", "<eos>", "ab;ab", "b"])

    found = StepTokens(tokenizer).counts(ids, "aab;abb", ["a", "ab;", "ab", "b"])

    assert found == [1, 3, 3, 4]


def test_bytes_that_are_no_text_are_found_by_what_is_decoded():
    tokenizer = byte_tokenizer()
    ids = byte_ids(tokenizer, b"a\n\xc3b\nc")
    tokens = StepTokens(tokenizer)

    text = tokens.text(ids)

    assert text == "a\n\ufffdb\nc"
    assert tokens.counts(ids, text, ["a\n", "\ufffdb\n", "c"]) == [2, 5, 6]
    # Of a text that the tokens do not write in the end all of them are needed.
    assert tokens.counts(ids, text, ["a\n", "x"]) == [2, 6]


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
