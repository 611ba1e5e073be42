"""TensorBoard tracker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlcomp.errors import require
from rlcomp.files.json_lines import finite
from rlcomp.trackers.tracker import Sample


class TensorBoard:
    """TensorBoard event files under ``directory/tensorboard`` of a run (extra ``plots``)."""

    name = "tensorboard"

    def __init__(self, *, directory: str) -> None:
        self.directory = directory
        require("tensorboard", "plots")
        self.writer: Any = None

    def start(self, phases: Mapping[str, int], done: int) -> None:
        """Open an event file; a resumed run purges the steps after its checkpoint."""
        del phases
        from torch.utils.tensorboard import SummaryWriter

        folder = str(Path(self.directory) / "tensorboard")
        self.writer = SummaryWriter(folder, purge_step=done + 1 if done else None)

    def log(
        self,
        total: int,
        phase: str,
        step: int,
        metrics: Mapping[str, float],
        samples: Sequence[Sample],
    ) -> None:
        """Log one step."""
        del phase, step
        for name, value in metrics.items():
            self.writer.add_scalar(name, value, total)
        if samples:
            text = json.dumps([finite(sample) for sample in samples], indent=1)
            self.writer.add_text("samples", text, total)
        self.writer.flush()  # a killed run cannot flush

    def phase_ended(self, total: int, ended: Mapping[str, Any]) -> None:
        """Write the reason as a text."""
        self.writer.add_text(f"ended/{ended['phase']}", str(ended["reason"]), total)

    def position(self) -> dict[str, Any]:
        """Return an empty position: every row has its step."""
        return {}

    def rewind(self, position: dict[str, Any]) -> None:
        """Do nothing: ``start`` purges the later steps."""

    def finish(self, error: BaseException | None = None) -> None:
        """Write the error as a text, flush and close."""
        if self.writer is not None:
            if error is not None:
                self.writer.add_text("error", f"{type(error).__name__}: {error}")
            self.writer.close()

    @classmethod
    @contextmanager
    def outlive(cls, settings: Mapping[str, Any]) -> Iterator[Callable[[BaseException], None]]:
        """Yield a function that writes the error of a dead run into a new event file."""

        def close(error: BaseException) -> None:
            tracker = cls(directory=str(settings["directory"]))
            tracker.start({}, 0)
            tracker.finish(error)

        yield close
