"""How many pairs a planted bias of a judge needs to be found: ``power.py --figure F.png``."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor

from rlcomp.functional.statistics import logistic_regression

SIZES = (25, 50, 100, 200, 400, 800, 1600)
STRENGTHS = (0.2, 0.4, 0.8)
BIASES = ("position", "length", "self_preference")
# Correlation of the difference of lengths with that of qualities: better answers are longer.
CORRELATION = 0.3
Z = 1.96


def simulated(
    pairs: int, planted: dict[str, float], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Columns (ones, quality, length, own) of both orders, and verdicts drawn for them."""
    quality, noise = torch.randn(2, pairs, generator=generator, dtype=torch.float64)
    length = CORRELATION * quality + (1 - CORRELATION**2) ** 0.5 * noise
    own = torch.randint(-1, 2, (pairs,), generator=generator).double()
    one = torch.stack([quality, length, own], dim=1)
    rows = torch.cat([torch.ones(2 * pairs, 1).double(), torch.cat([one, -one])], dim=1)
    weights = [planted.get("position", 0.0), 1.0]
    weights += [planted.get("length", 0.0), planted.get("self_preference", 0.0)]
    odds = rows @ torch.tensor(weights, dtype=torch.float64)
    drawn = torch.rand(2 * pairs, generator=generator, dtype=torch.float64)
    return rows, (drawn < torch.sigmoid(odds)).double()


def alarms(pairs: int, planted: dict[str, float], generator: torch.Generator) -> dict[str, bool]:
    """Which biases the regression finds, and whether the naive test of length finds one."""
    rows, verdicts = simulated(pairs, planted, generator)
    fit = logistic_regression(rows, verdicts, torch.arange(pairs).repeat(2))
    position, _, length, own = (fit.coefficients.abs() > Z * fit.errors).tolist()
    longer = (verdicts == (rows[:, 2] > 0).double()).double()
    naive = abs(float(longer.mean()) - 0.5) > Z * (0.25 / len(longer)) ** 0.5
    return {"position": position, "length": length, "self_preference": own, "naive": naive}


def rate(test: str, pairs: int, planted: dict[str, float], runs: int, seed: int) -> float:
    """Share of the runs in which a test says that there is a bias."""
    generator = torch.Generator().manual_seed(seed)
    return sum(alarms(pairs, planted, generator)[test] for _ in range(runs)) / runs


def draw(
    found: dict[tuple[str, float], list[float]], none: dict[str, list[float]], path: Path
) -> None:
    """A panel a bias: power against the number of pairs, and false alarms."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(9, 3), sharey=True)
    for axis, bias in zip(axes, BIASES, strict=True):
        for strength in STRENGTHS:
            axis.plot(SIZES, found[bias, strength], marker=".", label=f"b = {strength}")
        axis.plot(SIZES, none[bias], color="0.5", linestyle="--", label="no bias")
        if bias == "length":
            axis.plot(SIZES, none["naive"], color="C3", linestyle=":", label="no bias, naive")
        axis.set(xscale="log", xlabel="pairs", title=bias.replace("_", "-"), ylim=(0, 1.02))
        axis.axhline(0.9, color="0.85", linewidth=0.8)
    axes[0].set_ylabel("share of judges found biased")
    figure.legend(
        *axes[1].get_legend_handles_labels(), loc="center left", bbox_to_anchor=(0.92, 0.5)
    )
    figure.savefig(path, dpi=120, bbox_inches="tight")


def table(name: str, cells: list[float]) -> None:
    """Print a row."""
    print(f"| {name} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")


def main() -> None:
    """Print the tables, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(f"| planted | {' | '.join(map(str, SIZES))} |")
    print(f"|---{'|---' * len(SIZES)}|")
    none = {
        test: [rate(test, size, {}, given.runs, given.seed) for size in SIZES]
        for test in (*BIASES, "naive")
    }
    for test, cells in none.items():
        table(f"none, test of {test}", cells)
    found = {}
    for bias in BIASES:
        for strength in STRENGTHS:
            cells = [rate(bias, n, {bias: strength}, given.runs, given.seed + 1) for n in SIZES]
            found[bias, strength] = cells
            table(f"{bias}, b = {strength}", cells)
    if given.figure:
        draw(found, none, given.figure)


if __name__ == "__main__":
    main()
