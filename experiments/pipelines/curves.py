"""Held-out accuracy of published pipelines by step: ``curves.py RUNS|RESULTS.jsonl``."""

from __future__ import annotations

from itertools import groupby
from statistics import mean

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.files.json_lines import read_lines
from rlcomp.report.charts import colour_of
from rlcomp.report.experiment import show

NAMES = {
    "instruct_gpt": "InstructGPT",
    "llama3": "Llama 3",
    "r1_zero": "R1-Zero",
    "r1": "R1",
    "magistral": "Magistral",
    "deepseek_v32_specialists": "DeepSeek-V3.2",
    "constitutional": "Constitutional AI",
    "self_rewarding": "Self-Rewarding",
    "mid_training": "mid-training and RL",
}


def collect(runs):
    """A row an evaluation: its step counted over all phases, and where each phase ends."""
    found = []
    for recipe in NAMES:
        for path in sorted((runs / recipe).glob("*/metrics.jsonl")):
            for step, row in enumerate(read_lines(path), start=1):
                if "evaluation/sampled" in row:
                    value = round(row["evaluation/sampled"], 4)
                    place = {"recipe": recipe, "seed": path.parent.name, "phase": row["phase"]}
                    found.append({**place, "step": step, "sampled": value})
    return found


def ends(rows, recipe):
    """The last step at which each phase was evaluated, in order."""
    return {row["phase"]: row["step"] for row in rows if row["recipe"] == recipe}


def curves(rows, recipe):
    """Of each seed its evaluations."""
    own = [row for row in rows if row["recipe"] == recipe]
    return {seed: [*each] for seed, each in groupby(own, key=lambda row: row["seed"])}


def table(rows):
    """Markdown: accuracy at the first evaluation of a run, the highest and the last, by seed."""
    lines = [
        "| pipeline | seeds | first | after each phase, mean of the seeds | last, by seed |",
        f"|{'---|' * 5}",
    ]
    for recipe, name in NAMES.items():
        held = [*curves(rows, recipe).values()]
        if not held:
            continue
        first = mean(each[0]["sampled"] for each in held)
        phases = []
        for phase, step in ends(rows, recipe).items():
            at = [row["sampled"] for each in held for row in each if row["step"] == step]
            phases.append(f"`{phase}` {mean(at):.2f}")
        after = ", ".join(phases)
        last = " ".join(f"{each[-1]['sampled']:.2f}" for each in held)
        lines.append(f"| {name} | {len(held)} | {first:.2f} | {after} | {last} |")
    return "\n".join(lines)


def draw(rows, path):
    """A panel a pipeline: a line a seed, dotted lines where phases end."""
    figure = Figure(figsize=(10, 8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(3, 3, sharey=True)
    for axes, (recipe, name) in zip(panels.flat, NAMES.items(), strict=True):
        for number, each in enumerate(curves(rows, recipe).values()):
            steps, values = zip(*((row["step"], row["sampled"]) for row in each), strict=True)
            axes.plot(steps, values, ".-", color=colour_of(number), linewidth=1, markersize=3)
        for phase, step in ends(rows, recipe).items():
            axes.axvline(step, color="0.7", linestyle=":", linewidth=0.8)
            axes.text(step, 0.02, phase, rotation=90, fontsize=6, ha="right", color="0.4")
        axes.set_title(name, fontsize="small")
        axes.set_ylim(0, 1.02)
        axes.grid(alpha=0.3)
    figure.supxlabel("step, over all phases")
    figure.supylabel("held-out answers that are right, sampled")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    show(__doc__, collect, table, draw)
