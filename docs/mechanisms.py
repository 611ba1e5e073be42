"""Check each recipe's mechanism in the metrics of runs: ``python docs/mechanisms.py RUN...``

A claim of ``mechanisms.yaml`` names a metric and its bounds; tests hold small runs to the claims.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import yaml

from rlcomp.files.json_lines import read_lines

Claim = dict[str, Any]
CLAIMS: dict[str, list[Claim]] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
)


def number(claim: Claim, rows: list[dict[str, Any]]) -> float:
    """Return the number of a claim in the metrics of a run; NaN if the run did not record it.

    It is the mean over the last phase, the last value or the change over the run.
    """
    statistic = claim.get("of", "mean")
    # The warm start has neither policy nor rewards, but a change may begin there.
    is_mean = statistic == "mean"
    counted = [row for row in rows if row["phase"] == rows[-1]["phase"]] if is_mean else rows
    values = [float(row[claim["metric"]]) for row in counted if claim["metric"] in row]
    if not values:
        return math.nan
    return {"mean": mean(values), "last": values[-1], "change": values[-1] - values[0]}[statistic]


def holds(claim: Claim, value: float) -> bool:
    """Test if a number lies in the range of its mechanism; NaN never does."""
    return claim.get("above", -math.inf) < value < claim.get("below", math.inf)


if __name__ == "__main__":
    for run in map(Path, sys.argv[1:]):
        name = yaml.safe_load((run / "run.yaml").read_text(encoding="utf-8"))["choices"]["recipe"]
        rows = read_lines(run / "metrics.jsonl")
        for claim in CLAIMS[name]:
            value = number(claim, rows)
            print(f"{name} {claim['metric']} {value:.3g}{'' if holds(claim, value) else ' FAILS'}")
