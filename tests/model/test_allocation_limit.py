import pytest
import torch
from torch import nn
from transformers import GPTNeoConfig, GPTNeoForCausalLM

from rlcomp.errors import DataError
from rlcomp.model.allocation_limit import AllocationLimit

# Beside twice what is stored, 2^27 numbers may be made.
SLACK = 1 << 27


def test_twice_the_weights_and_some_buffers_may_be_made():
    # 2^19 numbers are stored in two tensors, so that 2^20 more than the slack may be made.
    with AllocationLimit([1 << 18, 1 << 18], "config"), torch.device("meta"):
        torch.empty(SLACK)
        torch.zeros(1 << 10, 1 << 10)
        with pytest.raises(DataError, match=r"config describes .* hold 524,288"):
            torch.empty(1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(1 << 14, 1 << 14),
        lambda: torch.zeros((1 << 28,)),
        lambda: torch.ones(1 << 28),
        lambda: torch.ones(size=(1 << 28,)),
        lambda: torch.full((1 << 28,), 3.0),
        lambda: torch.rand(1 << 28),
        lambda: torch.randn(1 << 28, generator=torch.Generator()),
        lambda: torch.randint(0, 3, (1 << 28,)),
        lambda: torch.arange(1 << 28),
        lambda: torch.eye(1 << 14),
        lambda: nn.Linear(10**9, 10**9),
        lambda: nn.Transformer(d_model=8, nhead=1, num_encoder_layers=10**8),
        lambda: nn.LSTM(1, 1, num_layers=10**9),
    ],
)
def test_what_is_too_large_is_not_made(make):
    with AllocationLimit([], "config"), pytest.raises(DataError, match="config describes a model"):
        make()


@pytest.mark.parametrize(("stored", "made"), [([], 8192), ([1, 1, 1], 8198)])
def test_small_tensors_count_as_objects(stored, made):
    # 2^27 / 2^14 of them, and two more for each that is stored.
    with AllocationLimit(stored, "config"):
        for _ in range(made):
            torch.empty(1)
        with pytest.raises(DataError):
            torch.empty(1)


def test_a_model_within_another_has_its_own():
    with AllocationLimit([], "outer"), torch.device("meta"):
        torch.empty(SLACK)
        with AllocationLimit([], "inner"):
            torch.empty(SLACK)
            with pytest.raises(DataError, match="inner"):
                torch.empty(1)
        with pytest.raises(DataError, match="outer"):
            torch.empty(1)


def test_what_is_made_is_as_it_would_be():
    with AllocationLimit([], "config"):
        inside = torch.randn(3, generator=torch.Generator().manual_seed(1))

    assert torch.equal(inside, torch.randn(3, generator=torch.Generator().manual_seed(1)))
    assert inside.device.type == "cpu"


def test_a_small_model_with_masks_in_every_layer_may_be_built():
    # Eight masks of 2048 x 2048 beside few weights, as of the models of TinyStories.
    config = GPTNeoConfig(
        vocab_size=300,
        hidden_size=16,
        num_layers=8,
        num_heads=2,
        attention_types=[[["global", "local"], 4]],
        max_position_embeddings=2048,
    )

    with AllocationLimit([300 * 16], "config"), torch.device("meta"):
        model = GPTNeoForCausalLM(config)

    assert sum(buffer.numel() for buffer in model.buffers()) >= 8 * 2048**2
