import math
import threading

import pytest
import torch

from rlcomp.engine import logprob
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.native import softmax
from rlcomp.engine.native.build import build
from rlcomp.engine.output_head import Head, LogitFunction, compute_in_tiles
from rlcomp.engine.scoring import sampled_log_probs
from rlcomp.errors import ShapeError


@pytest.fixture(scope="module", autouse=True)
def library():
    build()


def values(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def kept(vocabulary):
    """All tokens but every third, from the second on."""
    return torch.arange(vocabulary) % 3 != 1


def wide(logits, temperature, keep):
    """Log-probs of all tokens."""
    scaled = logits / temperature
    return (scaled if keep is None else scaled.masked_fill(~keep, -torch.inf)).log_softmax(-1)


CASES = pytest.mark.parametrize("temperature", [1.0, 0.7])
# Less than a vector, whole vectors, a block of sums, a little more.
SIZES = pytest.mark.parametrize("vocabulary", [1, 5, 15, 16, 31, 33, 1024, 1030])
MASKS = pytest.mark.parametrize("masked", [False, True])


@CASES
@SIZES
@MASKS
def test_log_probs_and_their_gradient_agree_with_float64(vocabulary, temperature, masked):
    logits = (5 * values(4, vocabulary)).requires_grad_()
    keep = kept(vocabulary) if masked else None
    tokens = torch.tensor([0, vocabulary // 2 // 3 * 3, (vocabulary - 1) // 3 * 3, 0])
    g = values(4, seed=1)

    actual = softmax.log_probs(logits, tokens, temperature, keep)
    actual.backward(g)

    leaf = logits.detach().double().requires_grad_()
    expected = wide(leaf, temperature, keep)[torch.arange(4), tokens]
    expected.backward(g.double())
    torch.testing.assert_close(actual.double(), expected, rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(logits.grad.double(), leaf.grad, rtol=2e-6, atol=2e-6)
    slope = softmax.log_probs_gradient(g, logits.detach(), tokens, temperature, keep)
    assert torch.equal(slope, logits.grad)


@CASES
@SIZES
@MASKS
def test_entropies_and_their_gradient_agree_with_float64(vocabulary, temperature, masked):
    logits = (5 * values(4, vocabulary)).requires_grad_()
    keep = kept(vocabulary) if masked else None
    g = values(4, seed=1)

    actual = softmax.entropies(logits, temperature, keep)
    actual.backward(g)

    leaf = logits.detach().double().requires_grad_()
    log_probs = wide(leaf, temperature, keep)
    expected = -(log_probs.exp() * log_probs.clamp(min=-1e4)).sum(-1)
    expected.backward(g.double())
    torch.testing.assert_close(actual.double(), expected, rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(logits.grad.double(), leaf.grad, rtol=2e-6, atol=5e-6)


def test_log_probs_entropies_and_gradients_by_hand():
    # Of weights 1, 2 and 5 the second has 1/4; without the third 2/3.
    logits = torch.tensor([[0.0, math.log(2), math.log(5)]])
    tokens, keep = torch.tensor([1]), torch.tensor([True, True, False])

    assert softmax.log_probs(logits, tokens, 1.0, None).item() == pytest.approx(math.log(1 / 4))
    assert softmax.log_probs(logits, tokens, 1.0, keep).item() == pytest.approx(math.log(2 / 3))
    # Squared by a temperature of a half: 4 of 30, and a gradient of 1 / T (1[v = a] - p) each.
    assert softmax.log_probs(logits, tokens, 0.5, None).item() == pytest.approx(math.log(4 / 30))
    slope = softmax.log_probs_gradient(torch.tensor([3.0]), logits, tokens, 0.5, None)
    torch.testing.assert_close(slope, torch.tensor([[-6 / 30, 6 * 26 / 30, -6 * 25 / 30]]))
    assert softmax.entropies(torch.zeros(1, 8), 1.0, None).item() == pytest.approx(math.log(8))
    # -3 p (log p + H) / T of a quarter and three quarters, at a temperature of 2.
    logits = torch.tensor([[0.0, 2 * math.log(3)]], requires_grad=True)
    softmax.entropies(logits, 2.0, None).backward(torch.tensor([3.0]))
    slope = 3 / 2 * 3 / 16 * math.log(3)
    assert logits.grad.tolist() == [pytest.approx([slope, -slope], rel=1e-5)]


def test_extreme_logits_and_impossible_tokens():
    logits = torch.tensor([[1e4, -1e4, 0.0], [-torch.inf, 2.0, -torch.inf]])

    assert softmax.log_probs(logits, torch.tensor([1, 1]), 1.0, None).tolist() == [-2e4, 0.0]
    leaf = logits.clone().requires_grad_()
    entropies = softmax.entropies(leaf, 1.0, None)
    entropies.sum().backward()
    assert entropies.tolist() == [0.0, 0.0]
    assert leaf.grad.tolist() == [[0.0] * 3] * 2
    assert softmax.entropies(torch.tensor([[0.0, torch.nan]]), 1.0, None).isnan().all()
    assert softmax.log_probs(torch.tensor([[torch.nan, 0.0]]), torch.tensor([1]), 1.0, None).isnan()


@pytest.mark.parametrize("token", [-1, 3])
def test_a_token_outside_the_vocabulary_is_refused(token):
    tokens, message = torch.tensor([0, token]), f"token {token} of row 1: the vocabulary has 3"

    with pytest.raises(IndexError, match=message):
        softmax.log_probs(torch.zeros(2, 3), tokens, 1.0, None)
    with pytest.raises(IndexError, match=message):
        softmax.log_probs_gradient(torch.ones(2), torch.zeros(2, 3), tokens, 1.0, None)


@pytest.mark.parametrize(
    "tokens",
    [torch.tensor([0]), torch.tensor([0, 1], dtype=torch.int32), torch.zeros(2, 2).long()],
    ids=["few", "int32", "wide"],
)
def test_tokens_of_another_shape_or_dtype_are_refused(tokens):
    with pytest.raises(ShapeError, match=r"must be \(2,\), int64"):
        softmax.log_probs(torch.zeros(2, 3), tokens, 1.0, None)


def test_masks_and_gradients_of_another_shape_are_refused():
    logits, tokens, short = torch.zeros(2, 3), torch.tensor([0, 1]), torch.ones(2).bool()

    for read in (
        lambda: softmax.log_probs(logits, tokens, 1.0, short),
        lambda: softmax.entropies(logits, 1.0, short),
    ):
        with pytest.raises(ShapeError, match=r"keep has shape \(2,\), must be \(3,\)"):
            read()
    with pytest.raises(ShapeError, match=r"gradient has shape \(1,\), must be \(2,\)"):
        softmax.log_probs_gradient(torch.ones(1), logits, tokens, 1.0, None)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_default_dtype_has_no_effect(dtype):
    before, logits, tokens = torch.get_default_dtype(), values(2, 5), torch.tensor([1, 2])
    expected = softmax.log_probs(logits, tokens, 1.0, kept(5)), softmax.entropies(logits, 1.0, None)
    torch.set_default_dtype(dtype)
    try:
        actual = (
            softmax.log_probs(logits, tokens, 1.0, kept(5)),
            softmax.entropies(logits, 1.0, None),
        )
    finally:
        torch.set_default_dtype(before)

    assert all(torch.equal(one, other) for one, other in zip(actual, expected, strict=True))


def test_a_large_vocabulary_agrees_with_float64():
    logits, tokens = values(1, 150_001), torch.tensor([150_000])

    log_probs = wide(logits.double(), 1.0, None)
    actual = softmax.log_probs(logits, tokens, 1.0, None).item()
    assert actual == pytest.approx(log_probs[0, -1].item(), abs=2e-6)
    entropy = -(log_probs.exp() * log_probs).sum().item()
    assert softmax.entropies(logits, 1.0, None).item() == pytest.approx(entropy, abs=2e-6)


def test_a_suppressed_token_has_probability_zero():
    keep = torch.tensor([True, False])

    assert softmax.log_probs(torch.zeros(1, 2), torch.tensor([1]), 1.0, keep).item() == -math.inf


def test_a_second_derivative_is_refused():
    logits = values(2, 5).requires_grad_()
    for read in (
        lambda: softmax.log_probs(logits, torch.tensor([1, 2]), 1.0, None),
        lambda: softmax.entropies(logits, 1.0, None),
    ):
        (slope,) = torch.autograd.grad(read().sum(), logits, create_graph=True)
        with pytest.raises(RuntimeError, match="differentiable once"):
            slope.square().sum().backward()


def test_empty_batches_give_empty_results():
    none = torch.zeros(0, dtype=torch.int64)

    assert softmax.log_probs(torch.zeros(0, 3), none, 1.0, None).shape == (0,)
    assert softmax.entropies(torch.zeros(0, 3), 1.0, None).shape == (0,)


def test_strided_tensors_are_accepted():
    logits, tokens, g = values(6, 4).t(), (torch.arange(8) % 6)[::2], values(8)[::2]
    dense = logits.contiguous(), tokens.contiguous()
    assert not tokens.is_contiguous()

    for temperature in (1.0, 0.5):
        assert torch.equal(
            softmax.log_probs(logits, tokens, temperature, None),
            softmax.log_probs(*dense, temperature, None),
        )
        assert torch.equal(
            softmax.entropies(logits, temperature, None),
            softmax.entropies(dense[0], temperature, None),
        )
        assert torch.equal(
            softmax.log_probs_gradient(g, logits, tokens, temperature, None),
            softmax.log_probs_gradient(g.contiguous(), *dense, temperature, None),
        )


def test_is_supported_depends_on_the_context_and_the_logits():
    logits, keep = torch.zeros(2, 3), torch.ones(3, dtype=torch.bool)
    assert not softmax.is_supported(logits, None)
    with softmax.use_library(True):
        assert softmax.is_supported(logits, None)
        assert softmax.is_supported(logits, keep)
        assert not softmax.is_supported(logits, keep.expand(2, 3))
        assert not softmax.is_supported(logits.double(), None)
        assert not softmax.is_supported(logits.to("meta"), None)
        other = []
        thread = threading.Thread(target=lambda: other.append(softmax.is_supported(logits, None)))
        thread.start()
        thread.join()
        with softmax.use_library(False):
            assert not softmax.is_supported(logits, None)
        assert softmax.is_supported(logits, None)
    assert other == [False]
    assert not softmax.is_supported(logits, None)


@pytest.mark.parametrize("tile", [2**24, 40], ids=["at once", "by tiles"])
@pytest.mark.parametrize("decoding", [Decoding(), Decoding(temperature=0.5), Decoding(top_k=3)])
@pytest.mark.parametrize("taken", [False, True], ids=["", "a suppressed token sampled"])
def test_compute_in_tiles_agrees_with_and_without_the_library(monkeypatch, tile, decoding, taken):
    monkeypatch.setattr("rlcomp.engine.output_head._TILE", tile)
    monkeypatch.setattr("rlcomp.engine.output_head._LEAST_TOKENS", 2)
    called = []
    for name in ("log_probs", "log_probs_gradient", "entropies"):
        function = getattr(softmax, name)
        monkeypatch.setattr(
            softmax, name, lambda *given, f=function, n=name: called.append(n) or f(*given)
        )
    tokens, suppressed = torch.tensor([0, 3, 6, 9]), torch.arange(12) == (3 if taken else 4)

    def read(native):
        states, weight = values(4, 5).requires_grad_(), values(12, 5, seed=1).requires_grad_()
        head = Head(weight, None, "torch", native=native)
        measures = [
            sampled_log_probs(tokens, decoding, suppressed),
            LogitFunction(
                lambda logits, _: logprob.entropy(logits, decoding.temperature, suppressed), False
            ),
        ]
        log_probs, entropies = compute_in_tiles(measures, states, torch.arange(4), head)
        log_probs.backward(values(4, seed=2))
        return log_probs.detach(), entropies.detach(), states.grad, weight.grad

    plain = read(False)
    assert called == []
    for one, other in zip(read(True), plain, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-6, atol=2e-6)
    # A mask that differs between rows is left to torch.
    if decoding.top_k > 0 or (taken and tile > 40):
        assert set(called) == {"entropies"}
    else:
        assert set(called) == {"log_probs", "log_probs_gradient", "entropies"}
