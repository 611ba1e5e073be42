"""Positions that a proxy finds hard."""

import itertools
import math

import pytest
import torch

from components.position import EntropyFilter, EveryToken
from rlcomp.data.spans import Tokenised
from rlcomp.errors import ConfigError
from rlcomp.model.next_token import next_token_entropies
from rlcomp.testing import tiny_model
from rlcomp.text.token_bytes import encode_with_ends
from rlcomp.text.tokenizer import byte_tokenizer

TEXTS = ["to be or not to be, that is", "naïve 😀 café", "ab", ""]
DOCUMENTS = [Tokenised(text, *encode_with_ends(byte_tokenizer(), text)) for text in TEXTS]


@pytest.fixture(scope="module")
def proxy():
    model = tiny_model(byte_tokenizer(), context_length=32)
    with torch.no_grad():  # so that entropies differ
        model.lm_head.weight.mul_(40)
    return model


def made(proxy, **arguments):
    return EntropyFilter(**{"proxy": proxy, "min_context": 2, "device": "cpu"} | arguments)


def chosen(position):
    return [(n, span) for n, spans in enumerate(position.spans(DOCUMENTS)) for span in spans]


def measured(proxy):
    """Entropy by document and span, of every candidate."""
    rows = [document.ids for document in DOCUMENTS]
    device = torch.device("cpu")
    found = next_token_entropies(proxy, rows, top_k=16, renormalise=True, device=device)
    starts = [{0: 0} | {end: n for n, end in enumerate(d.ends, 1)} for d in DOCUMENTS]
    every = enumerate(EveryToken(min_context=2).spans(DOCUMENTS))
    return {(n, s): float(found[n][starts[n][s.start]]) for n, spans in every for s in spans}


def test_those_above_the_threshold_are_taken(proxy):
    entropies = measured(proxy)
    middle = sorted(entropies.values())[len(entropies) // 2]

    position = made(proxy, threshold=middle)

    # Strictly above: the one in the middle is not among them.
    assert chosen(position) == [key for key, entropy in entropies.items() if entropy > middle]
    assert 0 < len(chosen(position)) < len(entropies)


def test_no_threshold_takes_every_whole_character_with_context(proxy):
    assert chosen(made(proxy, threshold=-1e30)) == list(measured(proxy))


def test_a_higher_threshold_takes_some_of_those_of_a_lower_one(proxy):
    sets = [set(chosen(made(proxy, threshold=each))) for each in (0.5, 1.0, 1.5, 2.0, 3.0)]

    assert all(hard <= easy for easy, hard in itertools.pairwise(sets))
    assert len(sets[0]) > len(sets[-1]) == 0  # ln 16 = 2.77 is the most there is


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_a_share_is_that_of_the_most_uncertain_of_all_texts(proxy, share):
    entropies = measured(proxy)
    count = math.ceil(share * len(entropies))

    found = chosen(made(proxy, threshold=None, top_share=share))

    assert len(found) == count  # no two are equal
    assert set(found) == set(sorted(entropies, key=entropies.get)[-count:])


def test_of_equal_positions_all_are_taken(proxy):
    flat = tiny_model(byte_tokenizer(), context_length=32)
    torch.nn.init.zeros_(flat.lm_head.weight)

    assert chosen(made(flat, threshold=None, top_share=0.01)) == list(measured(proxy))
    assert chosen(made(flat, threshold=math.log(16) - 1e-4)) == list(measured(proxy))
    assert chosen(made(flat, threshold=math.log(16) + 1e-4)) == []


def test_a_share_of_nothing_is_nothing(proxy):
    assert chosen(made(proxy, threshold=None, top_share=0.0)) == []


@pytest.mark.parametrize("both", [(None, None), (1.0, 0.2)])
def test_one_of_threshold_and_share_is_given(proxy, both):
    with pytest.raises(ConfigError, match="set exactly one of them to null"):
        made(proxy, threshold=both[0], top_share=both[1])
