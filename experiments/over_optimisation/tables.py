"""Gold reward against sqrt(KL): ``python tables.py RUNS|RESULTS.jsonl``."""

from __future__ import annotations


import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.files.json_lines import read_lines
from rlcomp.report.charts import colour_of
from rlcomp.report.experiment import show
from rlcomp.report.statistics import estimate, paired

MEMBERS, COEFFICIENTS = ("one", "four"), ("0", "0.03", "0.1", "0.3")
GOLD = "hacking_monitor/true"


def collect(runs):
    """A row a step of RL; KL is that of whole answers, of the policy that the step samples from."""
    found = []
    for path in sorted(runs.glob("*/*/*/metrics.jsonl")):
        members, coefficient, seed = path.parts[-4:-1]
        for row in read_lines(path):
            if row["phase"] == "rl" and GOLD in row:
                # Mean over tokens times mean tokens: the sum of an answer, k1.
                told = {
                    "kl": row["kl/reference"] * row["rollout/length"],
                    "gold": row[GOLD],
                    "proxy": row["reward/raw_score"],
                    "disagreement": row["reward/disagreement"],
                }
                head = {"members": members, "coef": coefficient, "seed": seed, "step": row["step"]}
                found.append({**head, **{key: round(value, 4) for key, value in told.items()}})
    return found


def curves(rows, members, coefficient, key):
    """Of each seed the values by step."""
    found = {}
    for row in rows:
        if (row["members"], row["coef"]) == (members, coefficient):
            found.setdefault(row["seed"], []).append(row[key])
    return {seed: np.array(values) for seed, values in found.items()}


def peak(gold, kl, draws=10_000):
    """Step, sqrt(KL) at the peak of the mean curve, with 95 % of a bootstrap over seeds."""
    gold, kl = np.stack([*gold.values()]), np.stack([*kl.values()])
    chosen = np.random.default_rng(0).integers(len(gold), size=(draws, len(gold)))
    chosen[0] = np.arange(len(gold))  # the seeds as they are
    steps = gold[chosen].mean(1).argmax(1)
    distance = np.sqrt(np.maximum(kl[chosen].mean(1)[np.arange(draws), steps], 0))
    return [(value[0], *np.quantile(value, (0.025, 0.975))) for value in (steps + 1, distance)]


def table(rows):
    """Markdown: a row an arm, over seeds."""
    lines = [
        "| members | KL coefficient | seeds | gold, start | gold, best step "
        "| gold, end | lost since | step of the peak | its sqrt(KL) | KL, end |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for members in MEMBERS:
        for coefficient in COEFFICIENTS:
            gold = curves(rows, members, coefficient, "gold")
            kl = curves(rows, members, coefficient, "kl")
            if not gold:
                continue
            (step, low, high), (at, at_low, at_high) = peak(gold, kl)
            best = {seed: values[int(step) - 1] for seed, values in gold.items()}
            end = {seed: values[-5:].mean() for seed, values in gold.items()}
            lost = paired(end, best)
            cells = [
                *(estimate([*each]).text() for each in ([v[0] for v in gold.values()],)),
                *(estimate([*each.values()]).text() for each in (best, end)),
                lost.text(sign="+") if lost else "-",
                f"{step:.0f} ({low:.0f} to {high:.0f})",
                f"{at:.1f} ({at_low:.1f} to {at_high:.1f})",
                estimate([values[-5:].mean() for values in kl.values()]).text(),
            ]
            lines.append(f"| {members} | {coefficient} | {len(gold)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ensemble(rows):
    """Gold at the end, four members minus one, paired by seed."""
    lines = []
    for coefficient in COEFFICIENTS:
        ends = [
            {seed: v[-5:].mean() for seed, v in curves(rows, m, coefficient, "gold").items()}
            for m in ("four", "one")
        ]
        if all(ends) and (gain := paired(*ends)):
            lines.append(f"four minus one, gold at the end, {coefficient}: {gain.text(sign='+')}")
    return "\n".join(lines)


def proxies(rows):
    """Change of the raw score since the first step: at the step of gold's peak, and at the end."""
    lines = [
        "| members | KL coefficient | proxy, at the peak of gold | proxy, end |",
        "|---|---|---|---|",
    ]
    for members in MEMBERS:
        for coefficient in COEFFICIENTS:
            gold = curves(rows, members, coefficient, "gold")
            if gold:
                score = risen(rows, members, coefficient)
                step = np.mean([*gold.values()], 0).argmax()
                peak, end = (
                    estimate([float(each) for each in values]).text()
                    for values in (
                        [v[step] for v in score.values()],
                        [v[-5:].mean() for v in score.values()],
                    )
                )
                lines.append(f"| {members} | {coefficient} | {peak} | {end} |")
    return "\n".join(lines)


def risen(rows, members, coefficient):
    """Of each seed the proxy less that of the first step, in Bradley-Terry log-odds."""
    found = curves(rows, members, coefficient, "proxy")
    return {seed: values - values[0] for seed, values in found.items()}


def draw(rows, path):
    """Gold above, proxy below, against sqrt(KL): thin lines are seeds, thick ones means by step."""
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 2, sharex=True, sharey="row")
    for column, members in enumerate(MEMBERS):
        panels[0, column].set_title(f"{members} reward model{'s' if members == 'four' else ''}")
        panels[1, column].set_xlabel("sqrt(KL to the start), KL in nats an answer")
        for number, coefficient in enumerate(COEFFICIENTS):
            kl = curves(rows, members, coefficient, "kl")
            gold = curves(rows, members, coefficient, "gold")
            style = {"color": colour_of(number)}
            for axes, found in zip(
                panels[:, column], (gold, risen(rows, members, coefficient)), strict=True
            ):
                for seed, values in found.items():
                    x = np.sqrt(np.maximum(kl[seed], 0))
                    axes.plot(x, values, linewidth=0.5, alpha=0.4, **style)
                if found:
                    x = np.sqrt(np.maximum(np.mean([*kl.values()], 0), 0))
                    label = f"KL coefficient {coefficient}"
                    axes.plot(x, np.mean([*found.values()], 0), linewidth=2, label=label, **style)
    panels[0, 0].set_ylabel("gold: utility")
    panels[1, 0].set_ylabel("proxy: score since the start, log-odds")
    panels[0, 1].legend(fontsize="small")
    figure.savefig(path, dpi=110)


def tables(rows):
    """All of them."""
    return "\n".join([table(rows), proxies(rows), ensemble(rows)])


if __name__ == "__main__":
    show(__doc__, collect, tables, draw)
