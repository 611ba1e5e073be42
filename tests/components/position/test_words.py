"""Random spans of words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.position import WordSpans
from rlcomp.data.masked_text import span_problem
from rlcomp.data.spans import Tokenised
from rlcomp.errors import ConfigError

TEXT = "It was the best of times, it was the worst of times,\nit was the agé of wisdom ..."


def spans(position, *texts):
    found = position.spans([Tokenised(text, ids=[], ends=[]) for text in texts])
    return [
        [text.encode()[start:stop].decode() for start, stop in each]
        for text, each in zip(texts, found, strict=True)
    ]


@given(st.text("aé \n.", max_size=80), st.integers(1, 3), st.integers(0, 2), st.integers(0, 9))
def test_each_is_of_so_many_whole_words_and_may_be_masked(text, shortest, more, seed):
    position = WordSpans(shortest=shortest, longest=shortest + more, largest_share=0.5, seed=seed)

    (found,) = spans(position, text)

    for span in found:
        assert shortest <= len(span.split()) <= shortest + more
        assert span == span.strip()
        assert set(span.split()) <= set(text.split())
        assert span_problem(text, span, largest_share=0.5) is None


@pytest.mark.parametrize(
    ("longest", "all_there_are"), [(1, ["bbb", "c", "dd"]), (2, ["bbb", "c", "dd", "dd c"])]
)
def test_all_there_are_are_found_if_so_many_are_asked_for(longest, all_there_are):
    # 17 characters, of which a quarter is 4: "eeeeeeee" and "bbb dd" are too much.
    position = WordSpans(longest=longest, per_document=99, largest_share=0.25)

    (found,) = spans(position, "eeeeeeee bbb dd c")

    assert sorted(found) == all_there_are


def test_a_text_has_as_many_as_asked_for_in_order():
    position = WordSpans(per_document=5)
    (found,) = position.spans([Tokenised(TEXT, ids=[], ends=[])])

    assert len(found) == 5
    assert found == sorted(set(found))


def test_a_text_has_the_same_ones_whatever_stands_beside_it():
    position = WordSpans()

    assert spans(position, "some other text", TEXT)[1] == spans(position, TEXT)[0]
    assert spans(WordSpans(seed=1), TEXT) != spans(position, TEXT)


def test_texts_that_differ_are_drawn_apart():
    a, b = spans(WordSpans(per_document=1), *(f"{'w ' * 50}{end}" for end in "ab"))

    assert a != b


def test_the_shortest_is_not_longer_than_the_longest():
    with pytest.raises(ConfigError, match="shortest is 3: must be at most longest, 2"):
        WordSpans(shortest=3, longest=2)
