import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcomp.functional.prefix_match import begins_with_first, last_boxed, matched_tokens
from rlcomp.text.token_bytes import encode_with_ends
from rlcomp.text.tokenizer import byte_tokenizer

# " para" | "meter" | " =": 5, 5 and 2 bytes.
TRUTH, ENDS = b" parameter =", [5, 10, 12]


@pytest.mark.parametrize(
    ("prediction", "tokens"),
    [
        (b" para", 1),
        (b" parameter", 2),
        (b" parameter =", 3),
        (b" param", 0),
        (b"para", 0),
        (b"", 0),
        (b" parameter = 1", 0),
    ],
)
def test_the_worked_example_of_rpt(prediction, tokens):
    assert matched_tokens(prediction, TRUTH, ENDS) == tokens


def test_a_character_of_two_byte_tokens_is_two_tokens_and_never_half():
    _, ends = encode_with_ends(byte_tokenizer(), "é")

    assert ends == [1, 2]
    assert matched_tokens("é".encode(), b"\xc3\xa9", ends) == 2
    # As text no prediction is the byte C3 alone: Ã is C3 83.
    assert matched_tokens("Ã".encode(), b"\xc3\xa9", ends) == 0


def test_a_character_of_several_bytes_ends_where_its_token_ends():
    # "€" | "5": 3 bytes and 1.
    assert matched_tokens("€".encode(), "€5".encode(), [3, 4]) == 1
    assert matched_tokens("€5".encode(), "€5".encode(), [3, 4]) == 2


def test_newlines_at_the_end_are_tokens_like_any_other():
    # "so." | "\n\n" | "\n": the second token is two newlines.
    truth, ends = b"so.\n\n\n", [3, 5, 6]

    result = [matched_tokens(b"so." + b"\n" * count, truth, ends) for count in range(5)]

    assert result == [1, 0, 2, 3, 0]


def test_only_the_ends_that_are_told_count():
    # The document goes on behind the answer, but the answer itself ends within a token.
    assert matched_tokens(b"ab", b"ab", [1]) == 0


def test_an_end_after_no_bytes_is_no_token():
    assert matched_tokens(b"", b"ab", [0, 2]) == 0
    assert matched_tokens(b"ab", b"ab", [0, 2]) == 1
    assert begins_with_first(b"abc", b"ab", [0, 2])


@st.composite
def cut_texts(draw):
    """A text as tokens, and a prediction that is often its beginning."""
    tokens = draw(st.lists(st.binary(min_size=1, max_size=3), min_size=1, max_size=5))
    truth = b"".join(tokens)
    beginning = st.integers(0, len(truth)).map(lambda size: truth[:size])
    return tokens, draw(beginning | st.binary(max_size=4) | beginning.map(lambda b: b + b"x"))


@given(cut_texts())
def test_a_prediction_is_right_if_it_is_some_number_of_tokens(case):
    tokens, prediction = case
    truth = b"".join(tokens)
    ends = [len(b"".join(tokens[: n + 1])) for n in range(len(tokens))]

    # The slow way: every boundary is tried. Tokens have bytes, so at most one fits.
    by_hand = [n for n in range(1, len(tokens) + 1) if b"".join(tokens[:n]) == prediction]

    assert matched_tokens(prediction, truth, ends) == sum(by_hand)
    assert begins_with_first(prediction, truth, ends) == (prediction[: len(tokens[0])] == tokens[0])


@pytest.mark.parametrize(
    ("prediction", "right"),
    [
        (b" para", True),
        (b" parallel lines", True),
        (b" parameter", True),
        (b" par", False),
        (b"para", False),
        (b"", False),
    ],
)
def test_the_first_token_alone_has_to_be_right(prediction, right):
    assert begins_with_first(prediction, TRUTH, ENDS) is right


def test_nothing_begins_with_the_first_token_of_nothing():
    assert not begins_with_first(b"a", b"", [])
    assert not begins_with_first(b"a", b"", [0])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (rb"\boxed{a}", b"a"),
        (rb"\boxed{ a }", b" a "),
        (b"\\boxed{a\n}", b"a\n"),
        (rb"\boxed{}", b""),
        (rb"\boxed{a} or \boxed{b}!", b"b"),
        (rb"\boxed{\frac{1}{2}}", rb"\frac{1}{2}"),
        (rb"\boxed{{}}", b"{}"),
        (rb"\boxed{\{}", rb"\{"),
        (rb"\boxed{\}}", rb"\}"),
        (rb"\boxed{a\\}", rb"a\\"),
        (rb"} \boxed{a} {", b"a"),
        (rb"{ \boxed{a}", b"a"),
        (rb"\boxed{so \boxed{5}}", rb"so \boxed{5}"),
        ("\\boxed{é}".encode(), b"\xc3\xa9"),
        (b"\\boxed{\xc3}", b"\xc3"),
        (rb"a", None),
        (rb"\boxed a", None),
        (rb"boxed{a}", None),
        (rb"\\boxed{a}", None),
        (rb"\boxed{a", None),
        (rb"\boxed{a\}", None),
        (rb"\boxed{{a}", None),
        (rb"\boxed{a} or \boxed{b", b"a"),
        (rb"\boxed{a} and \boxed{", b"a"),
    ],
)
def test_the_last_complete_box_counts_as_it_stands(text, found):
    assert last_boxed(text, after=b"") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (rb"\boxed{a}</think>\boxed{b}", b"b"),
        (rb"\boxed{a}</think>b", None),
        (rb"\boxed{a}", None),
        (rb"\boxed{a</think>}", None),
        (rb"</think>\boxed{a}</think>", b"a"),
        (rb"\</think>{\boxed{a}", b"a"),
        (b"", None),
    ],
)
def test_only_what_stands_behind_the_thought_counts(text, found):
    assert last_boxed(text) == found


PIECES = [rb"\boxed{", b"{", b"}", b"\\", b"boxed{", b"a", b"\n"]


@given(st.lists(st.sampled_from(PIECES), max_size=9).map(b"".join))
@settings(max_examples=300)
def test_boxes_agree_with_trying_every_pair_of_braces(text):
    # The complete boxes: from an opening to the first brace that balances it.
    boxes = [
        (end, text[start + 7 : end])
        for start in range(len(text))
        if text[start : start + 7] == rb"\boxed{" and not is_escaped(text, start)
        for end in range(start + 7, len(text))
        if is_closed_by(text, start + 7, end)
    ]

    assert last_boxed(text, after=b"") == (max(boxes)[1] if boxes else None)


def is_escaped(text, place):
    before = text[:place]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1


def is_closed_by(text, start, end):
    """Whether the brace at ``end`` is the first at which as many are closed as are open."""
    depth = 1
    for place in range(start, end + 1):
        if not is_escaped(text, place):
            depth += {b"{": 1, b"}": -1}.get(text[place : place + 1], 0)
        if depth == 0:
            return place == end
    return False


def test_a_response_of_many_open_boxes_is_read_in_one_go():
    # 700 kB; every box read to the end of the text would take hours.
    assert last_boxed(b"\\boxed{" * 100_000, after=b"") is None
