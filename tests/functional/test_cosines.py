import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.min_norm import cosines


@given(seed=st.integers(0, 10000), count=st.integers(1, 5))
def test_they_are_those_of_the_vectors_themselves(seed, count):
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, 6, generator=draw, dtype=torch.float64)
    weights = torch.randn(count, generator=draw, dtype=torch.float64)

    found = cosines(rows @ rows.T, weights)

    wanted = torch.nn.functional.cosine_similarity(rows, (weights @ rows)[None])
    torch.testing.assert_close(found, wanted)


def test_what_rounding_leaves_of_terms_that_cancel_points_nowhere():
    # The difference of two vectors of length 1 is 6e-8 long: its cosines are -2e-9 / 6e-8 = -0.03;
    # with 1e-6 * (1 + 1) in place of its length they are -0.001.
    gram = torch.tensor([[1.0, 1 + 2e-9], [1 + 2e-9, 1 + 4e-9 + 4e-15]], dtype=torch.float64)

    assert cosines(gram, torch.tensor([1.0, -1.0])).abs().max() < 2e-3


def test_without_a_vector_or_a_sum_they_are_0():
    eye = torch.diag(torch.tensor([1.0, 0.0]))

    assert cosines(eye, torch.tensor([2.0, 1.0])).tolist() == [1.0, 0.0]
    assert cosines(eye, torch.zeros(2)).tolist() == [0.0, 0.0]
