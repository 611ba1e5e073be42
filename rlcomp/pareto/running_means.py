"""Averages that follow a run, by name."""

from __future__ import annotations

from torch import nn


class RunningMeans(nn.Module):
    """Exponential moving averages by name; the first value is where one starts.

    Which names there are shows in the run, so they are a run state, not buffers.

    Args:
        decay: weight of the past; 0 keeps the last value only.

    Examples:
        >>> means = RunningMeans(0.5)
        >>> means.update("right", 1.0), means.update("right", 0.0)
        (1.0, 0.5)
        >>> means.get("short") is None
        True
    """

    def __init__(self, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.values: dict[str, float] = {}

    def get(self, name: str) -> float | None:
        """The average now; None before the first value."""
        return self.values.get(name)

    def update(self, name: str, value: float) -> float:
        """Take in a value; returns the average then."""
        past = self.values.get(name, value)
        self.values[name] = self.decay * past + (1 - self.decay) * value
        return self.values[name]

    def run_state(self) -> dict[str, float]:
        """The averages, for a checkpoint."""
        return dict(self.values)

    def load_run_state(self, state: dict[str, float]) -> None:
        """Go on from such a state."""
        self.values = dict(state)
