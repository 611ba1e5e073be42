import copy

import pytest


def test_losses_are_numbers_whose_gradients_are_taken():
    from components.learner.loss_value import LossValues

    values = LossValues(policy=0.5)

    assert values == {"policy": 0.5}
    assert copy.deepcopy(values) == values
    with pytest.raises(AttributeError, match=r"without 'backward': .* learner\.step\(progr"):
        values.backward()
