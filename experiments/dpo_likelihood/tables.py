"""Likelihood of chosen answers and accuracy: ``python tables.py RUNS|RESULTS.jsonl``."""

from __future__ import annotations


from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.files.json_lines import read_lines
from rlcomp.report.charts import colour_of
from rlcomp.report.experiment import show
from rlcomp.report.statistics import estimate, paired

NAMES = {
    "accuracy": "evaluation/sampled",
    "chosen": "held_out/chosen_change",
    "rejected": "held_out/rejected_change",
    "preferred": "held_out/accuracy",
}
PAIRS = {
    "late_digit": ("dpo", "dpop", "dpo_nll", "nll"),
    "own_samples": ("dpo", "dpop", "dpo_nll"),
    "fresh_samples": ("dpo",),
}


def collect(runs):
    """A row an evaluation: of the start at step 0, then of the preference phase."""
    found = []
    for path in sorted(runs.glob("start/*/metrics.jsonl")):
        last = [row for row in read_lines(path) if NAMES["accuracy"] in row][-1]
        found.append({"pairs": "start", "loss": "", "seed": path.parent.name, "step": 0})
        found[-1]["accuracy"] = round(last[NAMES["accuracy"]], 4)
    for path in sorted(runs.glob("*/*/*/metrics.jsonl")):
        pairs, loss, seed = path.parts[-4:-1]
        for row in read_lines(path):
            if row["phase"] == "preference" and all(name in row for name in NAMES.values()):
                told = {key: round(row[name], 4) for key, name in NAMES.items()}
                step = {"pairs": pairs, "loss": loss, "seed": seed, "step": row["step"]}
                found.append({**step, **told})
    return found


def at_end(rows, pairs, loss, key):
    """Of each seed the last evaluation of an arm."""
    return {row["seed"]: row[key] for row in rows if (row["pairs"], row["loss"]) == (pairs, loss)}


def table(rows):
    """Markdown: a row an arm, over seeds."""
    lines = [
        "| pairs | loss | seeds | accuracy | its change | chosen | rejected | preferred |",
        "|---|---|---|---|---|---|---|---|",
    ]
    start = at_end(rows, "start", "", "accuracy")
    for pairs, losses in PAIRS.items():
        for loss in losses:
            ends = {key: at_end(rows, pairs, loss, key) for key in NAMES}
            if not ends["accuracy"]:
                continue
            change = paired(ends["accuracy"], start)
            means = {key: estimate([*each.values()]).text() for key, each in ends.items()}
            lines.append(
                f"| {pairs} | {loss} | {len(ends['accuracy'])} | {means['accuracy']} "
                f"| {change.text(sign='+') if change else '-'} | {means['chosen']} "
                f"| {means['rejected']} | {means['preferred']} |"
            )
    return "\n".join(lines)


def draw(rows, path):
    """Of each seed the change of chosen log-probs, and accuracy, by step."""
    figure = Figure(figsize=(11, 5.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, len(PAIRS), sharex=True, sharey="row")
    for column, (pairs, losses) in zip(panels.T, PAIRS.items(), strict=True):
        column[0].set_title(pairs)
        column[1].set_xlabel("step")
        for number, loss in enumerate(losses):
            of_arm = [row for row in rows if (row["pairs"], row["loss"]) == (pairs, loss)]
            for count, seed in enumerate(sorted({row["seed"] for row in of_arm})):
                own = [row for row in of_arm if row["seed"] == seed]
                start = at_end(rows, "start", "", "accuracy").get(seed, float("nan"))
                label = loss if count == 0 else None
                for axes, key, first in zip(
                    column, ("chosen", "accuracy"), (0, start), strict=True
                ):
                    steps, values = [row["step"] for row in own], [row[key] for row in own]
                    style = {"color": colour_of(number), "linewidth": 0.8, "label": label}
                    axes.plot([0, *steps], [first, *values], **style)
        column[0].legend(fontsize="small")
    panels[0, 0].set_ylabel("chosen, held out, nats")
    panels[1, 0].set_ylabel("accuracy, sampled")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    show(__doc__, collect, table, draw)
