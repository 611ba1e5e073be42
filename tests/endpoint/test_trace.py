"""Traces: which ids a call goes on from, and which rows come of it."""

import math

from hypothesis import given
from hypothesis import strategies as st

from rlcomp.endpoint.trace import Trace
from rlcomp.engine.session import TurnSample
from rlcomp.text.special_tokens import MarkedTextCodec
from rlcomp.text.tokenizer import byte_tokenizer, character_tokenizer

TOKENIZER = character_tokenizer(characters="abcd", words=["ab"])
TEXTS = MarkedTextCodec(TOKENIZER)
KNOWN = TOKENIZER.get_vocab()
EOS = TOKENIZER.eos_token_id


def ids(*pieces):
    return [KNOWN[piece] for piece in pieces]


def call(trace, text, *answers):
    """Ask, and be answered in pieces."""
    context = trace.context(text, leads=True)
    trace.record(
        context, [TurnSample([*answer], [-0.5] * len(answer), False) for answer in answers]
    )
    return context.ids


def test_what_was_sampled_is_never_encoded_again():
    trace = Trace(TEXTS)

    call(trace, "c", ids("a", "b"))

    # "ab" is one token of the tokenizer, and the policy wrote it as two: so it stays.
    assert call(trace, "cabd", ids("c")) == ids("c", "a", "b", "d")
    assert [row.ids for row in trace.rows] == [ids("c", "a", "b", "d", "c")]
    assert trace.rows[0].trained == [False, True, True, False, True]
    assert trace.rows[0].log_probs == [0.0, -0.5, -0.5, 0.0, -0.5]


def test_the_longest_earlier_answer_is_gone_on_from():
    trace = Trace(TEXTS)
    call(trace, "c", ids("a"))
    call(trace, "ca", ids("a", "b"))

    assert call(trace, "caabd", ids("c")) == ids("c", "a", "a", "b", "d")
    assert len(trace.rows) == 1


def test_a_history_that_is_written_anew_begins_a_row_of_the_same_episode():
    trace = Trace(TEXTS)
    call(trace, "c", ids("a"))
    call(trace, "d", ids("b"))
    call(trace, "dbc", ids("a"))

    assert [row.ids for row in trace.rows] == [ids("c", "a"), ids("d", "b", "c", "a")]
    assert [[turn.number for turn in row.turns] for row in trace.rows] == [[0], [1, 2]]


def test_of_two_that_go_on_from_one_answer_the_second_reads_it_only():
    trace = Trace(TEXTS)
    call(trace, "c", ids("a"))
    call(trace, "cab", ids("c"))
    call(trace, "cad", ids("c"))

    assert [row.ids for row in trace.rows] == [ids("c", "a", "b", "c"), ids("c", "a", "d", "c")]
    # Each sampled token is trained once.
    assert trace.rows[1].trained == [False, False, False, True]


def test_several_answers_to_a_call_are_rows_of_one_turn():
    trace = Trace(TEXTS)
    call(trace, "c", ids("a"), ids("b"))
    call(trace, "cbd", ids("d"))

    assert [row.ids for row in trace.rows] == [ids("c", "a"), ids("c", "b", "d", "d")]
    assert [[turn.number for turn in row.turns] for row in trace.rows] == [[0], [0, 1]]


def test_a_stop_token_is_no_text_of_plain_prompts():
    trace = Trace(TEXTS)
    call(trace, "c", [*ids("a"), EOS])

    assert call(trace, "cad", ids("b")) == ids("c", "a", "d")
    assert len(trace.rows) == 2


def test_special_tokens_in_somebodys_words_are_text():
    texts = MarkedTextCodec(byte_tokenizer())
    trace = Trace(texts)
    first = trace.context(texts.mark("a<eos>"), leads=True)
    trace.record(first, [TurnSample([*texts.encode("b"), 1], [0.0, 0.0], False)])

    again = trace.context(texts.mark("a<eos>b<eos>"), leads=True)

    assert 1 not in first.ids
    assert len(first.ids) == 6
    # The policy ended its answer; these words spell it.
    assert again.call is None
    assert 1 not in again.ids


def test_rewards_stand_with_the_call_before():
    trace = Trace(TEXTS)
    assert not trace.pay(1.0)
    call(trace, "c", ids("a"))
    trace.pay(0.25)
    call(trace, "d", ids("a"))
    trace.pay(0.5)
    trace.pay(0.5)

    assert [row.turns[0].reward for row in trace.rows] == [0.25, 1.0]
    assert trace.reward == 1.25
    trace.returned = -1.0
    assert trace.reward == -1.0


def test_without_any_word_of_it_there_is_no_reward():
    assert math.isnan(Trace(TEXTS).reward)


PIECES = st.lists(st.sampled_from(["a", "b", "c", "d", "ab"]), min_size=1, max_size=4)


@given(st.lists(st.tuples(PIECES, PIECES, st.booleans()), min_size=1, max_size=6))
def test_each_sampled_token_is_trained_once_and_rows_only_grow(calls):
    trace, text, sampled = Trace(TEXTS), "", []
    for asked, answer, anew in calls:
        text = "".join(asked) if anew else text + "".join(asked)
        before = [row.ids[:] for row in trace.rows]
        call(trace, text, ids(*answer))
        text += "".join(answer)
        sampled += ids(*answer)
        for row, old in zip(trace.rows, before, strict=False):
            assert row.ids[: len(old)] == old

    trained = [i for row in trace.rows for i, t in zip(row.ids, row.trained, strict=True) if t]
    assert sorted(trained) == sorted(sampled)
    for row in trace.rows:
        assert len(row.ids) == len(row.trained) == len(row.log_probs)
    numbers = [turn.number for row in trace.rows for turn in row.turns]
    assert sorted(numbers) == list(range(len(calls)))


def test_how_often_the_same_was_asked_before_is_counted_for_each():
    trace = Trace(TEXTS)

    assert [trace.times(each) for each in "aabab"] == [0, 1, 0, 2, 1]
