import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.logprob import token_log_probs
from rlcomp.engine.sampling_mask import contains, pack, unpack


@given(st.lists(st.lists(st.booleans(), min_size=11, max_size=11), min_size=1, max_size=4))
def test_bits_are_in_the_order_of_numpy_and_come_back(rows):
    kept = torch.tensor(rows)

    packed = pack(kept)

    assert packed.tolist() == np.packbits(kept.numpy(), axis=-1).tolist()
    assert unpack(packed, 11).tolist() == rows


@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_a_token_is_looked_up_without_unpacking(row):
    kept = torch.tensor(row)
    packed = pack(kept).expand(len(row), -1)

    assert contains(packed, torch.arange(len(row))).tolist() == row


def test_over_a_recorded_set_by_hand():
    # Of logits 0, log 3, log 5 the first two: 3 / 4; the policy's own top-1 is another set.
    logits, kept = torch.tensor([[1.0, 3.0, 5.0]]).log(), torch.tensor([[True, True, False]])

    value = token_log_probs(
        logits, torch.tensor([1]), Decoding(top_k=1, replay=True), recorded=pack(kept)
    )

    torch.testing.assert_close(value.exp(), torch.tensor([0.75]))


@given(st.integers(0, 1000))
def test_a_smaller_set_raises_the_log_prob_and_the_whole_vocabulary_leaves_it(seed):
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(5, 9, generator=draw, dtype=torch.float64)
    taken = torch.randint(9, (5,), generator=draw)
    kept = (torch.rand(5, 9, generator=draw) < 0.5).scatter(1, taken[:, None], True)

    plain = token_log_probs(logits, taken, Decoding())
    some = token_log_probs(logits, taken, Decoding(), recorded=pack(kept))
    everything = token_log_probs(logits, taken, Decoding(), recorded=pack(torch.ones_like(kept)))

    assert bool((some >= plain).all())
    torch.testing.assert_close(everything, plain, atol=1e-12, rtol=0)


def test_no_gradient_reaches_what_was_not_kept():
    logits = torch.zeros(1, 3, requires_grad=True)
    kept = pack(torch.tensor([[True, True, False]]))

    token_log_probs(logits, torch.tensor([0]), Decoding(), recorded=kept).sum().backward()

    assert logits.grad.tolist() == [[0.5, -0.5, 0.0]]
