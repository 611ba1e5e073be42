"""Judges and writers behind an endpoint."""

import time

import pytest
import torch
from tensordict import TensorDict

from components.judge import EndpointJudge
from components.pairing import JudgedPairs
from components.pairwise_judge.option import EndpointPairJudge
from components.pairwise_judge.rationale import ParsedJudge, ReasoningJudge
from components.reward.judge import JudgeScore, Rubric
from components.reward.ruler import Ruler
from components.reward.tournament import Tournament
from components.writer import EndpointWriter
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.errors import ConfigError
from rlcomp.interfaces.judge import AnswerPair
from rlcomp.seed import seeded

from .conftest import completion

PAIRS = "{prompt}|{first}|{second}?"
SAID = pytest.mark.filterwarnings("ignore:.*no verdict:rlcomp.errors.RlcompWarning")
FAILED = pytest.mark.filterwarnings("ignore::rlcomp.errors.RlcompWarning")


def batch(*responses, answer="r"):
    rows = len(responses)
    texts = {"prompt": ["p"] * rows, "response": responses, "answer": [answer] * rows}
    entries = {name: encode_texts(list(column)) for name, column in texts.items()}
    return TensorDict({**entries, "group_id": torch.zeros(rows, dtype=torch.long)}, [rows])


def test_the_verdict_on_a_pair_is_the_share_of_the_first_option(server, endpoint):
    # p(1) = .3 + .1 and p(2) = .1; the rest says neither. .4 / .5 = .8.
    server.say = lambda prompt: completion("1", {"1": 0.3, " 1": 0.1, "2": 0.1, "The": 0.5})
    judge = EndpointPairJudge(endpoint=endpoint(), template=PAIRS)

    assert judge([AnswerPair("p", "{second}", "b")]) == [pytest.approx(0.8)]
    ((_, asked),) = server.asked
    assert asked["messages"] == [{"role": "user", "content": "p|{second}|b?"}]
    assert (asked["max_tokens"], asked["top_logprobs"]) == (1, 20)


@SAID
def test_a_verdict_with_too_little_mass_cannot_be_told(server, endpoint):
    server.say = lambda prompt: completion("The", {"The": 0.96, "1": 0.03})

    assert EndpointPairJudge(endpoint=endpoint(), template=PAIRS)([AnswerPair("p", "a", "b")]) == [
        None
    ]


@SAID
def test_a_server_without_log_probs_is_read_by_its_words_if_it_is_said(server, endpoint):
    server.say = lambda prompt: completion("2, it is shorter" if "|a|" in prompt else "Neither")
    pairs = [AnswerPair("p", "a", "b"), AnswerPair("p", "b", "a")]

    with pytest.raises(ConfigError, match="set read=text"):
        EndpointPairJudge(endpoint=endpoint(), template=PAIRS)(pairs)

    judge = EndpointPairJudge(endpoint=endpoint(), template=PAIRS, read="text")
    assert judge(pairs) == [0.0, None]


@FAILED
def test_a_failed_verdict_makes_no_pair(server, endpoint):
    server.say = lambda prompt: (500, b"") if "|b|a" in prompt else completion("1", {"1": 1.0})
    judge = EndpointPairJudge(endpoint=endpoint(tries=1), template=PAIRS)

    kept = JudgedPairs(judge=judge)(batch("a", "b"))

    assert kept["reward_valid"].tolist() == [False, False]


@FAILED
def test_rewards_ask_all_at_once_and_a_failed_answer_is_invalid_never_zero(server, endpoint):
    def say(prompt):
        time.sleep(0.05)
        if "bad" in prompt:
            return 500, b""
        return completion("yes", {"Yes": 0.1, "yes": 0.6, "no": 0.2})

    server.say = say
    judge = EndpointJudge(endpoint=endpoint(tries=1), template="{prediction}={reference}?")

    found = JudgeScore(judge=judge)(batch("a", "bad", "b", "c"))

    # (.6 + .1) / (.6 + .1 + .2): "Yes" is yes.
    assert found["reward"].tolist() == pytest.approx([7 / 9, 0.0, 7 / 9, 7 / 9])
    assert found["reward_valid"].tolist() == [True, False, True, True]
    assert server.most > 1


def test_a_rubric_asks_for_all_criteria_of_all_responses_at_once(server, endpoint):
    met = {"a=short?": 1.0, "a=kind?": 0.5, "b=short?": 0.0, "b=kind?": 1.0}
    server.say = lambda prompt: completion(
        "", {"yes": max(met[prompt], 1e-9), "no": max(1 - met[prompt], 1e-9)}
    )
    judge = EndpointJudge(endpoint=endpoint(), template="{prediction}={reference}?")

    found = Rubric(judge=judge, criteria={"short": 3.0, "kind": 1.0})(batch("a", "b"))

    # (3 * 1 + 1 * .5) / 4 and (3 * 0 + 1 * 1) / 4.
    assert found["reward"].tolist() == pytest.approx([0.875, 0.25], abs=1e-6)
    assert sorted(asked["messages"][0]["content"] for _, asked in server.asked) == sorted(met)


@FAILED
def test_ruler_reads_the_scores_of_an_endpoint_and_drops_a_group_without(server, endpoint):
    server.say = lambda prompt: completion(
        '{"scores": [{"id": 2, "score": 1}, {"id": 1, "score": 0}]}'
    )
    writer = EndpointWriter(endpoint=endpoint(), max_new_tokens=99)

    found = Ruler(writer=writer)(batch("a", "b"))

    assert sorted(found["reward"].tolist()) == [0.0, 1.0]
    assert server.asked[0][1]["max_tokens"] == 99
    server.say = lambda prompt: (500, b"")
    assert Ruler(writer=writer, tries=1)(batch("a", "b"))["reward_valid"].tolist() == [False] * 2


@FAILED
def test_a_writer_answers_by_an_empty_text_where_none_came(server, endpoint):
    server.say = lambda prompt: (500, b"") if prompt == "bad" else completion(prompt)

    assert EndpointWriter(endpoint=endpoint(tries=1))(["a", "bad"]) == ["a", ""]


def test_a_rationale_comes_before_the_verdict(server, endpoint):
    def say(prompt):
        if prompt.startswith("compare"):
            return completion(f"{prompt[-1]} is better")
        assert prompt.endswith("b is better")
        return completion("2", {"1": 0.25, "2": 0.75})

    server.say = say
    judge = ReasoningJudge(
        writer=EndpointWriter(endpoint=endpoint()),
        judge=EndpointPairJudge(endpoint=endpoint(), template=PAIRS + "{rationale}"),
        template="compare {prompt} {first} {second}",
    )

    assert judge([AnswerPair("p", "a", "b")]) == [pytest.approx(0.25)]
    assert len(server.asked) == 2


def test_a_verdict_in_the_rationale_is_parsed(server, endpoint):
    server.say = lambda prompt: completion("The other says [[2]], but [[1]]")
    judge = ReasoningJudge(
        writer=EndpointWriter(endpoint=endpoint()),
        judge=ParsedJudge(),
        template="{prompt} {first} {second}",
    )

    assert judge([AnswerPair("p", "a", "b [[2]]")]) == [1.0]


@pytest.mark.parametrize(
    ("part", "settings", "told"),
    [
        (EndpointPairJudge, {"template": "{prompt} {first}"}, "must hold {second}"),
        (EndpointPairJudge, {"template": PAIRS, "first_text": "21"}, "begins with the other"),
        (EndpointJudge, {"template": "{prediction}"}, "must hold {reference}"),
        (EndpointJudge, {"template": "{prediction}{reference}", "no_text": "yes!"}, "begins with"),
    ],
)
def test_a_template_without_a_field_and_options_that_are_alike_are_refused(
    part, settings, told, endpoint
):
    with pytest.raises(ConfigError, match=told):
        part(endpoint=endpoint(), **settings)


@pytest.mark.parametrize("answer", ["Yes", "yes.", '"Yes"', "**Yes**", " YES, it does", "(yes)"])
def test_an_endpoint_that_says_yes_in_another_spelling_is_understood(answer, server, endpoint):
    server.say = lambda prompt: completion(answer)
    judge = EndpointJudge(endpoint=endpoint(), template="{prediction}={reference}?", read="text")

    found = JudgeScore(judge=judge)(batch("a", "b"))

    assert found["reward"].tolist() == [1.0, 1.0]
    assert found["reward_valid"].all()


@pytest.mark.parametrize(
    ("read", "why"),
    [
        ("text", "the answer 'It depends' begins neither with 'yes' nor with 'no'"),
        ("log_probs", "'yes' and 'no' together.* is 0.02 .*the likeliest answer is 'It'"),
    ],
)
def test_an_endpoint_that_says_neither_is_named_with_its_words(read, why, server, endpoint):
    server.say = lambda prompt: completion("It depends", {"It": 0.9, "Yes": 0.02})
    with seeded(0, "reward.judge"):
        judge = EndpointJudge(endpoint=endpoint(), template="{prediction}={reference}?", read=read)

    with pytest.warns(match=rf"reward.judge \(EndpointJudge\): 2 of 2 questions.*{why}"):
        found = JudgeScore(judge=judge)(batch("a", "b"))

    assert not found["reward_valid"].any()
    assert all("reward.judge" in text for text in decode_texts(found["invalid_reason"]))
    assert "reward.judge.template" in judge.no_verdict.reason


@SAID
def test_ruler_and_tournament_say_why_a_group_is_invalid(server, endpoint):
    server.say = lambda prompt: completion("All are good")
    writer = EndpointWriter(endpoint=endpoint())
    judge = EndpointPairJudge(endpoint=endpoint(), template=PAIRS, read="text")

    scored = Ruler(writer=writer)(batch("a", "b"))
    ranked = Tournament(judge=judge)(batch("a", "b"))

    assert "Ruler: no reply has one score" in decode_texts(scored["invalid_reason"])[0]
    assert "'All are good'" in decode_texts(scored["invalid_reason"])[1]
    assert "EndpointPairJudge: the answer '" in decode_texts(ranked["invalid_reason"])[0]


@SAID
def test_marks_are_read_whatever_their_case_and_white_space():
    says = [AnswerPair("p", "a", "b", rationale=text) for text in ("So [[ 1 ]].", "[[TIE]]", "[2]")]

    assert ParsedJudge()(says) == [1.0, 0.5, None]
