"""Have you earned RL yet? Accuracy and cost of each rung: ``tables.py RUNS|RESULTS.jsonl``."""

from __future__ import annotations

import re
from statistics import mean

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.files.json_lines import read_lines
from rlcomp.report.charts import colour_of
from rlcomp.report.experiment import show
from rlcomp.report.statistics import estimate, paired

RUNGS = {
    "asked": "the base, asked",
    "prompt": "two examples in the prompt",
    "sft": "SFT",
    "lora": "SFT, LoRA",
    "dpo": "DPO on own pairs",
    "distillation": "on-policy distillation",
    "rl": "RL (GRPO)",
}
# Right answers that somebody wrote: to imitate, or to compare with.
WRITTEN = {
    "asked": 0,
    "prompt": 2,
    "sft": 256,
    "lora": 256,
    "dpo": 256,
    "distillation": 0,
    "rl": 256,
}
JUDGED = ("dpo", "rl")


def cpu_seconds(runs, rung):
    """CPU seconds of a rung's runs, user and system, from what `times` said of its children."""
    path = runs / rung / "times"
    if not path.is_file():  # runs that were started by hand
        return float("nan")
    children = path.read_text().splitlines()[1]
    return sum(60 * float(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", children))


def collect(runs):
    """A row a run: accuracy after its last step, and what was sampled."""
    found = []
    for rung in RUNGS:
        places = sorted((runs / rung).glob("*/metrics.jsonl"))
        for path in places:
            rows = read_lines(path)
            last = [row for row in rows if "evaluation/sampled" in row][-1]
            trained = [row for row in rows if row["phase"] != "ask"]
            tokens = sum(row.get("rollout/tokens", 0) for row in trained)
            lengths = [row for row in trained if "rollout/length" in row]
            found.append(
                {
                    "rung": rung,
                    "seed": path.parent.name,
                    "sampled": round(last["evaluation/sampled"], 4),
                    "greedy": round(last["evaluation/greedy"], 4),
                    "tokens": tokens,
                    "answers": round(
                        sum(row["rollout/tokens"] / row["rollout/length"] for row in lengths)
                    ),
                    "cpu": round(cpu_seconds(runs, rung) / len(places), 1),
                }
            )
    return found


def by_seed(rows, rung, key):
    """Of each seed a value."""
    return {row["seed"]: float(row[key]) for row in rows if row["rung"] == rung}


def text(found, sign=""):
    """An estimate with its interval; of nothing a dash."""
    return found.text(sign=sign) if found else "-"


def table(rows):
    """Markdown: a row a rung."""
    lines = [
        "| rung | seeds | right, sampled | right, greedy | RL less this, sampled | labels "
        "| judged | tokens sampled | teacher's tokens | CPU s |",
        f"|{'---|' * 10}",
    ]
    idle = mean(by_seed(rows, "asked", "cpu").values())
    for rung, name in RUNGS.items():
        values = {key: by_seed(rows, rung, key) for key in ("sampled", "greedy", "tokens", "cpu")}
        right = [text(estimate([*values[key].values()])) for key in ("sampled", "greedy")]
        more = paired(by_seed(rows, "rl", "sampled"), values["sampled"])
        tokens = mean(values["tokens"].values())
        judged = mean(by_seed(rows, rung, "answers").values()) if rung in JUDGED else 0
        cells = [
            *(right, [text(more, "+") if rung != "rl" else "-"], [f"{WRITTEN[rung]}"]),
            [f"{judged:,.0f}", f"{tokens:,.0f}", f"{tokens if rung == 'distillation' else 0:,.0f}"],
            [f"{max(mean(values['cpu'].values()) - idle, 0):.1f}"],
        ]
        flat = " | ".join(cell for group in cells for cell in group)
        lines.append(f"| {name} | {len(values['sampled'])} | {flat} |")
    return "\n".join(lines)


def draw(rows, path):
    """Accuracy of each rung against CPU seconds: small dots are seeds, large ones means."""
    figure = Figure(figsize=(7.5, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    idle = mean(by_seed(rows, "asked", "cpu").values())
    for number, (rung, name) in enumerate(RUNGS.items()):
        values = [*by_seed(rows, rung, "sampled").values()]
        cost = max(mean(by_seed(rows, rung, "cpu").values()) - idle, 0)
        found, colour = estimate(values), colour_of(number)
        axes.plot([cost] * len(values), values, ".", color=colour, alpha=0.35, markersize=5)
        half = 0 if found.low is None else found.mean - found.low
        axes.errorbar(cost, found.mean, half, fmt="o", color=colour, capsize=3, label=name)
    axes.set_xlabel("CPU seconds of a seed less those of the base, asked")
    axes.set_ylabel("held-out questions right, sampled")
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right center", fontsize="small")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    show(__doc__, collect, table, draw)
