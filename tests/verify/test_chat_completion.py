import json

import pytest

from rlcomp.verify.chat_completion import completion


def body(content="yes", log_prob="0"):
    first = f'{{"top_logprobs": [{{"token": "yes", "logprob": {log_prob}}}]}}'
    choice = (
        f'{{"message": {{"content": {json.dumps(content)}}}, "logprobs": {{"content": [{first}]}}}}'
    )
    return f'{{"choices": [{choice}]}}'.encode()


def test_the_log_probs_of_the_first_token_are_read():
    assert completion(body(log_prob="-Infinity")).first == {"yes": 0.0}
    assert completion(body(log_prob="0")).first == {"yes": 1.0}


def test_a_whole_number_longer_than_any_float_is_a_probability_of_zero():
    assert completion(body(log_prob="-" + "9" * 400)).first == {"yes": 0.0}


def test_half_a_character_is_no_text():
    with pytest.raises(ValueError, match="a lone surrogate"):
        completion(body(content="yes \ud800"))


@pytest.mark.parametrize(
    ("message", "counted"),
    [
        *(("12", 12), ("0", 0), (str(2**40 - 1), 2**40 - 1), (str(2**40), 0)),
        *(("-1", 0), ("true", 0), ("1.0", 0), ('"7"', 0), ("null", 0)),
    ],
)
def test_tokens_are_counted_where_their_number_is_one(message, counted):
    usage = f', "usage": {{"total_tokens": {message}}}}}'.encode()

    assert completion(body().removesuffix(b"}") + usage).tokens == counted
