"""Questions with two options, asked of an endpoint that answers by hand."""

import warnings

import pytest

from rlcomp.errors import ConfigError, RlcompWarning
from rlcomp.interfaces.judge import NoVerdict, check_options, option_preferences
from rlcomp.interfaces.protocols import ModelReply


class Endpoint:
    """Gives its replies and keeps how it was asked."""

    def __init__(self, *replies):
        self.replies, self.asked = list(replies), []

    def ask(self, prompts, *, max_tokens, alternatives=0):
        self.asked.append((list(prompts), max_tokens, alternatives))
        return self.replies


def chosen(endpoint, read, least_mass=0.5, no_verdict=None):
    questions = [f"q{n}" for n in range(len(endpoint.replies))]
    return option_preferences(
        endpoint,
        questions,
        ("yes", "no"),
        read=read,
        least_mass=least_mass,
        alternatives=7,
        no_verdict=no_verdict or NoVerdict("J"),
    )


def test_texts_are_read_by_how_they_begin():
    endpoint, why = Endpoint(ModelReply("Yes."), ModelReply("no"), None), NoVerdict("J")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chosen(endpoint, "text", no_verdict=why) == [1.0, 0.0, None]
    assert endpoint.asked == [(["q0", "q1", "q2"], 8, 0)]
    assert why.reason == ""


def test_the_first_text_that_chooses_neither_option_is_reported():
    endpoint, why = (
        Endpoint(ModelReply("yes"), None, ModelReply("m" * 99), ModelReply("hm")),
        NoVerdict("J"),
    )

    with pytest.warns(RlcompWarning, match=r"2 of 4 questions"):
        assert chosen(endpoint, "text", no_verdict=why) == [1.0, None, None, None]
    assert f"the answer '{'m' * 60}' begins neither with 'yes' nor with 'no'" in why.reason


def test_probabilities_are_shares_of_the_two_options():
    first = {"Yes": 0.6, "no": 0.2, "x": 0.2}
    endpoint = Endpoint(
        ModelReply("", first), None, ModelReply("", {"yes": 0.25, "No": 0.25}), ModelReply("", {})
    )

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = chosen(endpoint, "log_probs")

    assert found[0] == pytest.approx(0.75)
    assert found[1] is None
    assert found[2:] == [0.5, None]
    assert endpoint.asked == [(["q0", "q1", "q2", "q3"], 1, 7)]


def test_the_first_question_of_too_little_mass_is_reported_with_its_likeliest_token():
    replies = [
        {"yes": 0.4, "no": 0.4},
        {"x": 0.5, "yes": 0.3, "No": 0.1, "y" * 70: 0.1},
        {"z": 1.0},
    ]
    why = NoVerdict("J")

    with pytest.warns(RlcompWarning, match="2 of 3 questions"):
        found = chosen(Endpoint(*(ModelReply("", one) for one in replies)), "log_probs", 0.6, why)

    assert found == [0.5, None, None]
    assert "'yes' and 'no' together, in every spelling, is 0.4" in why.reason
    assert "least_mass is 0.6" in why.reason
    assert "the likeliest answer is 'x'" in why.reason


def test_an_endpoint_without_log_probs_is_refused_and_one_that_is_gone_is_not():
    with pytest.raises(ConfigError, match="set read=text"):
        chosen(Endpoint(ModelReply("yes"), None), "log_probs")
    assert chosen(Endpoint(None, None), "log_probs") == [None, None]
    assert chosen(Endpoint(ModelReply("a"), ModelReply("b", {"yes": 1.0})), "log_probs") == [
        None,
        1.0,
    ]


@pytest.mark.parametrize(
    ("one", "other", "fits"),
    [
        ("yes", "no", True),
        ("yes", "yesterday", False),
        ("yesterday", "yes", False),
        ("Yes", '"yes', False),
        ("[[1]]", "[[2]]", True),
    ],
)
def test_options_that_begin_alike_are_refused(one, other, fits):
    if fits:
        check_options("J", first=one, second=other)
        return
    with pytest.raises(ConfigError, match=f"J: first is {one!r} and second is {other!r}"):
        check_options("J", first=one, second=other)
