"""ARPO's probability of a branch: by hand, and its goldens."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.branching import EntropyBranching
from rlcomp.errors import ConfigError
from rlcomp.functional.branching import branch_probability, normalised_entropy

FINITE = st.floats(-5, 5)


def test_the_authors_numbers_keep_the_probability_between_3_and_7_tenths():
    # .5 + .2 dH, dH in [-1, 1].
    found = EntropyBranching()(torch.tensor([-1.0, -0.25, 0.0, 1.0]))

    torch.testing.assert_close(found, torch.tensor([0.3, 0.45, 0.5, 0.7]))


@given(FINITE, FINITE, st.floats(0, 1), st.floats(0, 3))
def test_it_is_a_probability_that_grows_with_the_entropy(one, other, probability, weight):
    low, high = branch_probability(torch.tensor(sorted([one, other])), probability, weight).tolist()

    assert 0 <= low <= high <= 1


def test_the_entropy_is_a_share_of_the_largest():
    # Even over 4 tokens; over 2 of 4, log 2 / log 4; a point.
    logits = torch.tensor([[3.0] * 4, [0.0, 0.0, -torch.inf, -torch.inf], [0.0, *[-1e4] * 3]])

    torch.testing.assert_close(normalised_entropy(logits), torch.tensor([1.0, 0.5, 0.0]))


def test_a_probability_is_asked_for():
    with pytest.raises(ConfigError, match="probability"):
        EntropyBranching(probability=1.5)
