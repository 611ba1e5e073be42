"""Expert of the track."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component


class TrackDriver(Component):
    """Expert that steers to the middle of the road: ``u = clip(k - y - 2 h, -2, 2)``.

    ``u`` is the action, ``y`` the offset from the middle in half widths of the road, ``h`` the
    heading relative to the road (radians) and ``k`` the curvature of the road, as in
    :class:`components.worlds.track.environment.Track`.

    Reads ``observation`` ``[N, 3]``: ``y``, ``h`` and ``k``. Writes ``action`` ``[N, 1]``: ``u``.
    """

    reads = ("observation",)
    writes = ("action",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the action."""
        offset, heading, curvature = batch["observation"].split(1, dim=-1)
        batch["action"] = (curvature - offset - 2 * heading).clamp(-2.0, 2.0)
        return batch
