"""Points of a distribution, for the fit of a flow."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.interfaces.distribution import HasModes
from rlcomp.seed import new_generator


class Points(Component):
    """Sampler of points of a distribution.

    Reads nothing. Writes ``sample`` ``[B, D]``.

    Args:
        distribution: the distribution to draw from.
        batch_size: points per batch (``B``).
    """

    keys = {"sample": ("B D", "float", "a point: of the data, or what a flow has led to")}
    writes = ("sample",)
    fresh = True

    def __init__(self, *, distribution: HasModes, batch_size: PositiveInt = 256) -> None:
        super().__init__()
        self.distribution = distribution
        self.batch_size = batch_size
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Draw the points."""
        points = self.distribution.draw(self.batch_size, self.generator)
        return TensorDict({"sample": points}, batch_size=[self.batch_size])
