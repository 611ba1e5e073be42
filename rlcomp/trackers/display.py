"""The live display: phase, step, reward, accuracies, KL, tokens per second, time left."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from rlcomp.trackers.metric_names import ACCURACIES, held_out_rewards

# Labels by metric; metrics that a run does not record are left out.
METRIC_LABELS = {
    "reward/mean": "reward",
    "evaluation/sampled": "sampled",
    "evaluation/greedy": "greedy",
    "kl/reference": "KL",
    "loss/sft": "loss",
    "episode/return": "return",
}
# Interval of the lines without a terminal.
LINE_SECONDS = 10.0


class Display:
    """Display of a run's progress: a live bar on a terminal, else a line every ten seconds.

    Args:
        seed: seed of the run, shown at the start.
        console: output; None: standard output.
    """

    name = "display"

    def __init__(self, *, seed: int, console: Console | None = None) -> None:
        self.console = console or Console()
        self.seed = seed
        self.latest: dict[str, float] = {}
        self.live: Live | None = None
        self.line = Text()
        self.tasks: dict[str, TaskID] = {}
        self.last_print = 0.0  # time.monotonic() of the last line

    def start(self, phases: Mapping[str, int], done: int) -> None:
        """Show every phase and its finished steps."""
        self.phases = dict(phases)
        plan = ", then ".join(f"{name} for {steps} steps" for name, steps in phases.items())
        resumed = f", continued after step {done}" if done else ""
        self.console.print(f"seed {self.seed}: {plan}{resumed}", highlight=False)
        if not self.console.is_terminal:
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TextColumn("step {task.completed}/{task.total}, left"),
            TimeRemainingColumn(),
        )
        self.bars = Progress(*columns, console=self.console)
        for name, steps in phases.items():
            before = min(done, steps)
            done -= before
            self.tasks[name] = self.bars.add_task(name, total=steps, completed=before, start=False)
        self.live = Live(Group(self.bars, self.line), console=self.console)
        self.live.start()

    def log(
        self,
        total: int,
        phase: str,
        step: int,
        metrics: Mapping[str, float],
        samples: Sequence[Mapping[str, object]],
    ) -> None:
        """Show the metrics of a step."""
        del total, samples
        if step == 1:  # values of an earlier phase are obsolete
            self.latest = {k: v for k, v in self.latest.items() if k.startswith("evaluation/")}
        names = [*METRIC_LABELS, *held_out_rewards(metrics)]
        self.latest |= {name: metrics[name] for name in names if name in metrics}
        text = self._text(metrics)
        if self.live is not None:
            self.bars.start_task(self.tasks[phase])
            self.bars.update(self.tasks[phase], completed=step)
            self.line.plain = text
        elif time.monotonic() - self.last_print > LINE_SECONDS or step == self.phases[phase]:
            self.last_print = time.monotonic()
            line = f"{phase} {step}/{self.phases[phase]}  {text}"
            self.console.print(line, highlight=False, soft_wrap=True)

    def phase_ended(self, total: int, ended: Mapping[str, Any]) -> None:
        """Print the reason of an early end of a phase."""
        del total
        end = f"{ended['phase']} ended after step {ended['step']} of {ended['steps']}"
        self.console.print(f"{end}: {ended['reason']}", highlight=False, soft_wrap=True)

    def _text(self, metrics: Mapping[str, float]) -> str:
        """Return the latest values with their labels, and the tokens per second of this step."""
        rewards = held_out_rewards(self.latest)
        hidden = ACCURACIES if rewards else ()
        labels = {name: text for name, text in METRIC_LABELS.items() if name not in hidden}
        labels |= rewards
        values = [
            f"{label} {self.latest[name]:.3f}"
            for name, label in labels.items()
            if name in self.latest
        ]
        if "rollout/tokens" in metrics:
            values.append(f"{metrics['rollout/tokens'] / metrics['time/step']:,.0f} tok/s")
        return "  ".join(values)

    def position(self) -> dict[str, Any]:
        """Return the latest values."""
        return {"latest": self.latest}

    def rewind(self, position: dict[str, Any]) -> None:
        """Restore the latest values."""
        self.latest = dict(position.get("latest", {}))

    def finish(self, error: BaseException | None = None) -> None:
        """Restore the terminal; the command line reports the error."""
        if self.live is not None:
            self.live.stop()
