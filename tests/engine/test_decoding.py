import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from rlcomp.engine.decoding import (
    Decoding,
    filter_logits,
    mask_contains,
    pack_mask,
    sampling_log_probs,
    sampling_mask,
    unpack_mask,
)
from rlcomp.engine.draw import sample
from rlcomp.engine.logprob import token_log_probs
from rlcomp.errors import ConfigError

SETTINGS = [
    Decoding(),
    Decoding(temperature=0.3),
    Decoding(temperature=0.5, top_p=0.9),
    Decoding(temperature=2.0),
    Decoding(temperature=2.0, top_p=0.9),
    Decoding(temperature=2.0, top_k=5),
    Decoding(top_p=0.7),
    Decoding(min_p=0.1),
    Decoding(temperature=0.8, top_k=20, top_p=0.9, min_p=0.05),
]


def by_transformers(logits, decoding):
    """Filter by transformers, in the order of its `generate`."""
    warpers = LogitsProcessorList([TemperatureLogitsWarper(float(decoding.temperature))])
    if decoding.top_k:
        warpers.append(TopKLogitsWarper(decoding.top_k))
    if decoding.top_p < 1:
        warpers.append(TopPLogitsWarper(decoding.top_p))
    if decoding.min_p:
        warpers.append(MinPLogitsWarper(decoding.min_p))
    return warpers(torch.zeros(len(logits), 1, dtype=torch.int64), logits)


@pytest.mark.parametrize(
    ("filters", "truncates"),
    [
        ({"temperature": 0.3}, False),
        ({"top_k": 1}, True),
        ({"top_p": 0.99}, True),
        ({"min_p": 0.01}, True),
    ],
)
def test_masks_are_recorded_if_a_filter_truncates(filters, truncates):
    assert Decoding(**filters).truncates is truncates
    assert Decoding(**filters, replay=True).replays is truncates
    assert not Decoding(**filters).replays


@pytest.mark.parametrize("decoding", SETTINGS)
@pytest.mark.parametrize("ties", [False, True])
def test_filtered_distribution_agrees_with_transformers(decoding, ties):
    logits = 3 * torch.randn(50, 64, generator=torch.Generator().manual_seed(1))
    logits = logits.round() if ties else logits

    expected = by_transformers(logits.clone(), decoding).log_softmax(-1)

    torch.testing.assert_close(sampling_log_probs(logits, decoding), expected)


# Blocks of 8 in 64 tokens are drawn in two steps, like a large vocabulary.
@pytest.mark.parametrize("block", [128, 8])
@pytest.mark.parametrize("decoding", SETTINGS)
def test_draws_follow_the_distribution(monkeypatch, decoding, block):
    monkeypatch.setattr("rlcomp.engine.draw._BLOCK", block)
    draws = 20_000
    logits = 2 * torch.randn(1, 64, generator=torch.Generator().manual_seed(2))
    expected = draws * by_transformers(logits.clone(), decoding).double().softmax(-1)[0]

    scores = filter_logits(logits, decoding).expand(draws, -1)
    drawn = sample(scores, uniforms(draws, seed=3))[0].bincount(minlength=64)

    assert not drawn[expected == 0].any()
    assert fits(drawn, expected)
    # A draw that is off by one, or counts from the other end, fails.
    assert not fits(drawn.roll(1), expected)
    assert not fits(drawn.flip(0), expected)


def uniforms(rows, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(rows, 1, dtype=torch.float64, generator=generator)


def fits(drawn, expected):
    """Return whether counts pass a chi-square test."""
    # Cells with fewer than 5 expected draws are joined: else the statistic is not chi-square.
    rare = expected < 5
    counts = [*drawn[~rare].tolist(), int(drawn[rare].sum())]
    model = [*expected[~rare].tolist(), float(expected[rare].sum())]
    impossible = [s for s, m in zip(counts, model, strict=True) if m == 0 and s]
    pairs = [(s, m) for s, m in zip(counts, model, strict=True) if m > 0]
    if impossible or len(pairs) < 2:
        return not impossible
    counts, model = zip(*pairs, strict=True)
    # The test needs equal sums: counts of impossible tokens would be missing.
    return chisquare(counts, model).pvalue > 1e-3


def test_greedy_is_a_point_mass_on_the_likeliest_token():
    logits = torch.tensor([[0.0, 2.0, 1.0]])

    log_probs = sampling_log_probs(logits, Decoding(temperature=0))

    assert log_probs.tolist() == [[-torch.inf, 0.0, -torch.inf]]
    assert [each.tolist() for each in sample(log_probs, uniforms(1))] == [[1], [0.0]]


def test_ties_with_the_last_of_top_k_stay():
    # The two likeliest of (3, 2, 2, 1) are 3 and one of the 2s; the other 2 is as likely.
    logits = torch.tensor([[3.0, 2.0, 2.0, 1.0]])

    assert sampling_mask(logits, Decoding(top_k=2)).tolist() == [[True, True, True, False]]


def test_top_p_keeps_the_smallest_set_that_reaches_it():
    # Probabilities 0.5, 0.3, 0.2: the first two reach 0.7, the first alone does not.
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()

    assert sampling_mask(logits, Decoding(top_p=0.7)).tolist() == [[True, True, False]]


def test_top_p_may_be_reached_exactly():
    # Two of four equal tokens, as in transformers.
    assert sampling_mask(torch.zeros(1, 4), Decoding(top_p=0.5)).sum().item() == 2


def test_min_p_is_relative_to_the_likeliest_token():
    # 0.3 >= 0.5 * 0.5 > 0.2
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()

    assert sampling_mask(logits, Decoding(min_p=0.5)).tolist() == [[True, True, False]]


def test_tiny_top_p_keeps_the_likeliest_token():
    assert sampling_mask(torch.tensor([[1.0, 2.0]]), Decoding(top_p=1e-9)).tolist() == [
        [False, True]
    ]


# 1.0 stands for a uniform whose product with the total is rounded up to the total.
@pytest.mark.parametrize(("uniform", "token"), [(0.0, 1), (0.3, 3), (1 - 2**-53, 3), (1.0, 3)])
@pytest.mark.parametrize("block", [128, 2])
def test_tokens_of_probability_zero_are_not_drawn_at_extreme_uniforms(
    monkeypatch, uniform, token, block
):
    monkeypatch.setattr("rlcomp.engine.draw._BLOCK", block)
    log_probs = torch.tensor([[0.0, 0.2, 0.0, 0.8, 0.0]]).log()

    drawn, taken = sample(log_probs, torch.tensor([[uniform]], dtype=torch.float64))

    assert drawn.item() == token
    torch.testing.assert_close(taken, log_probs[:, token])


BLOCKS = st.sampled_from([1, 3, 128])


def ragged(seed, vocabulary, share, rows=200):
    """Return logits with a share of impossible tokens, never the first."""
    generator = torch.Generator().manual_seed(seed)
    logits = 5 * torch.randn(rows, vocabulary, generator=generator)
    gone = torch.rand(rows, vocabulary, generator=generator) > share
    gone[:, 0] = False
    return logits.masked_fill(gone, -torch.inf), uniforms(rows, seed)


@given(st.integers(0, 2**31), st.integers(1, 30), st.floats(0.05, 1.0), BLOCKS)
def test_tokens_of_probability_zero_are_never_drawn(seed, vocabulary, share, block):
    scores, uniform = ragged(seed, vocabulary, share)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rlcomp.engine.draw._BLOCK", block)
        drawn, log_probs = sample(scores, uniform)

    assert scores.gather(1, drawn[:, None]).isfinite().all()
    expected = scores.log_softmax(-1).gather(1, drawn[:, None]).squeeze(1)
    torch.testing.assert_close(log_probs, expected, atol=2e-6, rtol=0)


@given(st.integers(0, 2**31), st.integers(1, 300), st.floats(0.05, 1.0), BLOCKS)
def test_sample_inverts_the_cumulative_distribution(seed, vocabulary, share, block):
    scores, uniform = ragged(seed, vocabulary, share, rows=50)
    scores = scores.double()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rlcomp.engine.draw._BLOCK", block)
        drawn = sample(scores, uniform)[0]

    # The cumulative sum exceeds the number with the token, and not without it.
    probs = scores.softmax(-1)
    reached = probs.cumsum(-1).gather(1, drawn[:, None])
    before = reached - probs.gather(1, drawn[:, None])
    assert (before <= uniform + 1e-12).all()
    assert (uniform <= reached + 1e-12).all()


@given(st.integers(0, 2**31), st.integers(1, 300), st.integers(0, 49))
def test_a_draw_is_independent_of_other_rows(seed, vocabulary, row):
    scores, uniform = ragged(seed, vocabulary, 0.7, rows=50)

    together = [each[row] for each in sample(scores, uniform)]
    alone = [each[0] for each in sample(scores[row : row + 1], uniform[row : row + 1])]

    assert torch.equal(together[0], alone[0])
    torch.testing.assert_close(together[1], alone[1], atol=1e-6, rtol=0)


def test_half_precision_logits_are_filtered_in_float32():
    logits = torch.randn(4, 8, generator=torch.Generator().manual_seed(0)).bfloat16()

    log_probs = sampling_log_probs(logits, Decoding(temperature=0.7, top_p=0.9))

    expected = sampling_log_probs(logits.float(), Decoding(temperature=0.7, top_p=0.9))
    torch.testing.assert_close(log_probs, expected)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("temperature", -0.1), ("top_k", -1), ("top_p", 0.0), ("top_p", 1.1), ("min_p", 1.0)],
)
def test_values_out_of_range_are_refused(argument, value):
    with pytest.raises(ConfigError, match=argument):
        Decoding(**{argument: value})


def test_a_suppressed_token_is_never_drawn_at_any_temperature():
    suppressed = torch.tensor([True, False, False])

    scores = sampling_log_probs(torch.randn(1, 3), Decoding(temperature=1e30), suppressed)

    # Two tokens stay, and a temperature beyond all scores makes them equal.
    torch.testing.assert_close(scores.exp(), torch.tensor([[0.0, 0.5, 0.5]]))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_suppressed_token_is_never_drawn(temperature):
    # Of 0.7, 0.2, 0.1 the first is suppressed: 2/3 and 1/3, or all on the second.
    logits = torch.tensor([[0.7, 0.2, 0.1]]).log()
    suppressed = torch.tensor([True, False, False])

    probs = sampling_log_probs(logits, Decoding(temperature=temperature), suppressed).exp()

    expected = [0.0, 2 / 3, 1 / 3] if temperature else [0.0, 1.0, 0.0]
    torch.testing.assert_close(probs, torch.tensor([expected]))


@pytest.mark.parametrize("vocabulary", [64, 300])
def test_nan_scores_give_a_valid_token_and_a_nan_log_prob(vocabulary):
    scores = torch.full((1, vocabulary), torch.nan)

    token, log_prob = sample(scores, torch.tensor([[0.5]], dtype=torch.float64))

    assert 0 <= token.item() < vocabulary
    assert log_prob.isnan().all()


@given(st.lists(st.lists(st.booleans(), min_size=11, max_size=11), min_size=1, max_size=4))
def test_pack_mask_agrees_with_numpy_and_unpack_mask_inverts_it(rows):
    kept = torch.tensor(rows)

    packed = pack_mask(kept)

    assert packed.tolist() == np.packbits(kept.numpy(), axis=-1).tolist()
    assert unpack_mask(packed, 11).tolist() == rows


@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_mask_contains_agrees_with_the_mask(row):
    kept = torch.tensor(row)
    packed = pack_mask(kept).expand(len(row), -1)

    assert mask_contains(packed, torch.arange(len(row))).tolist() == row


def test_log_prob_over_a_recorded_mask_by_hand():
    # Of logits 0, log 3, log 5 the first two: 3 / 4; the policy's own top-1 is another set.
    logits, kept = torch.tensor([[1.0, 3.0, 5.0]]).log(), torch.tensor([[True, True, False]])

    value = token_log_probs(
        logits, torch.tensor([1]), Decoding(top_k=1, replay=True), recorded=pack_mask(kept)
    )

    torch.testing.assert_close(value.exp(), torch.tensor([0.75]))


@given(st.integers(0, 1000))
def test_a_recorded_mask_raises_the_log_prob_unless_it_is_full(seed):
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(5, 9, generator=draw, dtype=torch.float64)
    taken = torch.randint(9, (5,), generator=draw)
    kept = (torch.rand(5, 9, generator=draw) < 0.5).scatter(1, taken[:, None], True)

    plain = token_log_probs(logits, taken, Decoding())
    some = token_log_probs(logits, taken, Decoding(), recorded=pack_mask(kept))
    everything = token_log_probs(
        logits, taken, Decoding(), recorded=pack_mask(torch.ones_like(kept))
    )

    assert bool((some >= plain).all())
    torch.testing.assert_close(everything, plain, atol=1e-12, rtol=0)


def test_masked_tokens_get_no_gradient():
    logits = torch.zeros(1, 3, requires_grad=True)
    kept = pack_mask(torch.tensor([[True, True, False]]))

    token_log_probs(logits, torch.tensor([0]), Decoding(), recorded=kept).sum().backward()

    assert logits.grad.tolist() == [[0.5, -0.5, 0.0]]
