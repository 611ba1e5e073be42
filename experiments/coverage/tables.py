"""What runs.sh has written: ``tables.py RUNS --figure F.png``.

Counts of a run are compared with those of the warm start of its seed, on the same prompts.
"""

import argparse
from functools import cache
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.charts import colour_of
from rlcomp.report.coverage import compare, read_counts
from rlcomp.report.runs import finished
from rlcomp.report.statistics import estimate, paired

METHODS = {"group_mean_std": "GRPO", "pass_at_k_training": "pass@k training"}
# Of a family's lengths the one that the base of a seed gets right least often, and so on.
LEVELS = {
    ("sums", 2): "sums, easiest length",
    ("sums", 1): "sums, middle length",
    ("sums", 0): "sums, hardest length",
    ("median", 0): "median",
}
RIGHT = {"answer": "pass@k", "reasoning": "CoT-Pass@k"}
DRAWS = (1, 16, 256)
MIDDLE, HARD, UNNEEDED = ("sums", 1), ("sums", 0), ("median", 0)


@cache
def counts(runs, family, arm):
    """What each seed's last evaluation has counted."""
    return {seed: read_counts(run.directory) for seed, run in finished(runs / family / arm).items()}


@cache
def level(runs, family, rank, seed):
    """The length of this rank by CoT-Pass@1 of the base; None if it has too few lengths."""
    rates = {}
    for one in counts(runs, family, "warm")[seed].values():
        rates.setdefault(one.level, []).append(one.d / one.n)
    ordered = sorted(rates, key=lambda length: sum(rates[length]) / len(rates[length]))
    return ordered[rank] if rank < len(ordered) else None


@cache
def comparisons(runs, family, rank, method, right):
    """Base and trained of each seed, where there are problems of this rank."""
    warm, trained = (counts(runs, family, arm) for arm in ("warm", method))
    return {
        seed: compare(warm[seed], trained[seed], level=length, right=right)
        for seed in sorted(warm.keys() & trained.keys(), key=int)
        if (length := level(runs, family, rank, seed))
    }


def text(found, sign=""):
    """An estimate, or that there is none."""
    return found.text(sign=sign) if found else "-"


def at(points, k):
    """pass@k; at the most samples there are, where these are fewer."""
    return next((point.mean for point in points if point.k == k), points[-1].mean)


def reasoning(run, length):
    """P(CC|CA) after each step at which it was measured."""
    # A family of one length has no levels.
    name, every = (f"progress/{each}reasoning_given_right" for each in (f"{length}/", ""))
    return [(row["total"], row.get(name, row[every])) for row in run.rows if every in row]


def table(runs):
    """Markdown: means over seeds, and differences paired by seed."""
    columns = [f"{name} {k}" for name in RIGHT.values() for k in DRAWS]
    lines = [f"| | seeds | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for (family, rank), name in LEVELS.items():
        first = {}
        for method, called in METHODS.items():
            by = {right: comparisons(runs, family, rank, method, right) for right in RIGHT}
            if method == next(iter(METHODS)):
                lines.append(row(f"**{name}**: base", by, lambda one, k: at(one.base, k)))
            lines.append(row(called, by, lambda one, k: at(one.trained, k)))
            lines.append(change(f"{called} less base", by, by))
            if first:
                lines.append(change(f"{called} less GRPO", by, first, "trained"))
            first = first or by
    return "\n".join(lines)


def row(name, by, value):
    """A mean of each measure and k."""
    found = [
        estimate([value(one, k) for one in by[right].values()]) for right in RIGHT for k in DRAWS
    ]
    cells = [f"{each.mean:.2f}" if each else "-" for each in found]
    return f"| {name} | {len(by['answer'])} | {' | '.join(cells)} |"


def change(name, now, before, curve="base"):
    """A difference of each measure and k, with its t interval over seeds."""
    cells = [
        text(
            paired(
                {seed: at(one.trained, k) for seed, one in now[right].items()},
                {seed: at(getattr(one, curve), k) for seed, one in before[right].items()},
            ),
            "+",
        )
        for right in RIGHT
        for k in DRAWS
    ]
    return f"| {name} | {len(now['answer'])} | {' | '.join(cells)} |"


def crossing_table(runs):
    """Markdown: in how many seeds the curves cross, and where."""
    head = ["", "of", "seeds", "cross downwards", "of these shown", "between k"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for (family, rank), name in LEVELS.items():
        for method, called in METHODS.items():
            for right, measure in RIGHT.items():
                found = comparisons(runs, family, rank, method, right)
                crossed = [each for one in found.values() if (each := downwards(one))]
                told = [each for each in crossed if each.significant]
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
    for (family, rank), name in LEVELS.items():
        for method, called in METHODS.items():
            base, trained = (
                {seed: given for seed, (_, given) in ends(runs, family, rank, arm).items()}
                for arm in ("warm", method)
            )
            both = base.keys() & trained.keys()
            means = (text(estimate([arm[seed] for seed in both])) for arm in (base, trained))
            change = text(paired(trained, base), "+")
            cells = [f"{name}, {called}", len(both), *means, change]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def ends(runs, family, rank, arm):
    """The last step at which P(CC|CA) was measured, and its value, of each seed that has one."""
    return {seed: path[-1] for seed, path in paths(runs, family, rank, arm).items() if path}


def paths(runs, family, rank, arm):
    """P(CC|CA) of each seed along the way."""
    warm, found = counts(runs, family, "warm"), finished(runs / family / arm)
    return {
        seed: reasoning(run, level(runs, family, rank, seed))
        for seed, run in found.items()
        if seed in warm
    }


def draw(runs, path):
    """RL mends the reasoning; the crossing; reasoning that decays where it is not needed."""
    figure = Figure(figsize=(11.5, 3.7), layout="constrained")
    FigureCanvasAgg(figure)
    mended, crossed, decayed = figure.subplots(1, 3)
    along(mended, runs, *MIDDLE, "the reasoning is mended")
    along(decayed, runs, *UNNEEDED, "it decays where it is not needed")
    for number, (method, called) in enumerate(METHODS.items(), 1):
        found = comparisons(runs, *HARD, method, "reasoning")
        if number == 1:
            curves(crossed, [one.base for one in found.values()], 0, "base")
        curves(crossed, [one.trained for one in found.values()], number, called)
    crossed.set_xscale("log", base=2)
    crossed.set(title=f"the crossing\n{LEVELS[HARD]}", xlabel="k", ylabel="CoT-Pass@k", ylim=(0, 1))
    figure.savefig(path, dpi=130)


def along(axes, runs, family, rank, title):
    """P(CC|CA) over the steps of RL: a line a run, and the mean."""
    warm = ends(runs, family, rank, "warm")
    for number, (method, called) in enumerate(METHODS.items(), 1):
        found = paths(runs, family, rank, method)
        lines(
            axes, [[(0, warm[s][1]), *found[s]] for s in found.keys() & warm.keys()], number, called
        )
    axes.set(title=f"{title}\n{LEVELS[family, rank]}", xlabel="step of RL", ylabel="P(CC|CA)")
    axes.set_ylim(0, 1)


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
        axes.legend(frameon=False, fontsize=8)


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
