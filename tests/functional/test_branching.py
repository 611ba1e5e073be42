"""Rows of trees that count for their share of an independent episode."""

import pytest
import torch

from rlcomp.functional.branching import share_centred


@pytest.mark.parametrize(
    ("others", "baselines"),
    [
        # Shares .5, .5 and 1 of rewards 2, 4 and 7: (1 + 2 + 7) / 2. The invalid row is nowhere.
        (False, [5.0, 5.0, 5.0]),
        # Of the other tree: 7, and (1 + 2) / 1.
        (True, [7.0, 7.0, 3.0]),
    ],
)
def test_share_centred_weights_rows_by_share(others, baselines):
    reward = torch.tensor([2.0, 4.0, 7.0, 100.0], dtype=torch.float64)
    share = torch.tensor([0.5, 0.5, 1.0, 1.0])
    valid = torch.tensor([True, True, True, False])
    tree, group = torch.tensor([0, 0, 1, 1]), torch.zeros(4, dtype=torch.int64)

    result = share_centred(reward, share, tree, group, valid, others=others)

    expected = [r - b for r, b in zip([2.0, 4.0, 7.0], baselines, strict=True)]
    assert result.tolist() == pytest.approx([*expected, 0.0])
