"""Verdicts that are dealt out, whatever the response."""

from collections.abc import Callable

import pytest
import torch
from tensordict import TensorDict

from rlcomp.component import Component


class Dealt(Component):
    """Deals out verdicts call by call: + right, - wrong, ? not judged."""

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
def dealt() -> Callable[..., Dealt]:
    """``dealt("+-? ---")``: a reward with these verdicts, one text for each call."""
    return Dealt
