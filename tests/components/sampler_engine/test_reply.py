"""Each wrong reply is told as what it is; none becomes a row."""

import base64

import pytest
import torch

from components.sampler_engine.reply import (
    Response,
    WrongReplyError,
    as_sampled,
    read_responses,
)
from rlcomp.engine.decoding import Decoding

from .conftest import choice, reply, request

ENDED, CUT = reply()["choices"]
NAN = float("nan")


def read(told, *, versioned=True, **changes):
    return read_responses(told, request(**changes), [5, 6], versioned=versioned)


def with_first(**changes):
    """The reply, its first choice changed."""
    return reply(choices=[{**ENDED, **changes}, CUT], usage=None)


def log_probs(*values):
    return {"token_logprobs": list(values)}


def test_responses_come_in_the_order_of_their_index():
    expected = [
        Response([8, 1], [-0.5, -0.25], False),
        Response([8, 9, 2], [-1.0, -2.0, -3.0], True),
    ]

    assert read(reply()) == expected
    assert read(reply(choices=[CUT, ENDED])) == expected


def test_a_stop_token_at_the_limit_is_an_end():
    last = choice(0, [8, 9, 1], [-1.0, -2.0, -3.0], "length")

    assert [one.truncated for one in read(reply(choices=[last, CUT], usage=None))] == [False, True]


def test_what_servers_leave_out_or_add_is_borne():
    told = with_first(prompt_token_ids=[5, 6], text="x", stop_reason=1)
    del told["usage"], told["weight_version"]

    assert read(told, versioned=False)[0].tokens == [8, 1]
    assert read(reply(weight_version=4))[0].tokens == [8, 1]
    there = {**told, "metadata": {"weight_version": "4"}}
    assert read(there)[0].tokens == [8, 1]
    with pytest.raises(WrongReplyError, match="weight_version '3'"):
        read({**told, "metadata": {"weight_version": "3"}}, versioned=False)


VERSIONLESS = {key: value for key, value in reply().items() if key != "weight_version"}
WRONG = {
    "no choices": ({"weight_version": "4"}, "no list of choices"),
    "a text of choices": (reply(choices="a"), "no list of choices"),
    "a choice is a text": (reply(choices=["a", "b"]), "no list of choices"),
    "one choice": (reply(choices=[ENDED]), r"2 responses were requested.*\[0\]"),
    "three choices": (reply(choices=[ENDED, CUT, {**CUT, "index": 2}]), r"numbered \[0, 1, 2\]"),
    "an index twice": (reply(choices=[ENDED, {**CUT, "index": 0}]), r"numbered \[0, 0\]"),
    "no index": (reply(choices=[ENDED, CUT, {**CUT, "index": None}]), "2 responses were requested"),
    "text only": (with_first(token_ids=None, text="81"), "return_token_ids"),
    "empty": (with_first(token_ids=[]), "return_token_ids"),
    "another prompt": (with_first(prompt_token_ids=[2, 5, 6]), "no BOS and no template"),
    "outside the vocabulary": (with_first(token_ids=[10, 1]), "token id 10, the policy has 10"),
    "a negative id": (with_first(token_ids=[-1, 1]), "token id -1"),
    "an id as a text": (with_first(token_ids=["8", 1]), "token id '8'"),
    "a truth as an id": (with_first(token_ids=[True, 1]), "token id True"),
    "a suppressed id": (with_first(token_ids=[0, 1]), "suppressed token id 0"),
    "a log-prob too few": (with_first(logprobs=log_probs(-0.5)), "2 token_ids and 1 token_logpr"),
    "a log-prob too many": (with_first(logprobs=log_probs(-1, -1, -1)), "2 token_ids and 3 token"),
    "no log-probs": (with_first(logprobs=None), "2 token_ids and no token_logprobs"),
    "log-probs as a list": (with_first(logprobs=[-1, -1]), "2 token_ids and no token_logprobs"),
    "NaN": (with_first(logprobs=log_probs(-0.5, NAN)), "token 1 is nan.*processed_logprobs"),
    "infinite": (with_first(logprobs=log_probs(-float("inf"), -1)), "token 0 is -inf"),
    "probability 0": (with_first(logprobs=log_probs(-9999.0, -1)), "token 0 is -9999"),
    "a logit": (with_first(logprobs=log_probs(0.02, -1)), "token 0 is 0.02"),
    "null": (with_first(logprobs=log_probs(None, -1)), "token 0 is None: no number"),
    "a truth": (with_first(logprobs=log_probs(False, -1)), "token 0 is False: no number"),
    "a text": (with_first(logprobs=log_probs("-1", -1)), "token 0 is '-1': no number"),
    "behind EOS": (with_first(token_ids=[1, 8]), "sampled more after stop token 1"),
    "EOS dropped": (
        with_first(token_ids=[8, 9], logprobs=log_probs(-1, -1)),
        r"2 tokens \(finish_reason 'stop', max_tokens 3\) has no stop token",
    ),
    "cut too early": (
        with_first(token_ids=[8], logprobs=log_probs(-1), finish_reason="length"),
        r"1 tokens \(finish_reason 'length', max_tokens 3\)",
    ),
    "cut too late": (
        with_first(token_ids=[8] * 4, logprobs=log_probs(*[-1] * 4), finish_reason="length"),
        "4 tokens: it must heed max_tokens, which is 3",
    ),
    "ended too late": (
        with_first(token_ids=[8, 8, 8, 1], logprobs=log_probs(*[-1] * 4)),
        "4 tokens: it must heed max_tokens, which is 3",
    ),
    "aborted": (
        with_first(token_ids=[8] * 3, logprobs=log_probs(*[-1] * 3), finish_reason="abort"),
        "finish_reason 'abort'",
    ),
    "a log-prob beyond all floats": (with_first(logprobs=log_probs(-(10**400), -1)), "token 0 is"),
    "metadata as a list": ({**VERSIONLESS, "metadata": ["4"]}, "versioned=false"),
    "ids dropped": (reply(usage={"completion_tokens": 6}), "counts 6 sampled tokens.*ids of 5"),
    "another version": (reply(weight_version="3"), "weight_version '3', not the requested 4"),
    "no version": (reply(weight_version=None), "sampler_engine.versioned=false"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_reply_is_refused_with_what_is_wrong(name):
    told, message = WRONG[name]

    with pytest.raises(WrongReplyError, match=message):
        read(told)


def test_rounding_above_zero_and_unlikely_tokens_are_no_mistakes():
    told = with_first(logprobs=log_probs(0.01, -9998.0))

    assert read(told)[0].log_probs == [0.01, -9998.0]


def test_log_probs_are_floats_however_they_are_written():
    told = with_first(logprobs=log_probs(-1, 0))

    assert [type(value) for value in read(told)[0].log_probs] == [float, float]


def test_a_usage_that_counts_nothing_is_borne():
    assert len(read(reply(usage=["5"]))) == 2


def test_a_greedy_policy_takes_its_token_with_probability_one():
    found = read(reply(), decoding=Decoding(temperature=0.0))

    assert [one.log_probs for one in found] == [[0.0, 0.0], [0.0, 0.0, 0.0]]


REPLAYED = Decoding(top_p=0.5, replay=True)


def mask(*numbers):
    """Of 10 ids in two bytes per token, the first id the highest bit."""
    return base64.b64encode(bytes(numbers)).decode()


def test_sampling_masks_are_read_where_they_are_replayed():
    # Of 8 and 1; of 8, 9 and 2, the last drawn from 2 and 3.
    ended, cut = mask(0, 128, 64, 0), mask(0, 128, 0, 64, 48, 0)
    told = reply(choices=[{**ENDED, "sampling_mask": ended}, {**CUT, "sampling_mask": cut}])

    first, second = read(told, decoding=REPLAYED)

    assert first.sampling_mask.tolist() == [[0, 128], [64, 0]]
    assert second.sampling_mask.tolist() == [[0, 128], [0, 64], [48, 0]]
    assert read(told)[0].sampling_mask is None


def test_a_token_outside_its_sampling_mask_is_refused():
    with pytest.raises(WrongReplyError, match="sampling_mask excludes a token that it sampled"):
        read(with_first(sampling_mask=mask(0, 128, 191, 255)), decoding=REPLAYED)


@pytest.mark.parametrize(
    "told", [None, "", "x", "\xe4", 7, mask(0, 128), mask(0, 128, 64, 0, 0, 0)]
)
def test_without_the_sampling_masks_nothing_is_replayed(told):
    with pytest.raises(WrongReplyError, match=r"no sampling_mask.*decoding=full"):
        read(with_first(sampling_mask=told), decoding=REPLAYED)


def routes(count):
    """Of two layers with three experts per token each."""
    return base64.b64encode(bytes(range(6 * count))).decode()


def test_routes_are_read_of_prompt_and_response_where_they_are_kept():
    told = reply(
        choices=[{**ENDED, "routed_experts": routes(4)}, {**CUT, "routed_experts": routes(5)}]
    )

    ended, cut = read(told, routing=(2, 3))

    assert ended.routes.shape == (4, 2, 3)
    assert cut.routes[4].tolist() == [[24, 25, 26], [27, 28, 29]]
    assert read(told)[0].routes is None
    rows = as_sampled([ended, cut])
    assert rows.routes.shape == (2, 5, 2, 3)
    assert rows.routes[0, 4].tolist() == [[255] * 3] * 2
    assert torch.equal(rows.routes[1], cut.routes)
    assert as_sampled(read(told)).routes is None


@pytest.mark.parametrize("told", [None, "x", routes(2), routes(5)])
def test_without_the_routes_none_are_kept(told):
    with pytest.raises(WrongReplyError, match=r"no routed_experts.*decoding.keep_routing=proximal"):
        read(with_first(routed_experts=told), routing=(2, 3))


def test_responses_become_rows():
    sampling_mask = torch.tensor([[3, 4]], dtype=torch.uint8)
    long, short = Response([8, 1], [-0.5, -0.25], False), Response([7], [-1.5], True, sampling_mask)

    rows = as_sampled([long, short])

    assert rows.tokens.tolist() == [[8, 1], [7, 0]]
    assert rows.log_probs.tolist() == [[-0.5, -0.25], [-1.5, 0.0]]
    assert rows.log_probs.dtype == torch.float32
    assert rows.lengths.tolist() == [2, 1]
    assert rows.truncated.tolist() == [False, True]
    assert as_sampled([long]).sampling_mask is None
    both = as_sampled(
        [
            Response([8, 1], [-1.0, -1.0], False, torch.cat([sampling_mask, sampling_mask + 1])),
            short,
        ]
    )
    assert both.sampling_mask.tolist() == [[[3, 4], [4, 5]], [[3, 4], [0, 0]]]
