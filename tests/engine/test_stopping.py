import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.engine.stopping import StopRule

TABLE = [b"", b"a", b"</", b"s>", b"s>x", b">", b"s"]


def taken(rule, *rows):
    """Feed rows of tokens step by step; return the last step of each, None if it did not end."""
    over = [None] * len(rows)
    for step in range(max(map(len, rows))):
        alive = [row for row in range(len(rows)) if over[row] is None and step < len(rows[row])]
        ended = rule.take(alive, torch.tensor([rows[row][step] for row in alive]))
        for row, is_over in zip(alive, ended, strict=True):
            if is_over:
                over[row] = step
    return over


def test_a_stop_token_a_stop_text_and_a_limit():
    rule = StopRule([0], [9, 9, 9, 2], [b"</s>"], TABLE)

    # A stop token; a text over two tokens, one of them longer; a text over three; the limit.
    assert taken(rule, [1, 0], [1, 2, 4], [2, 6, 5], [1, 1]) == [1, 2, 2, 1]
    assert rule.lengths == [2, 3, 3, 2]
    assert rule.truncated == [False, False, False, True]


def test_a_stop_token_at_the_limit_is_no_truncation():
    rule = StopRule([0], [2, 2], [b"s>"], TABLE)

    assert taken(rule, [1, 0], [1, 3]) == [1, 1]
    assert rule.truncated == [False, False]


def test_a_finished_row_takes_no_token():
    rule = StopRule([0], [3, 3])

    assert rule.take([0, 1], torch.tensor([0, 1])) == [True, False]
    assert rule.take([0, 1], torch.tensor([1, 1])) == [True, False]
    assert rule.lengths == [1, 2]


def test_stop_texts_of_one_byte_and_overlapping_stop_texts():
    assert taken(StopRule([], [9], [b"x"], TABLE), [1, 3, 4]) == [2]
    # "</" twice: the second one is completed.
    assert taken(StopRule([], [9], [b"</s>"], TABLE), [2, 2, 3]) == [2]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=12))
def test_a_row_ends_at_the_first_stop_text(tokens):
    rule = StopRule([], [99], [b"</s>", b"a>"], TABLE)

    (actual,) = taken(rule, tokens)

    whole = [b"".join(TABLE[token] for token in tokens[: n + 1]) for n in range(len(tokens))]
    held = [n for n, texts in enumerate(whole) if b"</s>" in texts or b"a>" in texts]
    assert actual == (held[0] if held else None)


@given(
    tokens=st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=12),
    look=st.integers(1, 5),
    limits=st.lists(st.integers(1, 12), min_size=3, max_size=3),
    texts=st.sampled_from([(), (b"bc",)]),
)
def test_take_steps_agrees_with_take(tokens, look, limits, texts):
    table = [b"a", b"b", b"c", b"d", b"e"]
    one, many = (StopRule([3, 4], limits, texts, table) for _ in range(2))
    rows = [0, 1, 2]

    for start in range(0, len(tokens), look):
        some = torch.tensor(tokens[start : start + look])
        over = many.take_steps(rows, some)
        for step in some:
            expected = one.take(rows, step)

        assert over == expected
        assert many.lengths == one.lengths
        assert many.truncated == one.truncated
