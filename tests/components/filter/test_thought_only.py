import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.filter import ThoughtFilter
from rlcomp.metrics import recording
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import byte_tokenizer

TOKENIZER = byte_tokenizer()
FILTER = ThoughtFilter(tokenizer=TOKENIZER)


def rows(*responses):
    return encode_rows(TOKENIZER, ["a?</think>"] * len(responses), responses)


def kept(batch):
    pairs = zip(batch["tokens"], batch["response_mask"], strict=True)
    return [TOKENIZER.decode(tokens[mask]) for tokens, mask in pairs]


def test_only_the_thought_and_its_end_are_trained_on():
    # Not even the thought's end in the prompt counts; b has no end and keeps its EOS.
    batch = FILTER(rows("so</think>c</think>", "b", "</think>"))

    assert kept(batch) == ["so</think>", "b<eos>", "</think>"]


def test_the_share_of_tokens_taken_out_is_recorded():
    # so</think> is 10 of 12 tokens with c and EOS, b<eos> 2 of 2: 2 / 14.
    with recording() as ledger:
        FILTER(rows("so</think>c", "b"))

    assert ledger.means()["filter/answer_fraction"] == pytest.approx(2 / 14)


def test_what_was_no_response_stays_none_and_the_end_counts_wherever_it_comes_from():
    # As if a tool had written the end: the mask has a hole there.
    batch = rows("so</think>c")
    start = int(batch["response_mask"][0].int().argmax())
    batch["response_mask"][0, start + 2 : start + 10] = False

    assert kept(FILTER(batch)) == ["so"]


def test_an_empty_mask_stays_empty():
    batch = rows("so</think>c", "b")
    batch["response_mask"] = torch.zeros_like(batch["response_mask"])

    assert not FILTER(batch)["response_mask"].any()


@given(st.lists(st.text(alphabet="</think>a", max_size=16), min_size=1, max_size=3))
def test_filtering_twice_changes_nothing_and_no_token_comes_in(responses):
    batch = rows(*responses)

    once = FILTER(batch.copy())["response_mask"]
    twice = FILTER(batch.copy().update({"response_mask": once}))["response_mask"]

    assert torch.equal(once, twice)
    assert not (once & ~batch["response_mask"]).any()
