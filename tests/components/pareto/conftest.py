import pytest
import torch

from rlcomp.pareto.aggregator import Objectives


@pytest.fixture(scope="session")
def make_objectives():
    """Objectives ``a``, ``b``, ... from their vectors (rows), and their returns."""

    def objectives(vectors, returns=None):
        rows = torch.as_tensor(vectors, dtype=torch.float64)
        names = tuple("abcdefghijkl"[: len(rows)])
        means = torch.zeros(len(rows)) if returns is None else torch.tensor(returns)
        return Objectives(names, means.double(), rows.mean(1), rows @ rows.T)

    return objectives
