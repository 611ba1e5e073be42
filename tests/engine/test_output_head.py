import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rlcomp.engine import output_head as vocabulary
from rlcomp.engine.decoding import Decoding, pack_mask
from rlcomp.engine.logprob import entropy, log_distribution, token_log_probs
from rlcomp.engine.output_head import Head, LogitFunction, compute_in_tiles
from rlcomp.engine.scoring import sampled_log_probs

SAMPLINGS = (
    Decoding(),
    Decoding(temperature=0.6),
    Decoding(temperature=1.7),
    Decoding(temperature=0.7, top_k=4, top_p=0.9, min_p=0.05),
)


@pytest.fixture
def tiles():
    """Tiles of three tokens, parts of two, products of four columns."""
    with pytest.MonkeyPatch.context() as patch:
        yield cut(patch, tokens=3, part=1, columns=4)


def cut(patch, tokens, part, columns):
    for name, value in (
        ("_TILE", 0),
        ("_LEAST_TOKENS", tokens),
        ("_PART", part),
        ("_COLUMNS", columns),
    ):
        patch.setattr(vocabulary, name, value)


def problem(seed, listed=10, given_states=6, vocabulary=11, width=5):
    """Return states, repeated rows, tokens and a head, in float64."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    states, weight, bias = draw(given_states, width), draw(vocabulary, width), draw(vocabulary)
    rows = torch.randint(given_states, (listed,), generator=generator)
    tokens = torch.randint(vocabulary, (listed,), generator=generator)
    return states, rows, tokens, Head(weight, bias, "torch")


def plain_logits(states, rows, head):
    return states[rows] @ head.weight.T + (0 if head.bias is None else head.bias)


def gradients(values, inputs):
    """Return the gradients of a sum with different weights."""
    total = sum(
        (value * torch.arange(1, 1 + value.numel()).view_as(value)).sum() for value in values
    )
    return torch.autograd.grad(total, inputs)


def test_log_probs_and_gradients_by_hand(tiles):
    # Logits (0, ln 3): probabilities 1/4 and 3/4. The gradient of log p(1) is (-1/4, 1/4) in the
    # logits, that times the state 1 in the weight, and ln 3 / 4 in the state.
    weight = torch.tensor([[0.0], [math.log(3.0)]], requires_grad=True)
    state = torch.ones(1, 1, requires_grad=True)
    measure = sampled_log_probs(torch.tensor([1]), Decoding())

    (value,) = compute_in_tiles([measure], state, torch.tensor([0]), Head(weight, None, "torch"))
    value.sum().backward()

    assert value.item() == pytest.approx(math.log(0.75))
    torch.testing.assert_close(weight.grad, torch.tensor([[-0.25], [0.25]]))
    assert state.grad.item() == pytest.approx(math.log(3.0) / 4)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    sizes=st.tuples(*[st.integers(1, 9)] * 3, st.integers(1, 5)),
    cuts=st.tuples(st.integers(1, 10), st.integers(1, 40), st.integers(1, 10)),
    decoding=st.sampled_from(SAMPLINGS),
    barring=st.booleans(),
    biased=st.booleans(),
)
def test_tiles_agree_with_the_untiled_head(seed, sizes, cuts, decoding, barring, biased):
    states, rows, tokens, head = problem(seed, *sizes)
    head = head if biased else Head(head.weight, None, "torch")
    suppressed = torch.arange(sizes[2]) == 0 if barring and sizes[2] > 1 else None
    inputs = [states, head.weight, *([head.bias] if biased else [])]
    spread = LogitFunction(lambda logits, _: entropy(logits, 0.7, suppressed))

    with pytest.MonkeyPatch.context() as patch:
        cut(patch, *cuts)
        actual = compute_in_tiles(
            [sampled_log_probs(tokens, decoding, suppressed), spread], states, rows, head
        )
        slopes = gradients(actual, inputs)

    logits = plain_logits(states, rows, head)
    expected = [
        token_log_probs(logits, tokens, decoding, suppressed),
        entropy(logits, 0.7, suppressed),
    ]
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(slopes, gradients(expected, inputs))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), tokens_at_once=st.integers(1, 11), part=st.integers(1, 40))
def test_logits_without_a_head_agree(seed, tokens_at_once, part):
    states, rows, tokens, head = problem(seed)
    logits = (states @ head.weight.T).detach().requires_grad_()
    measures = [
        sampled_log_probs(tokens, SAMPLINGS[1]),
        LogitFunction(lambda some, _: entropy(some, 1.0)),
    ]

    with pytest.MonkeyPatch.context() as patch:
        cut(patch, tokens_at_once, part, 1)
        actual = compute_in_tiles(measures, logits, rows, None)
        slopes = gradients(actual, [logits])

    expected = [token_log_probs(logits[rows], tokens, SAMPLINGS[1]), entropy(logits[rows], 1.0)]
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(slopes, gradients(expected, [logits]))


def test_recorded_masks_follow_their_tokens_through_the_tiles(tiles):
    states, rows, tokens, head = problem(0)
    allowed = torch.rand(10, 11, generator=torch.Generator().manual_seed(1)) < 0.5
    allowed = allowed.scatter(1, tokens[:, None], True)
    measure = sampled_log_probs(tokens, SAMPLINGS[3], None, pack_mask(allowed))

    actual = compute_in_tiles([measure], states, rows, head)
    slopes = gradients(actual, [states, head.weight, head.bias])

    logits = plain_logits(states, rows, head) / 0.7
    scores = logits.masked_fill(~allowed, -torch.inf).log_softmax(-1)
    expected = [scores.gather(1, tokens[:, None])[:, 0]]
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(slopes, gradients(expected, [states, head.weight, head.bias]))


def test_a_state_of_two_tokens_gets_the_sum_of_their_gradients(tiles):
    # Probabilities (1/2, 1/2); each token is sampled once: (1/2, -1/2) + (-1/2, 1/2) = 0.
    logits = torch.zeros(1, 2, requires_grad=True)
    measure = sampled_log_probs(torch.tensor([0, 1, 1]), Decoding())

    (value,) = compute_in_tiles([measure], logits, torch.tensor([0, 0, 0]), None)

    first, both, all_three = (
        torch.autograd.grad(value[:n].sum(), logits, retain_graph=True)[0] for n in (1, 2, 3)
    )
    assert first.tolist() == [[0.5, -0.5]]
    assert both.tolist() == [[0.0, 0.0]]
    assert all_three.tolist() == [[-0.5, 0.5]]


@pytest.mark.parametrize("corrupted", [math.nan, math.inf])
def test_unused_states_have_no_effect(tiles, corrupted):
    states, _, tokens, head = problem(0)
    rows = torch.tensor([0, 1, 3, 3, 4] * 2)
    bad = states.detach().clone()
    bad[[2, 5]] = corrupted
    bad.requires_grad_()

    def slopes(given_states):
        actual = compute_in_tiles([sampled_log_probs(tokens, Decoding())], given_states, rows, head)
        return *actual, *gradients(actual, [given_states, head.weight, head.bias])

    torch.testing.assert_close(slopes(bad), slopes(states), rtol=0, atol=0)
    assert not slopes(bad)[1][[2, 5]].any()


@pytest.mark.parametrize("tile", [0, 10**6])
def test_a_function_without_gradient_is_skipped_in_the_backward_pass(monkeypatch, tile):
    states, rows, tokens, head = problem(0)
    monkeypatch.setattr(vocabulary, "_TILE", tile)
    calls = []

    def spread(logits, _):
        calls.append(logits.requires_grad)
        return entropy(logits, 1.0)

    taken, numbers = compute_in_tiles(
        [sampled_log_probs(tokens, Decoding()), LogitFunction(spread, differentiable=False)],
        states,
        rows,
        head,
    )
    taken.sum().backward()

    assert not numbers.requires_grad
    assert calls == [False]
    assert head.weight.grad is not None


def test_one_product_with_the_head_serves_all_functions(tiles, monkeypatch):
    states, rows, tokens, head = problem(0)
    columns = []
    monkeypatch.setattr(
        vocabulary,
        "linear",
        lambda x, w, b, kernel: columns.append(len(x) * len(w)) or x @ w.T + b,
    )
    squares = LogitFunction(lambda logits, _: logits.square().sum(-1))

    compute_in_tiles([sampled_log_probs(tokens, Decoding()), squares, squares], states, rows, head)

    assert sum(columns) == 10 * 11


def test_an_unused_result_has_no_gradient(tiles):
    states, rows, tokens, head = problem(0)

    def broken(gradient, logits, some):
        raise AssertionError("nobody asked")

    unused = LogitFunction(lambda logits, _: logits.sum(-1), gradient=broken)
    taken, _ = compute_in_tiles([sampled_log_probs(tokens, Decoding()), unused], states, rows, head)
    (slope,) = gradients([taken], [states])

    expected = token_log_probs(plain_logits(states, rows, head), tokens, Decoding())
    torch.testing.assert_close(slope, gradients([expected], [states])[0])


def test_a_frozen_head_gets_no_gradient(tiles, monkeypatch):
    states, rows, tokens, head = problem(0)
    frozen = Head(head.weight.detach(), head.bias.detach(), "torch")
    monkeypatch.setattr(vocabulary, "accumulate", None)

    (value,) = compute_in_tiles([sampled_log_probs(tokens, Decoding())], states, rows, frozen)
    (slope,) = gradients([value], [states])

    expected = token_log_probs(plain_logits(states, rows, head), tokens, Decoding())
    torch.testing.assert_close(slope, gradients([expected], [states])[0])


def test_a_head_on_frozen_states_is_trained(tiles):
    states, rows, tokens, head = problem(0)

    (value,) = compute_in_tiles(
        [sampled_log_probs(tokens, Decoding())], states.detach(), rows, head
    )
    slopes = gradients([value], [head.weight, head.bias])

    expected = token_log_probs(plain_logits(states, rows, head), tokens, Decoding())
    torch.testing.assert_close(slopes, gradients([expected], [head.weight, head.bias]))


class Largest(TorchDispatchMode):
    """Record the largest result of an operation."""

    def __init__(self):
        super().__init__()
        self.seen = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self.seen = max(self.seen, *sizes, 0)
        return result


def test_memory_is_bounded_by_a_tile(tiles):
    # 3 tokens a tile and 50 in the vocabulary: 150; the head has 50 x 5 = 250; all logits 5000.
    states, rows, tokens, head = problem(0, 100, 40, 50, 5)
    spread = LogitFunction(lambda logits, _: entropy(logits, 0.5))

    with Largest() as largest:
        actual = compute_in_tiles(
            [sampled_log_probs(tokens, SAMPLINGS[3]), spread], states, rows, head
        )
        sum(value.sum() for value in actual).backward()

    assert largest.seen == 250


def test_values_may_have_a_vocabulary_dimension(tiles):
    states, rows, _, head = problem(0)
    whole = LogitFunction(lambda logits, _: log_distribution(logits, 0.5))

    actual = compute_in_tiles([whole], states, rows, head)
    slopes = gradients(actual, [states, head.weight])

    expected = [(2 * plain_logits(states, rows, head)).log_softmax(-1)]
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(slopes, gradients(expected, [states, head.weight]))


def test_a_function_may_return_the_logits(tiles):
    # The memory of the logits is reused; values of the first tile must not change.
    states, rows, _, head = problem(0)

    (first,) = compute_in_tiles([LogitFunction(lambda logits, _: logits[:, 0])], states, rows, head)

    torch.testing.assert_close(first, plain_logits(states, rows, head)[:, 0])


def test_greedy_log_probs_are_zero_without_gradient(tiles):
    states, rows, tokens, head = problem(0)

    (value,) = compute_in_tiles(
        [sampled_log_probs(tokens, Decoding(temperature=0))], states, rows, head
    )

    assert not value.any()
    assert not value.requires_grad


def test_greedy_entropy_has_zero_gradient(tiles):
    states, rows, _, head = problem(0)

    (value,) = compute_in_tiles(
        [LogitFunction(lambda logits, _: entropy(logits, 0.0))], states, rows, head
    )
    value.sum().backward()

    assert not value.any()
    assert not states.grad.any()


def test_an_empty_list_gives_empty_values(tiles):
    states, rows, tokens, head = problem(0)

    (value,) = compute_in_tiles([sampled_log_probs(tokens[:0], Decoding())], states, rows[:0], head)
    value.sum().backward()

    assert value.shape == (0,)
    assert not states.grad.any()


def test_an_empty_list_gives_empty_values_in_half_precision():
    weight = torch.randn(12, 4).bfloat16().requires_grad_()
    states = torch.randn(3, 4).bfloat16().requires_grad_()
    none = torch.zeros(0, dtype=torch.int64)
    measures = [
        sampled_log_probs(none, Decoding()),
        LogitFunction(lambda logits, _: entropy(logits, 1.0)),
    ]

    actual = compute_in_tiles(measures, states, none, Head(weight, None, "torch"))
    torch.cat(actual).sum().backward()

    assert [(value.shape, value.dtype) for value in actual] == [((0,), torch.float32)] * 2
    assert not states.grad.any()
    assert not weight.grad.any()


def test_half_precision_logits_are_float32(tiles):
    states, rows, tokens, head = problem(0)
    half = Head(head.weight.detach().bfloat16().requires_grad_(), None, "torch")
    states = states.detach().bfloat16()

    (value,) = compute_in_tiles([sampled_log_probs(tokens, Decoding())], states, rows, half)
    value.sum().backward()

    logits = plain_logits(states, rows, half).float()
    assert value.dtype == torch.float32
    assert half.weight.grad.dtype == torch.bfloat16
    expected = token_log_probs(logits, tokens, Decoding())
    torch.testing.assert_close(value, expected, atol=0.05, rtol=0.02)


def test_the_gradient_of_a_half_precision_head_is_rounded_once(monkeypatch):
    # 512 tiles each add 1 to the same entry: in bfloat16 the sum would stop at 256.
    monkeypatch.setattr(vocabulary, "_TILE", 2)
    monkeypatch.setattr(vocabulary, "_LEAST_TOKENS", 1)
    weight = torch.zeros(2, 1, dtype=torch.bfloat16, requires_grad=True)
    states = torch.ones(512, 1, dtype=torch.bfloat16)
    first = LogitFunction(lambda logits, _: logits[:, 0])

    (values,) = compute_in_tiles([first], states, torch.arange(512), Head(weight, None, "torch"))
    values.sum().backward()

    assert weight.grad.tolist() == [[512.0], [0.0]]
