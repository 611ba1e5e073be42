import math
from functools import partial

import pytest
import torch

from components.judge import GenerativeJudge
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.testing import tiny_policy
from rlcomp.text.tokenizer import byte_tokenizer

TOKENIZER = byte_tokenizer()
TEMPLATE = "{reference}|{prediction}?"

# White space, quotes and emphasis that may stand in front of an option.
MARKS = [*"\"'`*([", "**"]
LEADS = ["", " ", "\n", *MARKS, *(f" {mark}" for mark in MARKS)]
SAID = pytest.mark.filterwarnings("ignore:.*no verdict:rlcomp.errors.RlcompWarning")

# Far from uniform.
make_model = partial(
    tiny_policy,
    tokenizer=TOKENIZER,
    context_length=64,
    scale=4.0,
    vector_scale=4.0,
    decoding=Decoding(temperature=0.3),
)

MODEL = make_model()


def judge(model=MODEL, template=TEMPLATE, least_mass=0.0, yes_text="y", no_text="n"):
    return GenerativeJudge(
        model=model, template=template, yes_text=yes_text, no_text=no_text, least_mass=least_mass
    )


def probability(context, text):
    """By the forward pass of transformers; the pad token is barred."""
    ids = torch.tensor([TOKENIZER(context + text)["input_ids"]])
    start = len(TOKENIZER(context)["input_ids"])
    with torch.no_grad():
        logits = MODEL.model(input_ids=ids).logits[0].double()
    logits[:, TOKENIZER.pad_token_id] = -math.inf
    steps = logits.log_softmax(-1)[start - 1 : -1]
    return math.exp(float(steps.gather(1, ids[0, start:, None]).sum()))


def mass(context, option):
    """Of all spellings: as it is, capitalised, in capitals."""
    cases = {option, option.capitalize(), option.upper()}
    return sum(probability(context, lead + case) for lead in LEADS for case in cases)


@pytest.mark.parametrize(("yes_text", "no_text"), [("y", "n"), ("yes", "no")])
def test_the_score_is_the_probability_of_yes_against_no_behind_the_template(yes_text, no_text):
    found = judge(yes_text=yes_text, no_text=no_text)("a c", "a b")

    yes, no = (mass("a b|a c?", text) for text in (yes_text, no_text))
    assert found == pytest.approx(yes / (yes + no), abs=1e-4)


def test_yes_and_no_exchanged_add_up_to_1():
    there, back = judge()("a", "b"), judge(yes_text="n", no_text="y")("a", "b")

    assert there + back == pytest.approx(1.0)


@SAID
@pytest.mark.parametrize("share", [0.99, 1.01])
def test_it_cannot_tell_where_both_have_less_than_the_least_mass(share):
    both = mass("b|a?", "y") + mass("b|a?", "n")

    assert (judge(least_mass=share * both)("a", "b") is None) == (share > 1)


def test_a_prediction_that_spells_a_field_stays_what_it_is():
    found = judge()("{reference}", "{prediction}")

    yes, no = (mass("{prediction}|{reference}?", text) for text in "yn")
    assert found == pytest.approx(yes / (yes + no), abs=1e-4)


@SAID
def test_what_its_context_cannot_hold_it_cannot_tell():
    model = make_model(context_length=8)

    # Two marks, the answer and both texts: 3 + 5 tokens fit, one more does not.
    assert judge(model)("abc", "ab") is not None
    assert judge(model)("", "abcdef") is None


@SAID
def test_no_prediction_is_too_long_to_be_judged():
    model = make_model(context_length=8)

    assert judge(model)("abcd", "ab") == 0.0
    assert judge(model)("a" * 999, "abcde") == 0.0
    assert judge(model)("a" * 999, "abcdef") is None


@pytest.mark.parametrize("template", ["{prediction}", "{reference}", "is it?"])
def test_a_template_without_a_field_is_refused(template):
    with pytest.raises(ConfigError, match=r"must hold \{"):
        judge(template=template)


def test_answers_of_which_one_begins_with_the_other_are_refused():
    with pytest.raises(ConfigError, match="one begins with the other"):
        judge(yes_text="not no", no_text="not")
