"""What goes wrong in a long run: rewards that cannot be judged, advantages that are infinite."""

import zlib

import torch

from rlcomp import Component

# Steps between two whose loss is not finite.
PERIOD = 100


def sometimes_judged(response):
    """One in 64 responses cannot be judged; of the others half are right."""
    number = zlib.crc32(response.encode())
    return None if number % 64 == 0 else float(number % 2)


class Spoil(Component):
    """Makes an advantage infinite in every ``PERIOD``-th step."""

    reads = ("advantage",)
    writes = ("advantage",)

    def __init__(self) -> None:
        super().__init__()
        self.step = 0

    def forward(self, batch):
        self.step += 1
        if self.step % PERIOD == 0:
            batch["advantage"] = torch.full_like(batch["advantage"], torch.inf)
        return batch

    def run_state(self):
        return {"step": self.step}

    def load_run_state(self, state):
        self.step = state["step"]
