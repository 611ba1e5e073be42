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


def test_sampled_tokens_are_not_encoded_again():
    trace = Trace(TEXTS)

    call(trace, "c", ids("a", "b"))

    # "ab" is one token of the tokenizer, and the policy wrote it as two: so it stays.
    assert call(trace, "cabd", ids("c")) == ids("c", "a", "b", "d")
    assert [row.ids for row in trace.rows] == [ids("c", "a", "b", "d", "c")]
    assert trace.rows[0].trained == [False, True, True, False, True]
    assert trace.rows[0].log_probs == [0.0, -0.5, -0.5, 0.0, -0.5]


def test_a_call_continues_the_longest_earlier_answer():
    trace = Trace(TEXTS)
    call(trace, "c", ids("a"))
    call(trace, "ca", ids("a", "b"))

    assert call(trace, "caabd", ids("c")) == ids("c", "a", "a", "b", "d")
    assert len(trace.rows) == 1


def test_a_changed_history_begins_a_row():
    trace = Trace(TEXTS)
    call(trace, "c", ids("a"))
    call(trace, "d", ids("b"))
    call(trace, "dbc", ids("a"))

    assert [row.ids for row in trace.rows] == [ids("c", "a"), ids("d", "b", "c", "a")]
    assert [[turn.number for turn in row.turns] for row in trace.rows] == [[0], [1, 2]]


def test_a_second_continuation_of_an_answer_begins_a_row():
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


def test_a_stop_token_has_no_text_in_plain_prompts():
    trace = Trace(TEXTS)
    call(trace, "c", [*ids("a"), EOS])

    assert call(trace, "cad", ids("b")) == ids("c", "a", "d")
    assert len(trace.rows) == 2


def test_special_tokens_of_the_client_are_plain_text():
    texts = MarkedTextCodec(byte_tokenizer())
    trace = Trace(texts)
    first = trace.context(texts.mark("a<eos>"), leads=True)
    trace.record(first, [TurnSample([*texts.encode("b"), 1], [0.0, 0.0], False)])

    again = trace.context(texts.mark("a<eos>b<eos>"), leads=True)

    assert 1 not in first.ids
    assert len(first.ids) == 6
    # The policy ended its answer; these words spell it.
    assert again.answer is None
    assert 1 not in again.ids


def test_rewards_belong_to_the_last_call():
    trace = Trace(TEXTS)
    assert not trace.add_reward(1.0)
    call(trace, "c", ids("a"))
    trace.add_reward(0.25)
    call(trace, "d", ids("a"))
    trace.add_reward(0.5)
    trace.add_reward(0.5)

    assert [row.turns[0].reward for row in trace.rows] == [0.25, 1.0]
    assert trace.reward == 1.25
    trace.returned = -1.0
    assert trace.reward == -1.0


def test_without_a_reward_the_reward_is_nan():
    assert math.isnan(Trace(TEXTS).reward)


PIECES = st.lists(st.sampled_from(["a", "b", "c", "d", "ab"]), min_size=1, max_size=4)


@given(st.lists(st.tuples(PIECES, PIECES, st.booleans()), min_size=1, max_size=6))
def test_each_sampled_token_is_trained_once(calls):
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


def test_equal_calls_are_counted():
    trace = Trace(TEXTS)

    assert [trace.count_repeats(each) for each in "aabab"] == [0, 1, 0, 2, 1]
