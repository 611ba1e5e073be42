"""Spans of texts."""

from hypothesis import given
from hypothesis import strategies as st

from rlcomp.data.spans import (
    Span,
    Tokenised,
    byte_spans,
    context_start,
    is_boundary,
    token_ends,
    token_spans,
)
from rlcomp.text.token_bytes import encode_with_ends
from rlcomp.text.tokenizer import byte_tokenizer

BYTES = byte_tokenizer()


def in_bytes(text):
    return Tokenised(text, *encode_with_ends(BYTES, text))


def test_a_position_is_a_token_that_starts_a_character():
    # "aé€b" in bytes: a | C3 A9 | E2 82 AC | b; characters start at 0, 1, 3, 6.
    assert token_spans(in_bytes("aé€b"), 0) == {
        0: Span(0, 1),
        1: Span(1, 3),
        3: Span(3, 6),
        6: Span(6, 7),
    }


def test_a_position_ends_with_the_first_token_that_ends_a_character():
    # Three tokens: a C3 | A9 b | c. The second starts within a character; the first ends in one.
    document = Tokenised("aébc", ids=[0, 1, 2], ends=[2, 4, 5])

    assert token_spans(document, 0) == {0: Span(0, 4), 2: Span(4, 5)}


def test_so_many_tokens_stand_before_a_position():
    assert list(token_spans(in_bytes("abcd"), 3)) == [3]
    assert token_spans(in_bytes("abcd"), 4) == {}


def test_a_token_without_bytes_is_no_position():
    document = Tokenised("ab", ids=[0, 1, 2, 3], ends=[0, 1, 1, 2])

    assert token_spans(document, 0) == {1: Span(0, 1), 3: Span(1, 2)}


@given(st.text("aé€😀 \n", max_size=12), st.data())
def test_positions_are_whole_characters_whatever_the_tokens(text, data):
    size = len(text.encode())
    ends = sorted(data.draw(st.sets(st.integers(1, max(size, 1))))) if size else []
    ends = [end for end in ends if end < size] + [size][: bool(size)]
    bounds = [0, *ends]

    found = token_spans(Tokenised(text, ids=ends, ends=ends), 0)

    starts = {len(text[:place].encode()) for place in range(len(text))}
    assert {span.start for span in found.values()} == starts & set(bounds[:-1])
    assert list(found) == sorted(found)
    for index, (start, stop) in found.items():
        assert bounds[index] == start
        wholes = [end for end in ends if end > start and end in starts | {size}]
        assert stop == wholes[0]


def test_both_ends_of_a_text_are_boundaries():
    data = "é".encode()

    assert [is_boundary(data, place) for place in (0, 1, 2)] == [True, False, True]


@given(st.text(max_size=20), st.data())
def test_bytes_of_a_span_are_its_characters(text, data):
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))

    (span,) = byte_spans(text, [(start, stop)])

    assert text.encode()[span.start : span.stop].decode() == text[start:stop]


def test_a_text_goes_on_with_its_tokens():
    # Tokens "ab", "c", "d " and "e" of "abcd e", from byte 2 on.
    document = Tokenised("abcd e", ids=range(4), ends=[2, 3, 5, 6])

    assert token_ends(document, 2, 9) == (1, 3, 4)
    assert token_ends(document, 2, 2) == (1, 3)
    assert token_ends(document, 1, 1) == (1,)  # from within a token: the rest of it


def test_it_goes_on_to_the_end_of_a_character_within_the_horizon():
    # "né€": n | C3 A9 | E2 82 AC; the ends within characters count, but the last is a character's.
    document = in_bytes("né€")

    assert token_ends(document, 0, 2) == (1,)
    assert token_ends(document, 0, 5) == (1, 2, 3)
    assert token_ends(document, 0, 6) == (1, 2, 3, 4, 5, 6)


def test_the_first_character_may_be_longer_than_the_horizon():
    assert token_ends(in_bytes("€a"), 0, 1) == (1, 2, 3)


def test_a_token_without_bytes_adds_no_end():
    assert token_ends(Tokenised("ab", ids=range(3), ends=[1, 1, 2]), 0, 9) == (1, 2)


def test_the_context_is_the_last_tokens():
    document = Tokenised("abcdef", ids=range(3), ends=[2, 4, 6])

    assert [context_start(document, 4, count) for count in (1, 2, 3)] == [2, 0, 0]


def test_the_context_starts_with_a_whole_character():
    # Two tokens before byte 4 are A9 and "b".
    assert context_start(in_bytes("aébc"), 4, 2) == 3
