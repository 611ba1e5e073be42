"""Share of the teacher's gap that each arm recovers: ``tables.py RUNS --figure F.png``."""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np

from rlcomp.files.json_lines import read_lines

ARMS = ("reverse", "forward", "top4", "advantage", "samples", "grpo")
# Sampled tokens at which the arms are compared, in thousands.
MARKS = (36, 71, 107, 179)


def curve(run: Path) -> list[tuple[float, float, float]]:
    """Of each evaluation: tokens sampled for training by then, accuracy, seconds of steps."""
    tokens, seconds, found = 0.0, 0.0, []
    for row in read_lines(run / "metrics.jsonl"):
        tokens += row.get("rollout/tokens", 0.0)
        seconds += row.get("time/step", 0.0)
        if "evaluation/sampled" in row:
            found.append((tokens, row["evaluation/sampled"], seconds))
    return found


def at(points: list[tuple[float, float]], tokens: float) -> float:
    """The share at so many tokens, between two evaluations by a line."""
    for (before, low), (after, high) in pairwise(points):
        if before <= tokens <= after:
            return low + (high - low) * (tokens - before) / (after - before)
    return points[-1][1] if tokens <= 1.02 * points[-1][0] else float("nan")


def first(points: list[tuple[float, float]], share: float) -> float:
    """Tokens at the first evaluation that reaches a share; NaN if none does."""
    return next((tokens for tokens, found in points if found >= share), float("nan"))


def recovered(root: Path, arm: str, seed: str) -> list[tuple[float, float]]:
    """Tokens and share of the gap between student and teacher (NaN without one), from the start."""
    start = curve(root / "start" / seed)[-1][1]
    teacher = curve(root / "teacher" / seed)[-1][1]
    gap = teacher - start
    run = curve(root / arm / seed)
    return [(0.0, 0.0), *((t, (a - start) / gap if gap else float("nan")) for t, a, _ in run)]


def draw(root: Path, figure: Path) -> None:
    """A line a run, a colour an arm."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(figsize=(6, 3.5))
    for number, arm in enumerate(ARMS):
        for place, run in enumerate(sorted((root / arm).iterdir())):
            tokens, shares = zip(*recovered(root, arm, run.name), strict=True)
            named = {"label": arm} if place == 0 else {}
            thousands = [t / 1e3 for t in tokens]
            axes.plot(thousands, shares, color=f"C{number}", linewidth=0.8, **named)
    axes.set(xlabel="sampled tokens, thousands", ylabel="share of the gap", ylim=(-0.1, 1.05))
    axes.axhline(0.9, color="0.8", linewidth=0.8)
    axes.legend()
    plt.savefig(figure, dpi=120, bbox_inches="tight")


def table(root: Path) -> None:
    """Print a row an arm: mean and standard deviation over the seeds."""
    marks = " | ".join(f"{mark} k" for mark in MARKS)
    print(f"| arm | seeds | {marks} | tokens to .90 | s / 100 k tokens |")
    for arm in ARMS:
        runs = []
        for run in sorted((root / arm).iterdir()):
            points = recovered(root, arm, run.name)
            tokens, _, seconds = curve(run)[-1]
            runs.append((points, seconds / tokens * 1e5))
        cells = [[at(points, 1e3 * mark) for points, _ in runs] for mark in MARKS]
        shown = [f"{np.mean(c):.2f} ± {np.std(c, ddof=1) if len(c) > 1 else 0:.2f}" for c in cells]
        reached = [first(points, 0.9) for points, _ in runs]
        told = ", ".join("-" if n != n else f"{n / 1e3:.0f} k" for n in reached)
        cost = np.mean([cost for _, cost in runs])
        print(f"| {arm} | {len(runs)} | {' | '.join(shown)} | {told} | {cost:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    table(given.runs)
    if given.figure:
        draw(given.runs, given.figure)


if __name__ == "__main__":
    main()
