"""Named exponential moving averages."""

from __future__ import annotations

from torch import nn

from rlcomp.checkpoint.state_fields import field


class RunningMeans(nn.Module):
    """Named exponential moving averages (EMA), initialised with the first value.

    The names are known only during the run: hence the averages are run state and not buffers.

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
        """Return the current average; None before the first value."""
        return self.values.get(name)

    def update(self, name: str, value: float) -> float:
        """Update with a value; return the new average."""
        past = self.values.get(name, value)
        self.values[name] = self.decay * past + (1 - self.decay) * value
        return self.values[name]

    def run_state(self) -> dict[str, float]:
        """Return the averages, for a checkpoint."""
        return dict(self.values)

    def load_run_state(self, state: dict[str, float]) -> None:
        """Restore the averages from a checkpoint."""
        self.values = {name: field(state, name, float) for name in state}
