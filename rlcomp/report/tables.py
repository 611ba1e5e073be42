"""Tables of a report: metrics by group, costs, and runs with their origins."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from rlcomp.errors import ConfigErrors, nearest
from rlcomp.files.atomic_write import atomic_write
from rlcomp.report.groups import Group
from rlcomp.report.runs import Run
from rlcomp.report.statistics import MeanEstimate, area, estimate, final, paired
from rlcomp.trackers.metric_names import ACCURACIES, held_out_rewards

# The usual metrics; a final slash stands for all names with this beginning.
METRICS = (
    "evaluation/sampled",
    "evaluation/greedy",
    "evaluation/reward/",
    "evaluation/return",
    "evaluation/return/",
    "evaluation/hypervolume",
    "evaluation/response/",
    "reward/mean",
    "episode/return",
    "policy/entropy",
    "rollout/length",
    "pareto/",
    "kl/reference",
    "loss/sft",
)
KINDS: dict[str, Callable[[Run, str], float | None]] = {"final": final, "auc": area}


@dataclass(frozen=True)
class MetricResult:
    """One metric of one group.

    Attributes:
        group: name of the group.
        metric: name of the metric.
        kind: ``final`` (the last value) or ``auc`` (the mean over the curve), :data:`KINDS`.
        value: estimate over the group's seeds.
        difference: paired difference to the baseline; None for the baseline itself, and without a
            seed in common.
    """

    group: str
    metric: str
    kind: str
    value: MeanEstimate
    difference: MeanEstimate | None


@dataclass(frozen=True)
class Cost:
    """Costs of a group, each a mean over its finished runs.

    Attributes:
        group: name of the group.
        steps: number of steps.
        seconds: wall time of the stages.
        seconds_beside: wall time of the components that run periodically, such as evaluation.
        tokens: number of sampled tokens.
    """

    group: str
    steps: float
    seconds: float
    seconds_beside: float
    tokens: float


def chosen_metrics(runs: Sequence[Run], requested: Sequence[str]) -> list[str]:
    """Return the requested metrics, or the usual ones that were recorded.

    The usual ones leave out the accuracies if every run has held-out rewards. Without any usual one
    return all recorded metrics but the wall times.

    Raises:
        ConfigErrors: no run recorded a requested metric; the message suggests another name.
    """
    recorded = dict.fromkeys(name for run in runs for row in run.rows for name in row)
    has_held_out_rewards = all(
        held_out_rewards(name for row in run.rows for name in row) for run in runs
    )
    for key in ("total", "phase", "step"):
        recorded.pop(key, None)
    if unrecorded := [metric for metric in requested if metric not in recorded]:
        raise ConfigErrors(
            [
                f"--metrics: no run recorded {metric!r}{_suggest(metric, recorded)}"
                for metric in unrecorded
            ]
        )
    usual = [metric for name in METRICS for metric in _expand_name(name, recorded)]
    usual = [metric for metric in usual if not has_held_out_rewards or metric not in ACCURACIES]
    return list(requested) or usual or [name for name in recorded if not name.startswith("time/")]


# Names of metrics in other libraries.
_OTHER_NAMES = {
    "accuracy": "evaluation/sampled",
    "acc": "evaluation/sampled",
    "eval/accuracy": "evaluation/sampled",
    "rewards": "reward/mean",
    "kl": "kl/reference",
}


def _suggest(metric: str, recorded: Collection[str]) -> str:
    """Suggest the metric by its name elsewhere or by a part of its name; else the nearest ones."""
    with_this_part = [name for name in recorded if metric.lower() in name.split("/")]
    suggestion = next(
        (name for name in (_OTHER_NAMES.get(metric.lower()), *with_this_part) if name in recorded),
        None,
    )
    if suggestion is None:
        return nearest(metric, recorded)
    usual = [known for name in METRICS for known in _expand_name(name, recorded)]
    return (
        f"; did you mean '{suggestion}'? (known: {', '.join(usual[:8] or list(recorded)[:8])}, …)"
    )


def _expand_name(name: str, recorded: Collection[str]) -> list[str]:
    """Return the recorded metrics of one of the usual names, without ends of intervals."""
    if not name.endswith("/"):
        return [name] if name in recorded else []
    family = [metric for metric in recorded if metric.startswith(name) and "@" not in metric]
    ends = {f"{metric}{end}" for metric in family for end in ("_low", "_high")}
    return [metric for metric in family if metric not in ends]


def results(groups: Sequence[Group], metrics: Sequence[str], baseline: Group) -> list[MetricResult]:
    """Compute final values and areas of every metric for groups with finished runs."""
    rows = []
    for metric in metrics:
        for kind, measure in KINDS.items():
            baseline_values = _by_seed(baseline, metric, measure)
            for group in groups:
                values = _by_seed(group, metric, measure)
                value = estimate(list(values.values()))
                if value is not None:
                    difference = None if group is baseline else paired(values, baseline_values)
                    rows.append(MetricResult(group.name, metric, kind, value, difference))
    return rows


def _by_seed(
    group: Group, metric: str, measure: Callable[[Run, str], float | None]
) -> dict[str, float]:
    measured = {run.seed or str(run.directory): measure(run, metric) for run in group.finished}
    return {seed: value for seed, value in measured.items() if value is not None}


def costs(groups: Sequence[Group]) -> list[Cost]:
    """Compute the costs of each group; skip groups without a finished run."""
    return [
        Cost(
            group.name,
            _mean(group.finished, lambda run: run.steps),
            _mean(group.finished, seconds),
            _mean(group.finished, seconds_beside),
            _mean(group.finished, lambda run: total(run, "rollout/tokens")),
        )
        for group in groups
        if group.finished
    ]


def _mean(runs: Sequence[Run], measure: Callable[[Run], float]) -> float:
    return sum(map(measure, runs)) / len(runs)


def total(run: Run, metric: str) -> float:
    """Sum a metric over a run."""
    return float(sum(row.get(metric) or 0.0 for row in run.rows))


def seconds(run: Run) -> float:
    """Return the wall time of the stages."""
    return total(run, "time/step")


def seconds_beside(run: Run) -> float:
    """Return the wall time of the components that run periodically (evaluation)."""
    return sum(total(run, f"time/{name}") for name in run.periodic_names)


def write_results(path: Path, rows: Sequence[MetricResult]) -> None:
    """Write a CSV file with one line for each group, metric and kind."""
    header = ["group", "metric", "kind", "mean", "low", "high", "n"]
    header += ["difference", "difference_low", "difference_high", "pairs"]
    # The fields of a MeanEstimate are mean, low, high and n.
    with atomic_write(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for row in rows:
            difference = astuple(row.difference) if row.difference else (None,) * 4
            writer.writerow([row.group, row.metric, row.kind, *astuple(row.value), *difference])


def write_runs(
    path: Path, runs: Sequence[Run], groups: Sequence[Group], metrics: Sequence[str]
) -> None:
    """Write a CSV file with one line for each run.

    It has the run's state, its costs in seconds and tokens, its metrics and its error.
    """
    measured = [(kind, metric) for metric in metrics for kind in KINDS]
    header = ["run", "group", "seed", "state", "steps", "seconds", "seconds_beside", "tokens"]
    with atomic_write(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*header, *(f"{metric} {kind}" for kind, metric in measured), "error"])
        for run, group in runs_with_groups(runs, groups):
            cost = [seconds(run), seconds_beside(run), total(run, "rollout/tokens")]
            values = [KINDS[kind](run, metric) for kind, metric in measured]
            run_columns = [str(run.directory), group, run.seed, run.state, run.steps]
            writer.writerow([*run_columns, *cost, *values, run.error])


def runs_with_groups(runs: Sequence[Run], groups: Sequence[Group]) -> list[tuple[Run, str]]:
    """Return every run with the name of its group; jobs that never started with their overrides."""
    grouped = {run.directory: (run, group.name) for group in groups for run in group.runs}
    command_words = {
        run.directory: " ".join(f"{k}={v}" for k, v in run.overrides.items() if k != "seed")
        for run in runs
    }
    return [grouped.get(run.directory, (run, command_words[run.directory])) for run in runs]


_COMMITS = ("commit", "commit of rlcomp")


@dataclass(frozen=True)
class RunOrigin:
    """Origin of one run; ``environment`` is the number of its environment, from 1."""

    directory: str
    command: str
    commit: str
    environment: int | None


def run_origins(runs: Sequence[Run]) -> tuple[list[RunOrigin], list[str]]:
    """Return the origin of each run, and the distinct environments in words."""
    numbers: dict[str, int] = {}
    rows = []
    for run in runs:
        words = ", ".join(f"{k} {v}" for k, v in run.environment.items() if k not in _COMMITS)
        number = numbers.setdefault(words, len(numbers) + 1) if words else None
        rows.append(RunOrigin(str(run.directory), command(run), _commit(run), number))
    return rows, list(numbers)


def command(run: Run) -> str:
    """Return the command line that repeats a run, without its directory.

    Examples:
        >>> from pathlib import Path
        >>> words = ("recipe=grpo", "model=[1, 2]", "directory=runs/sweep")
        >>> command(Run(Path("a"), "finished", command=words))
        "rlcomp recipe=grpo 'model=[1, 2]'"
    """
    return shlex.join(["rlcomp", *(w for w in run.command if not w.startswith("directory="))])


def _commit(run: Run) -> str:
    """Return the commits of the working directory and of rlcomp; ``+``: changed files."""
    commits = [run.environment[name] for name in _COMMITS if run.environment.get(name)]
    short_hashes = [text[:12] + ("+" if text.endswith("+") else "") for text in commits]
    return ", rlcomp ".join(dict.fromkeys(short_hashes))
