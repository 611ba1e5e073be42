"""Summary of a finished run: text, learning curve, responses before and after."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from rlcomp.files.atomic_write import atomic_write
from rlcomp.files.json_lines import read_metrics
from rlcomp.report.figures import run_figure
from rlcomp.report.returns import objectives_of
from rlcomp.report.run_files import describe_early_end, read_early_ends, read_samples
from rlcomp.trackers.metric_names import ACCURACIES, held_out_rewards

CURVES = {
    "reward/mean": "reward",
    "evaluation/sampled": "held-out accuracy, sampled",
    "evaluation/greedy": "held-out accuracy, greedy",
    "episode/return": "episode return",
}

_MIN_PREFIX = 20  # characters of the shortest common beginning of prompts that a table omits


def summarise(directory: str | Path) -> str:
    """Draw ``curve.png``, with several objectives ``front.png``, and describe the run in words.

    Returns:
        The final text of a run. After an evaluation the last line is ``held-out accuracy: sampled
        0.93 greedy 0.99``, or for a reward without verdicts ``held-out mean reward: ...``.
    """
    directory = Path(directory)
    # Without nulls: a metric that was not finite.
    rows = [_numbers(row) for row in read_metrics(directory / "metrics.jsonl")]
    if not rows:
        return f"{directory}: the run has no metrics"
    parts = [_describe_training(rows), *map(describe_early_end, read_early_ends(directory))]
    for file in pictures(directory):
        front = f"front of {', '.join(objectives_of(rows))}"
        parts.append(f"{'learning curve' if file.name == 'curve.png' else front}: {file}")
    parts.append(f"metrics, samples, checkpoints: {directory}")
    answers = [row for row in read_samples(directory) if "tokens" not in row]
    parts += [_format_table(answers), _describe_accuracy(rows)]
    return "\n".join(part for part in parts if part)


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def pictures(directory: Path) -> list[Path]:
    """Draw ``curve.png``, and ``front.png`` for several objectives; return the drawn files."""
    rows = read_metrics(directory / "metrics.jsonl")
    files = {directory / "curve.png": _draw_curve, directory / "front.png": _draw_front}
    return [file for file, draw in files.items() if draw(rows, file)]


def _describe_training(rows: list[dict[str, Any]]) -> str:
    seconds = sum(row.get("time/step", 0.0) for row in rows)
    tokens = sum(row.get("rollout/tokens", 0.0) for row in rows)
    text = f"{len(rows)} steps in {seconds:.0f} s of training"
    text += f", {tokens:,.0f} tokens sampled." if tokens else "."
    text += "".join(_describe_change(name, rows) for name in ("reward/mean", "episode/return"))
    accuracy_rows = _accuracy_rows(rows)
    if len(accuracy_rows) > 1:
        first, last = accuracy_rows[0], accuracy_rows[-1]
        text += (
            f" Held-out accuracy: sampled {first['evaluation/sampled']:.2f} after "
            f"{first['phase']}, "
            f"{last['evaluation/sampled']:.2f} now (95 % interval "
            f"{last['evaluation/sampled_low']:.2f}-{last['evaluation/sampled_high']:.2f}); greedy "
            f"{first['evaluation/greedy']:.2f}, {last['evaluation/greedy']:.2f} now."
        )
    return text


def _describe_change(name: str, rows: list[dict[str, Any]]) -> str:
    """Describe a number's first and last value in each phase, since phases may differ in reward."""
    values_of: dict[str, list[float]] = {}
    for row in rows:
        if name in row:
            values_of.setdefault(row["phase"], []).append(row[name])
    parts = [
        f"from {values[0]:.3f} to {values[-1]:.3f}{f' in {phase}' if len(values_of) > 1 else ''}"
        for phase, values in values_of.items()
    ]
    return f" {CURVES[name].capitalize()} went {', '.join(parts)}." if parts else ""


def _accuracy_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with both accuracies, and no held-out mean rewards."""
    accuracies = {*ACCURACIES}
    return [row for row in rows if accuracies <= row.keys() and not held_out_rewards(row)]


def _describe_accuracy(rows: list[dict[str, Any]]) -> str:
    """Describe the last accuracies, or the mean rewards of a reward without verdicts."""
    reward_rows = [(row, names) for row in rows if (names := held_out_rewards(row))]
    if reward_rows:
        row, names = reward_rows[-1]
        means = ", ".join(f"{word} {row[name]:.3f}" for name, word in names.items())
        return f"held-out mean reward: {means}"
    accuracy_rows = _accuracy_rows(rows)
    if not accuracy_rows:
        return ""
    sampled, greedy = (accuracy_rows[-1][name] for name in ACCURACIES)
    return f"held-out accuracy: sampled {sampled:.2f} greedy {greedy:.2f}"


def _format_table(samples: list[dict[str, Any]]) -> str:
    """Tabulate the same held-out prompts, answered at the first evaluation and at the last.

    A prompt that the first evaluation lacks has its last answer in both columns.
    """
    if not samples:
        return ""
    first, last = samples[0]["total"], samples[-1]["total"]
    first_responses = {row["prompt"]: row for row in samples if row["total"] == first}
    last_rows = [row for row in samples if row["total"] == last]
    table = Table(title="held-out prompts, answered greedily", box=box.SIMPLE)
    first_column = [f"after step {first}"] if first != last else []
    for column in ("prompt", *first_column, f"after step {last}", "right answer"):
        table.add_column(column, overflow="ellipsis", no_wrap=True, min_width=12, max_width=36)
    start = _common_prefix_length([row["prompt"] for row in last_rows])
    for row in last_rows:
        earlier = first_responses.get(row["prompt"], row)
        answers = [_mark_response(sample) for sample in ([earlier, row] if first_column else [row])]
        prompt = "…" * (start > 0) + _escape(row["prompt"][start:])
        table.add_row(prompt, *answers, _escape(row.get("answer") or ""))
    # Without markup, since a model may answer "[/]".
    console = Console(file=io.StringIO(), width=120, markup=False, emoji=False)
    console.print(table)
    return console.file.getvalue().strip("\n")  # type: ignore[attr-defined,no-any-return]


def _common_prefix_length(prompts: list[str]) -> int:
    """Return the length of the common beginning of texts in whole words.

    0 if it is shorter than 20 characters, or if the last text in alphabetical order begins with the
    whole first one. What these two share, all texts share.
    """
    first, last = min(prompts), max(prompts)
    same = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
    length = max(first[:same].rfind(space) for space in (" ", "\n")) + 1
    return length if length >= _MIN_PREFIX else 0


def _mark_response(row: dict[str, Any]) -> str:
    if row.get("correct") is None:
        return _escape(row["response"])
    return f"{'✓' if row['correct'] else '✗'} {_escape(row['response'])}"


def _escape(text: str) -> str:
    """Write a text on one line, with all control characters escaped."""
    return repr(text)[1:-1]


def _draw_front(rows: list[dict[str, Any]], path: Path) -> bool:
    """Draw the returns of a run with several objectives; return False if there are none."""
    names = objectives_of(rows)
    figure = run_figure(rows, names) if len(names) > 1 else None
    if figure is None:
        return False
    with atomic_write(path) as draft:
        figure.savefig(draft, dpi=150, format="png")
    return True


def _draw_curve(rows: list[dict[str, Any]], path: Path) -> bool:
    """Draw the recorded curves, with a line where a phase begins; return False without curves."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    drawn = False
    reward_labels = {
        name: f"held-out {word}" for row in rows for name, word in held_out_rewards(row).items()
    }
    hidden = ACCURACIES if reward_labels else ()
    for name, label in (CURVES | reward_labels).items():
        if name in hidden:
            continue
        points = [(row["total"], row[name]) for row in rows if name in row]
        if points:
            marker = "o" if name.startswith("evaluation") else None
            axes.plot(*zip(*points, strict=True), label=label, marker=marker, markersize=4)
            drawn = True
    if not drawn:
        return False
    for phase in dict.fromkeys(row["phase"] for row in rows):
        start = next(row["total"] for row in rows if row["phase"] == phase) - 1
        axes.axvline(start, color="0.8", linewidth=1)
        axes.text(start, 1.01, f" {phase}", transform=axes.get_xaxis_transform(), color="0.4")
    axes.set_xlabel("step")
    label = "reward" if reward_labels else "share of answers, reward"
    axes.set_ylabel(label if "episode/return" not in rows[-1] else "return")
    axes.legend()
    axes.grid(alpha=0.3)
    with atomic_write(path) as draft:
        figure.savefig(draft, dpi=150, format="png")
    return True
