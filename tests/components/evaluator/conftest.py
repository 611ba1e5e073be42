"""Reward with scripted verdicts."""

from collections.abc import Callable

import pytest
import torch
from tensordict import TensorDict

from rlcomp.component import Component


class Scripted(Component):
    """Reward with scripted verdicts for each call: + right, - wrong, ? not judged."""

    reads = ("response",)
    writes = ("correct", "reward_valid")

    def __init__(self, *calls: str) -> None:
        super().__init__()
        self.calls = [call.replace(" ", "") for call in calls]

    def forward(self, batch: TensorDict) -> TensorDict:
        told = self.calls.pop(0)
        batch["correct"] = torch.tensor([one == "+" for one in told])
        batch["reward_valid"] = torch.tensor([one != "?" for one in told])
        return batch


@pytest.fixture
def scripted() -> Callable[..., Scripted]:
    """Return the factory: ``scripted("+-? ---")`` has these verdicts, one word for each call."""
    return Scripted
