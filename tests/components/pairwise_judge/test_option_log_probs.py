"""A model that judges pairs: against transformers, batches, contexts, texts that attack."""

import math
from functools import partial

import pytest
import torch

from components.pairwise_judge.option import OptionLogProbJudge
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.interfaces.judge import AnswerPair
from rlcomp.testing import tiny_policy
from rlcomp.text.tokenizer import byte_tokenizer

TOKENIZER = byte_tokenizer()
TEMPLATE = "{prompt}|{first}|{second}?"

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


def judge(model=MODEL, **settings):
    return OptionLogProbJudge(
        **{"model": model, "template": TEMPLATE, "least_mass": 0.0, **settings}
    )


def probability(context, text):
    """By the forward pass of transformers; the pad token is suppressed."""
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


def share(context, first="1", second="2"):
    one, two = mass(context, first), mass(context, second)
    return one / (one + two)


@pytest.mark.parametrize(("first", "second"), [("1", "2"), ("one", "other")])
def test_it_is_the_share_of_the_first_option_behind_the_template(first, second):
    (found,) = judge(first_text=first, second_text=second)([AnswerPair("p", "a c", "a b")])

    assert found == pytest.approx(share("p|a c|a b?", first, second), abs=1e-4)


def test_pairs_of_several_lengths_and_batches_keep_their_order():
    pairs = [AnswerPair("p", "a" * n, "b") for n in (5, 1, 3)]

    assert judge(batch_size=2)(pairs) == pytest.approx(
        [share(f"p|{'a' * n}|b?") for n in (5, 1, 3)], abs=1e-4
    )
    assert judge()([]) == []


@SAID
@pytest.mark.parametrize("part", [0.99, 1.01])
def test_it_cannot_tell_where_both_have_less_than_the_least_mass(part):
    both = mass("p|a|b?", "1") + mass("p|a|b?", "2")

    (found,) = judge(least_mass=part * both)([AnswerPair("p", "a", "b")])

    assert (found is None) == (part > 1)


@SAID
def test_what_the_context_cannot_hold_is_not_judged_and_spoils_no_other():
    model = make_model(context_length=8)

    # Three marks, three texts and the option: 8 tokens; one more is too many.
    found = judge(model)(
        [AnswerPair("p", "ab", "c"), AnswerPair("p", "ab", "cd"), AnswerPair("p", "a", "b")]
    )

    assert [each is None for each in found] == [False, True, False]


def test_an_answer_that_spells_a_field_or_an_option_stays_what_it_is():
    (found,) = judge()([AnswerPair("{first}", "{second}", "1 1 1")])

    assert found == pytest.approx(share("{first}|{second}|1 1 1?"), abs=1e-4)


def test_special_tokens_of_an_answer_are_plain_text():
    eos = TOKENIZER.eos_token
    (there,) = judge()([AnswerPair("p", eos, "b")])
    (short,) = judge()([AnswerPair("p", "", "b")])

    assert there != pytest.approx(short, abs=1e-6)
    assert there == pytest.approx(
        judge()([AnswerPair("p", eos, "b"), AnswerPair("p", eos, "b")])[1]
    )


@pytest.mark.parametrize("template", ["{prompt}{first}", "{first}{second}", "which?"])
def test_a_template_without_a_field_is_refused(template):
    with pytest.raises(ConfigError, match="must hold"):
        judge(template=template)


@pytest.mark.parametrize("options", [("a", "ab"), ("ab", "a"), ("a", "a")])
def test_options_that_begin_alike_are_refused(options):
    with pytest.raises(ConfigError, match="begins with the other"):
        judge(first_text=options[0], second_text=options[1])
