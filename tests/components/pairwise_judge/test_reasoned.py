"""Rationales before verdicts: what is written where, how several count, what has no verdict."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.pairing import JudgedPairs
from components.pairwise_judge.option import OptionLogProbJudge
from components.pairwise_judge.rationale import ParsedJudge, ReasoningJudge
from components.writer import LanguageModelWriter
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.interfaces.judge import AnswerPair
from rlcomp.metrics import recording
from rlcomp.testing import make_batch, tiny_policy
from rlcomp.text.tokenizer import byte_tokenizer

TEMPLATE = "{prompt}|{first}|{second}:"
pytestmark = pytest.mark.filterwarnings("ignore:.*no verdict:rlcomp.errors.RlcompWarning")

PAIR = AnswerPair("p", "a", "b")


class Written:
    """A writer that gives these texts in turn, and keeps what it was asked."""

    def __init__(self, *texts):
        self.turn, self.asked = itertools.cycle(texts), []

    def __call__(self, prompts):
        self.asked += prompts
        return [next(self.turn) for _ in prompts]


def reasoned(*texts, **settings):
    writer = Written(*texts)
    return ReasoningJudge(
        **{"writer": writer, "judge": ParsedJudge(), "template": TEMPLATE, **settings}
    )


def test_the_writer_sees_both_answers_and_the_judge_what_it_wrote():
    seen = []

    def judge(pairs):
        seen.extend(pairs)
        return [0.25] * len(pairs)

    asking = reasoned("why", judge=judge)

    assert asking([AnswerPair("p", "{second}", "b", "gold")]) == [0.25]
    assert asking.writer.asked == ["p|{second}|b:"]
    assert seen == [AnswerPair("p", "{second}", "b", "gold", "why")]


def test_several_rationales_vote():
    # For the first pair 1, 1, 0, for the second .5, nothing, 0.
    asking = reasoned("[[1]]", "[[1]]", "[[2]]", "[[tie]]", "hm", "[[2]]", rationales=3)

    with recording() as told:
        found = asking([PAIR, AnswerPair("q", "c", "d")])

    assert found == pytest.approx([2 / 3, 0.25])
    assert asking.writer.asked == ["p|a|b:"] * 3 + ["q|c|d:"] * 3
    # Of six rationales five have a verdict; the larger sides are 2 of 3, and 1 of 2 (a tie, a 0).
    means = told.means()
    assert means["reasoned/verdicts"] == pytest.approx(5 / 6)
    assert means["reasoned/majority"] == pytest.approx((2 / 3 + 1 / 2) / 2)


@pytest.mark.parametrize(("least", "expected"), [(1, 1.0), (2, None)])
def test_a_pair_needs_so_many_verdicts(least, expected):
    assert reasoned("[[1]]", "hm", rationales=2, least=least)([PAIR]) == [expected]


def test_a_rationale_that_was_not_written_is_not_judged():
    def judge(pairs):
        assert not pairs
        return []

    assert reasoned("", " \n", judge=judge, rationales=2)([PAIR]) == [None]
    assert reasoned("x")([]) == []


@pytest.mark.parametrize(("told", "expected"), [(1.0, 0.6), (0.0, 0.4), (0.55, 0.55)])
def test_a_verdict_is_clipped(told, expected):
    judge = lambda pairs: [told] * len(pairs)  # noqa: E731

    assert reasoned("x", judge=judge, clip=0.4)([PAIR]) == [pytest.approx(expected)]


@given(st.lists(st.sampled_from(["[[1]]", "[[2]]", "[[tie]]", "hm"]), min_size=1, max_size=6))
def test_to_exchange_the_marks_mirrors_the_verdict(texts):
    mirrored = [t.translate(str.maketrans("12", "21")) for t in texts]
    (one,) = reasoned(*texts, rationales=len(texts))([PAIR])
    (other,) = reasoned(*mirrored, rationales=len(texts))([PAIR])

    assert (one is None) == (other is None) == (set(texts) == {"hm"})
    assert one is None or one + other == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[1]]", 1.0),
        ("a [[2]] b", 0.0),
        ("[[tie]]", 0.5),
        ("[[2]] no [[1]]", 1.0),
        ("[1] 1", None),
    ],
)
def test_the_last_mark_of_a_rationale_counts(text, expected):
    assert ParsedJudge()([AnswerPair("[[1]]", "[[1]]", "[[2]]", rationale=text)]) == [expected]


def test_both_orders_are_reasoned_about_and_a_judge_of_the_position_alone_teaches_nothing():
    rows = make_batch(
        prompt=["p", "p"],
        response=["a", "b"],
        group_id=torch.zeros(2, dtype=torch.long),
    )
    leaning, sound = reasoned("[[1]]"), reasoned("[[2]]", "[[1]]")

    assert JudgedPairs(judge=leaning)(rows.clone())["reward_valid"].tolist() == [False, False]
    assert leaning.writer.asked == ["p|a|b:", "p|b|a:"]
    # In either order the verdict is b.
    assert JudgedPairs(judge=sound)(rows.clone())["response"][0, 0] == ord("b")


def test_a_language_model_reasons_and_its_options_are_read_behind_that():
    tokenizer = byte_tokenizer()
    model = tiny_policy(
        tokenizer=tokenizer,
        context_length=64,
        scale=4.0,
        vector_scale=4.0,
        decoding=Decoding(temperature=0.0),
    )
    writer = LanguageModelWriter(model=model, max_new_tokens=3)
    judge = OptionLogProbJudge(
        model=model, template="{prompt}|{first}|{second}{rationale}?", least_mass=0.0
    )
    (rationale,) = writer(["p|a|b:"])

    (found,) = ReasoningJudge(writer=writer, judge=judge, template=TEMPLATE)([PAIR])

    assert rationale
    with_it, without = judge([PAIR._replace(rationale=rationale), PAIR])
    assert found == pytest.approx(with_it, abs=1e-6)
    assert abs(with_it - without) > 1e-3


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"template": "{prompt} {first}"}, "must hold {second}"),
        ({"least": 2}, "least is 2, and there are 1 rationales"),
        ({"clip": 0.5}, "clip"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, told):
    with pytest.raises(ConfigError, match=told):
        reasoned("x", **settings)


def test_marks_that_hold_one_another_are_refused():
    with pytest.raises(ConfigError, match="a part of another"):
        ParsedJudge(first_text="[1]", second_text="[[1]]")
