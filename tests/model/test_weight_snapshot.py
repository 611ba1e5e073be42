from functools import partial

import pytest
import torch

from rlcomp.model.weight_snapshot import WeightSnapshot
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import character_tokenizer

make_model = partial(tiny_model, character_tokenizer(characters="abc"))


class Owner:
    """Of a policy, what is copied."""

    def __init__(self, model) -> None:
        self.model = model

    def weights(self):
        named = self.model.named_parameters()
        return {name: tensor for name, tensor in named if tensor.requires_grad}


def fill(model, value):
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.fill_(value)


def level(copied):
    """All copied weights are equal in these tests."""
    (value,) = {round(float(x), 6) for copy in copied.weights().values() for x in copy.flatten()}
    return value


def test_copies_stay_until_they_are_taken_again():
    model = make_model()
    fill(model, 1.0)
    copied = WeightSnapshot(Owner(model))
    fill(model, 2.0)

    before = level(copied)
    copied.take()

    assert (before, level(copied)) == (1.0, 2.0)


def test_following_moves_by_the_share_of_the_distance():
    model = make_model()
    fill(model, 0.0)
    copied = WeightSnapshot(Owner(model))
    fill(model, 1.0)

    found = []
    for _ in range(3):
        copied.follow(0.25)
        found.append(level(copied))

    # 1 - 0.75^n.
    assert found == [0.25, 0.4375, 0.578125]


def test_following_wholly_is_taking():
    model = make_model()
    copied = WeightSnapshot(Owner(model))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()

    copied.follow(1.0)

    weights = copied.weights()
    assert all(torch.equal(weights[name], value) for name, value in model.named_parameters())


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("rank", [0, 2])
def test_trainable_parameters_are_copied_once_and_no_others(tie, rank):
    model = make_model(tie_word_embeddings=tie, rank=rank)
    trainable = {name for name, value in model.named_parameters() if value.requires_grad}

    copied = WeightSnapshot(Owner(model))

    assert set(copied.weights()) == trainable
    assert len(list(copied.buffers())) == len(trainable)


def test_the_model_is_not_part_of_it():
    copied = WeightSnapshot(Owner(make_model()))

    assert not list(copied.parameters())
    assert not list(copied.children())
    assert all(not copy.requires_grad for copy in copied.weights().values())


def test_copies_travel_in_its_state():
    model = make_model()
    fill(model, 1.0)
    state = WeightSnapshot(Owner(model)).state_dict()
    fill(model, 2.0)
    restored = WeightSnapshot(Owner(model))

    restored.load_state_dict(state)

    assert level(restored) == 1.0
