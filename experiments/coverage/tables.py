"""What runs.sh has written: ``tables.py RUNS --figure F.png``.

Counts of a run are compared with those of the warm start of its seed, on the same prompts.
"""

import argparse
from functools import cache
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.colours import colour_of
from rlcomp.report.coverage import compare, read_counts
from rlcomp.report.runs import finished
from rlcomp.report.statistics import estimate, paired

METHODS = {"group_mean_std": "GRPO", "pass_at_k_training": "pass@k training"}
# Levels are lengths of prompts, ">" included.
LEVELS = {
    ("sums", "5"): "sums, 4 digits",
    ("sums", "6"): "sums, 5 digits",
    ("sums", "7"): "sums, 6 digits",
    ("median", None): "median, 7 digits",
}
RIGHT = {"answer": "pass@k", "reasoning": "CoT-Pass@k"}
DRAWS = (1, 16, 256)
HARD = ("sums", "7")


@cache
def counts(runs, family, arm):
    """What each seed's last evaluation has counted."""
    return {seed: read_counts(run.directory) for seed, run in finished(runs / family / arm).items()}


@cache
def comparisons(runs, family, level, method, right):
    """Base and trained of each seed, where both have problems of this level."""
    warm, trained = (counts(runs, family, arm) for arm in ("warm", method))
    return {
        seed: compare(warm[seed], trained[seed], level=level, right=right)
        for seed in sorted(warm.keys() & trained.keys(), key=int)
        if level is None or level in {one.level for one in warm[seed].values()}
    }


def text(found, sign=""):
    """An estimate, or that there is none."""
    return found.text(sign=sign) if found else "-"


def at(points, k):
    """pass@k; at the most samples there are, where these are fewer."""
    return next((point.mean for point in points if point.k == k), points[-1].mean)


def reasoning(run, level):
    """P(CC|CA) after each step at which it was measured."""
    name = f"progress/{level}/reasoning_given_right" if level else "progress/reasoning_given_right"
    return [(row["total"], row[name]) for row in run.rows if name in row]


def table(runs):
    """Markdown: means over seeds, and what a method changed, paired by seed."""
    columns = [f"{name} {k}" for name in RIGHT.values() for k in DRAWS]
    lines = [f"| | seeds | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for (family, level), name in LEVELS.items():
        for method, called in METHODS.items():
            by = {right: comparisons(runs, family, level, method, right) for right in RIGHT}
            if method == next(iter(METHODS)):
                lines.append(row(f"**{name}**: base", by, lambda one, k: at(one.base, k)))
            lines.append(row(called, by, lambda one, k: at(one.trained, k)))
            lines.append(change(f"{called} less base", by))
    return "\n".join(lines)


def row(name, by, value):
    """A mean of each measure and k."""
    found = [
        estimate([value(one, k) for one in by[right].values()]) for right in RIGHT for k in DRAWS
    ]
    cells = [f"{each.mean:.2f}" if each else "-" for each in found]
    return f"| {name} | {len(by['answer'])} | {' | '.join(cells)} |"


def change(name, by):
    """A difference of each measure and k, with its t interval over seeds."""
    cells = []
    for right in RIGHT:
        for k in DRAWS:
            before, after = (
                {seed: at(getattr(one, which), k) for seed, one in by[right].items()}
                for which in ("base", "trained")
            )
            cells.append(text(paired(after, before), "+"))
    return f"| {name} | {len(by['answer'])} | {' | '.join(cells)} |"


def crossing_table(runs):
    """Markdown: in how many seeds the curves cross, and where."""
    head = ["", "of", "seeds", "cross downwards", "of these shown", "between k"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for (family, level), name in LEVELS.items():
        for method, called in METHODS.items():
            for right, measure in RIGHT.items():
                found = comparisons(runs, family, level, method, right)
                crossed = [each for one in found.values() if (each := downwards(one))]
                told = [each for each in crossed if each.shown]
                places = ", ".join(f"{one.before} and {one.after}" for one in told) or "-"
                cells = [f"{name}, {called}", measure, len(found), len(crossed), len(told), places]
                lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def downwards(comparison):
    """The last crossing behind which the base finds more; None if there is none."""
    sign = {point.k: point.sign for point in comparison.difference}
    found = [each for each in comparison.crossings if sign[each.before] > 0 > sign[each.after]]
    return found[-1] if found else None


def reasoning_table(runs):
    """Markdown: P(CC|CA) before and after."""
    lines = ["| P(CC\\|CA) | seeds | base | trained | trained less base |", "|---" * 5 + "|"]
    for (family, level), name in LEVELS.items():
        for method, called in METHODS.items():
            base, trained = (
                {seed: given for seed, (_, given) in ends(runs, family, level, arm).items()}
                for arm in ("warm", method)
            )
            both = base.keys() & trained.keys()
            means = (text(estimate([arm[seed] for seed in both])) for arm in (base, trained))
            change = text(paired(trained, base), "+")
            cells = [f"{name}, {called}", len(both), *means, change]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def ends(runs, family, level, arm):
    """The last step at which P(CC|CA) was measured, and its value, of each seed that has one."""
    found = finished(runs / family / arm)
    return {seed: path[-1] for seed, run in found.items() if (path := reasoning(run, level))}


def draw(runs, path):
    """RL mends the reasoning; the crossing; reasoning that decays where it is not needed."""
    figure = Figure(figsize=(11.5, 3.7), layout="constrained")
    FigureCanvasAgg(figure)
    mended, crossed, decayed = figure.subplots(1, 3)
    along(mended, runs, "sums", "5", "the reasoning is mended: sums, 4 digits")
    along(decayed, runs, "median", None, "it decays where it is not needed: median")
    for number, (method, called) in enumerate(METHODS.items(), 1):
        found = comparisons(runs, *HARD, method, "reasoning")
        if number == 1:
            curves(crossed, [one.base for one in found.values()], 0, "base")
        curves(crossed, [one.trained for one in found.values()], number, called)
    crossed.set_xscale("log", base=2)
    crossed.set(title=f"the crossing: {LEVELS[HARD]}", xlabel="k", ylabel="CoT-Pass@k", ylim=(0, 1))
    crossed.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


def along(axes, runs, family, level, title):
    """P(CC|CA) over the steps of RL: a line a run, and the mean."""
    warm = ends(runs, family, level, "warm")
    for number, (method, called) in enumerate(METHODS.items(), 1):
        found = finished(runs / family / method)
        paths = [
            [(0, warm[seed][1]), *reasoning(run, level)]
            for seed, run in found.items()
            if seed in warm
        ]
        lines(axes, paths, number, called)
    axes.set(title=title, xlabel="step of RL", ylabel="P(CC|CA)", ylim=(0, 1))
    axes.legend(frameon=False, fontsize=8)


def curves(axes, found, number, label):
    """pass@k over k."""
    lines(axes, [[(point.k, point.mean) for point in points] for points in found], number, label)


def lines(axes, paths, number, label):
    """Thin lines, and their mean over the places that all of them have."""
    for path in paths:
        axes.plot(*zip(*path, strict=True), color=colour_of(number), linewidth=0.6, alpha=0.4)
    if paths:
        # All of them have these places; a run that answers nothing right has fewer.
        rows = [*zip(*paths, strict=False)]
        means = [sum(value for _, value in each) / len(each) for each in rows]
        axes.plot(
            [each[0][0] for each in rows], means, color=colour_of(number), linewidth=2, label=label
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    for part in (table, crossing_table, reasoning_table):
        print(f"{part(arguments.runs)}\n")
    if arguments.figure:
        draw(arguments.runs, arguments.figure)


if __name__ == "__main__":
    main()
