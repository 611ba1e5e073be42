import pytest
import torch

from rlcomp.pareto.gram import GramianAggregator
from rlcomp.pareto.objectives import observed


class OfTwo(GramianAggregator):
    """Says no to fewer vectors than two."""

    def of_gram(self, gram):
        assert len(gram) >= 2
        return torch.tensor([0.25, 0.75], dtype=torch.float64)


def shown(*vectors):
    rewards = torch.zeros(len(vectors[0]), len(vectors))
    return observed(["a", "b"], rewards, torch.tensor(vectors), None)


def test_a_single_vector_is_weighed_without_being_asked_about():
    assert OfTwo(row_norm="none").weigh(shown([0.0, 0.0], [1.0, 2.0])).tolist() == [0, 1]
    assert OfTwo(row_norm="none").weigh(shown([0.0], [0.0])).tolist() == [0, 0]


def test_weights_of_vectors_of_one_length_are_stretched_by_the_mean_length():
    # Norms 1 and 3, mean 2: .25 * 2 / 1 and .75 * 2 / 3.
    weights = OfTwo(row_norm="unit").weigh(shown([1.0, 0.0], [0.0, 3.0]))

    assert weights.tolist() == pytest.approx(
        [0.5, 0.5]
    )  # that both are divided by sqrt(N) changes nothing


def test_of_a_single_row_products_are_as_they_are():
    found = observed(["a", "b"], torch.ones(1, 2), torch.tensor([[3.0], [-2.0]]), None)

    assert found.means.tolist() == [3, -2]
    assert found.gram.tolist() == [[9, -6], [-6, 4]]
