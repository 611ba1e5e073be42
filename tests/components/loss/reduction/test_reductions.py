import pytest
import torch

from components.loss.reduction import FixedLength, SequenceMean, SequenceSum, TokenMean
from rlcomp.errors import ConfigError
from rlcomp.testing import make_batch

# Two rows with 3 and 1 tokens and one with none.
MASK = [[True, True, True], [True, False, False], [False] * 3]
THIRD = 1 / 3


@pytest.mark.parametrize(
    ("reduction", "weights"),
    [
        (TokenMean(), [[0.25] * 3, [0.25, 0, 0], [0] * 3]),
        (SequenceMean(), [[THIRD / 2] * 3, [0.5, 0, 0], [0] * 3]),
        (SequenceSum(), [[0.5] * 3, [0.5, 0, 0], [0] * 3]),
        (FixedLength(length=5), [[0.1] * 3, [0.1, 0, 0], [0] * 3]),
    ],
)
def test_weights_by_hand(reduction, weights):
    batch = make_batch(response_mask=MASK)

    torch.testing.assert_close(reduction(batch)["loss_weight"], torch.tensor(weights).float())


def test_a_length_of_0_is_refused():
    with pytest.raises(ConfigError, match="length is 0: must be greater than 0"):
        FixedLength(length=0)
