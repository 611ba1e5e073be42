"""Entropy of the next token at every place of a text."""

from functools import partial

import pytest
import torch

import rlcomp.model.next_token as next_token
from rlcomp.errors import ConfigError, DataError, NumericalError
from rlcomp.model.next_token import next_token_entropies
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import character_tokenizer

ROWS = [[5, 2, 2, 7, 3, 4], [], [9], [3, 8], [6, 6, 7, 5]]

# Its matrices are large, so that entropies differ.
tiny = partial(
    tiny_model,
    character_tokenizer(characters="abcdefgh"),
    num_hidden_layers=2,
    context_length=8,
    scale=8.0,
)


def entropies(model, rows=ROWS, top_k=3, renormalise=False):
    device = torch.device("cpu")
    return next_token_entropies(model, rows, top_k=top_k, renormalise=renormalise, device=device)


def slow(model, row, top_k):
    """Of one prefix after the other, in float64."""
    found = [0.0] if row else []
    for place in range(1, len(row)):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([row[:place]])).logits[0, -1]
        likeliest = sorted(logits.double().softmax(-1).tolist())[-top_k:]
        found.append(-sum(p * torch.tensor(p).double().log().item() for p in likeliest))
    return found


@pytest.mark.parametrize("architecture", ["qwen2", "gpt2"])
@pytest.mark.parametrize("tokens", [1, 12, 1000])  # one row at a time, two, all
@pytest.mark.parametrize("logits", [1, 70, 10**6])  # one column at a time, some, all
def test_it_is_that_of_each_prefix_by_itself(monkeypatch, architecture, tokens, logits):
    monkeypatch.setattr(next_token, "_TOKENS", tokens)
    monkeypatch.setattr(next_token, "_LOGITS", logits)
    model = tiny(architecture=architecture)

    found = entropies(model)

    for row, entropy in zip(ROWS, found, strict=True):
        assert entropy.tolist() == pytest.approx(slow(model, row, 3), abs=1e-5)


def test_the_likeliest_can_be_renormalised():
    plain, whole = (entropies(tiny(), renormalise=each)[0] for each in (False, True))

    assert not torch.allclose(plain, whole)
    # All 10 tokens together have all of the probability.
    everything = [entropies(tiny(), top_k=99, renormalise=each)[0] for each in (False, True)]
    assert torch.allclose(*everything, atol=1e-6)


@pytest.mark.parametrize("training", [False, True])
def test_the_model_keeps_its_mode_and_gets_no_gradient(training):
    model = tiny().train(training)

    found = entropies(model)

    assert model.training is training
    assert not any(entropy.requires_grad for entropy in found)


def test_dropout_is_off_while_it_reads():
    model = tiny(architecture="gpt2").train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5

    assert torch.equal(entropies(model)[0], entropies(model)[0])


def test_a_token_that_the_proxy_does_not_have_is_named():
    with pytest.raises(ConfigError, match="the proxy has 10 tokens, but a text holds token 10"):
        entropies(tiny(), [[3], [4, 10]])


def test_a_text_longer_than_the_context_is_named():
    with pytest.raises(DataError, match="a text has 9 tokens, but the proxy's context holds 8"):
        entropies(tiny(), [[3] * 9])


def test_a_proxy_that_is_not_finite_is_refused():
    model = tiny()
    with torch.no_grad():
        model.get_output_embeddings().weight[4] = float("nan")

    with pytest.raises(NumericalError, match="the proxy's output is not finite"):
        entropies(model)
