"""Every sentence of a text."""

import pytest

from components.position import Sentences
from rlcomp.data.spans import Tokenised
from rlcomp.text.token_bytes import encode_with_ends
from rlcomp.text.tokenizer import byte_tokenizer


def sentences(text, min_context=0):
    document = Tokenised(text, *encode_with_ends(byte_tokenizer(), text))
    (found,) = Sentences(min_context=min_context).spans([document])
    return [text.encode()[start:stop].decode() for start, stop in found]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One. Two!  Three?", ["One.", "Two!", "Three?"]),
        ("Pi is 3.14. So?!", ["Pi is 3.14.", "So?!"]),
        ('He said "No." Then (so.) é.', ['He said "No."', "Then (so.)", "é."]),
        ("a title  \n\n  a line\r\nand one", ["a title", "a line", "and one"]),
        ("cut in the mid", ["cut in the mid"]),
        ("... x", ["...", "x"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_sentences_end_at_stops_and_line_ends(text, found):
    assert sentences(text) == found


def test_so_many_tokens_stand_before_a_sentence():
    assert sentences("é. b. c.", min_context=4) == ["b.", "c."]  # 4 bytes before "b"
    assert sentences("é. b. c.", min_context=5) == ["c."]
