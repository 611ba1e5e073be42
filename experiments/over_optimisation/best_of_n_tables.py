"""Peaks of best-of-n: ``best_of_n_tables.py bon.jsonl --figure F.png``."""

from __future__ import annotations

import argparse
from itertools import combinations, product
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.files.json_lines import read_lines
from rlcomp.report.charts import colour_of
from rlcomp.report.statistics import estimate, paired

MEMBERS = ("one", "four")
DRAWS = 10_000


def stacked(rows, pairs, members, key):
    """Of an arm the values by seed, ``[seeds]`` or ``[seeds, n]``, in the order of the seeds."""
    chosen = [row for row in rows if (row["pairs"], row["members"]) == (pairs, members)]
    return np.array([row[key] for row in sorted(chosen, key=lambda row: row["seed"])])


def sizes(rows):
    """The numbers of pairs, ascending."""
    return sorted({row["pairs"] for row in rows})


def resampled(seeds):
    """Which seeds each bootstrap draw has; the first has them as they are."""
    chosen = np.random.default_rng(0).integers(seeds, size=(DRAWS, seeds))
    chosen[0] = np.arange(seeds)
    return chosen


def peaks(gold, kl):
    """Of each draw n at the peak of the mean curve, and sqrt(KL) there."""
    chosen = resampled(len(gold))
    at = gold[chosen].mean(1).argmax(1)
    return at + 1, np.sqrt(kl[chosen].mean(1)[np.arange(DRAWS), at])


def fitted(gold, kl):
    """Of each draw where ``gold = g_1 + d (a - b d)``, least squares, has its peak; R^2 of all."""
    chosen = resampled(len(gold))[:1000]
    found, fit = [], 0.0
    for number, seeds in enumerate(chosen):
        d, rise = np.sqrt(kl[seeds].mean(0)), gold[seeds].mean(0) - gold[seeds].mean(0)[0]
        columns = np.stack([d, -(d**2)], 1)
        (a, b), *_ = np.linalg.lstsq(columns, rise, rcond=None)
        found.append(a / (2 * b))
        if number == 0:
            fit = 1 - ((columns @ (a, b) - rise) ** 2).sum() / ((rise - rise.mean()) ** 2).sum()
    return np.array(found), fit


def spread(values, places):
    """A value and 95 % of its bootstrap."""
    ends = (values[0], *np.quantile(values, (0.025, 0.975)))
    first, low, high = (f"{round(float(end), places) + 0.0:.{places}f}" for end in ends)
    return f"{first} ({low} to {high})"


def text(values):
    """Mean and 95 % t interval over seeds."""
    return estimate([float(value) for value in values]).text()


def table(rows):
    """Markdown: a row an arm."""
    lines = [
        "| pairs | members | seeds | agreement | gold, n = 1 | gold, peak | gold, most "
        "| n of the peak | its sqrt(KL) | of the fit | R^2 "
        "| proxy, n = 1 | proxy, peak | proxy, most |",
        f"|{'---|' * 14}",
    ]
    for pairs, members in product(sizes(rows), MEMBERS):
        gold, kl, proxy = (stacked(rows, pairs, members, key) for key in ("gold", "kl", "proxy"))
        number, distance = peaks(gold, kl)
        fit, quality = fitted(gold, kl)
        at = number[0] - 1
        cells = [
            *(text(values) for values in (stacked(rows, pairs, members, "agreement"),)),
            *(text(gold[:, place]) for place in (0, at, -1)),
            *(spread(number, 0), spread(distance, 2), spread(fit, 2), f"{quality:.2f}"),
            *(text(proxy[:, place]) for place in (0, at, -1)),
        ]
        lines.append(f"| {pairs} | {members} | {len(gold)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def differences(rows):
    """Markdown: how far peak and end are apart between arms, the same seeds in both."""
    lines = ["| difference | peak, sqrt(KL) | gold, peak | gold, most |", "|---|---|---|---|"]
    ordered = sizes(rows)
    arms = [((b, m), (a, m)) for m in MEMBERS for a, b in combinations(ordered, 2)]
    arms += [((pairs, "four"), (pairs, "one")) for pairs in ordered]
    for arm, other in arms:
        (gold, kl), (gold_o, kl_o) = (
            [stacked(rows, *each, key) for key in ("gold", "kl")] for each in (arm, other)
        )
        moved = peaks(gold, kl)[1] - peaks(gold_o, kl_o)[1]
        cells = [spread(moved, 2)]
        for values, values_o in ((gold.max(1), gold_o.max(1)), (gold[:, -1], gold_o[:, -1])):
            found = paired(*(dict(enumerate(map(float, each))) for each in (values, values_o)))
            cells.append(found.text(sign="+") if found else "-")
        lines.append(f"| {arm[0]} {arm[1]} less {other[0]} {other[1]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(rows, path):
    """Gold and proxy against sqrt(KL): thin lines are seeds, thick ones means, dots the peaks."""
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharex=True)
    for axes, key in zip(panels, ("gold", "proxy"), strict=True):
        for (number, pairs), members in product(enumerate(sizes(rows)), MEMBERS):
            values = stacked(rows, pairs, members, key)
            x = np.sqrt(stacked(rows, pairs, members, "kl").clip(0))
            style = {"color": colour_of(number), "linestyle": "-" if members == "one" else "--"}
            for seed in range(len(values)):
                axes.plot(x[seed], values[seed], linewidth=0.4, alpha=0.3, **style)
            mean, middle = values.mean(0), np.sqrt((x**2).mean(0))
            label = f"{pairs:,} pairs, {'one' if members == 'one' else 'least of four'}"
            axes.plot(middle, mean, linewidth=1.8, label=label, **style)
            if key == "gold":
                at = mean.argmax()
                axes.plot(middle[at], mean[at], "o", color=style["color"])
        axes.set_xlabel("sqrt(KL of best-of-n), KL in nats an answer")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("gold of the selected answer")
    panels[1].set_ylabel("its proxy, standard deviations")
    panels[0].legend(fontsize="x-small")
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    rows = read_lines(given.results)
    print(table(rows))
    print(differences(rows))
    if given.figure:
        draw(rows, given.figure)


if __name__ == "__main__":
    main()
