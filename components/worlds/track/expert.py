"""Expert of the track."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component


class TrackDriver(Component):
    """Expert that steers to the middle of the road: ``u = clip(k - y - 2 h, -2, 2)``.

    Reads ``observation`` ``[N, 3]`` (offset, heading and curvature of
    :class:`components.worlds.track.environment.Track`). Writes ``action`` ``[N, 1]``.
    """

    reads = ("observation",)
    writes = ("action",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the action."""
        offset, heading, curvature = batch["observation"].split(1, dim=-1)
        batch["action"] = (curvature - offset - 2 * heading).clamp(-2.0, 2.0)
        return batch
