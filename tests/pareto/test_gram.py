import pytest
import torch

from rlcomp.pareto.gram import GramianAggregator
from rlcomp.pareto.objectives import observed


class OfTwo(GramianAggregator):
    """Says no to fewer vectors than two."""

    def of_gram(self, gram):
        assert len(gram) >= 2
        self.gram = gram
        return torch.tensor([0.25, 0.75], dtype=torch.float64)


def shown(*vectors):
    rewards = torch.zeros(len(vectors[0]), len(vectors))
    return observed(["a", "b", "c"][: len(vectors)], rewards, torch.tensor(vectors), None)


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


# Over two entries a and c have the inner products 25, 8 and 4, halved; b is not there.
A, B, C = [3.0, 4.0], [0.0, 0.0], [0.0, 2.0]


def test_vectors_are_divided_by_their_own_lengths():
    part = OfTwo(row_norm="unit")

    weights = part.weigh(shown(A, B, C))

    # Lengths 5 and 2 over sqrt(2), mean 3.5: .25 * 3.5 / 5 and .75 * 3.5 / 2; 8 / (5 * 2).
    assert weights.tolist() == pytest.approx([0.175, 0.0, 1.3125])
    torch.testing.assert_close(part.gram, torch.tensor([[1.0, 0.8], [0.8, 1.0]]).double())


def test_without_norms_all_vectors_are_divided_by_one_length():
    part = OfTwo(row_norm="none")

    weights = part.weigh(shown(A, B, C))

    # The mean square is (25 + 4) / 2, halved.
    assert weights.tolist() == pytest.approx([0.25, 0.0, 0.75])
    wanted = torch.tensor([[25.0, 8.0], [8.0, 4.0]]).double() / 14.5
    torch.testing.assert_close(part.gram, wanted)


def test_running_lengths_follow_a_tenth_of_the_way():
    part = OfTwo(row_norm="ema")
    part.weigh(shown(A, B, C))

    weights = part.weigh(shown([6.0, 8.0], B, C))

    # 0.9 * 5 + 0.1 * 10 = 5.5 and 2 over sqrt(2), mean 3.75; products 100, 16 and 4, halved.
    assert part.norms.run_state() == pytest.approx({"a": 5.5 / 2**0.5, "c": 2 / 2**0.5})
    assert weights.tolist() == pytest.approx([0.25 * 3.75 / 5.5, 0.0, 0.75 * 3.75 / 2])
    wanted = torch.tensor([[100 / 5.5**2, 16 / 11], [16 / 11, 1.0]]).double()
    torch.testing.assert_close(part.gram, wanted)
