"""The clock of the benchmarks: CPU seconds of one thread, A and B by turns; rows as JSON and table.

A row is measured over several *draws* (seeds of the sampler), each repeated. The repeats of a draw
are the same work, so how they differ is the machine's doing and makes the spread; the draws differ
as samples do, so seconds are compared per unit of work (a token sampled, or one call).
"""

import json
import math
import statistics
import sys
import time
from dataclasses import dataclass, field

# Slowest over fastest repeat, above which a row is flagged.
NOISY = 1.3
COLUMNS = ("row", "ours", "peer", "value", "range", "spread", "parity", "goal", "met")


@dataclass
class Timing:
    """Seconds of one engine: by draw, then by repeat; and the work each draw was."""

    seconds: dict = field(default_factory=dict)
    work: dict = field(default_factory=dict)

    def add(self, draw, seconds, work):
        """Add one more repeat of a draw."""
        self.seconds.setdefault(draw, []).append(seconds)
        self.work[draw] = work

    @property
    def per_call(self):
        """Return the median seconds of a call, averaged over the draws."""
        return statistics.mean(statistics.median(repeats) for repeats in self.seconds.values())

    @property
    def per_unit(self):
        """Return the seconds of a unit of work."""
        return self.per_call / statistics.mean(self.work.values())

    @property
    def spread(self):
        """Return slowest over fastest repeat, of the draw where they differ most."""
        return max(max(repeats) / min(repeats) for repeats in self.seconds.values())


def clocked(call, draw):
    """Return the CPU seconds of ``call(draw)``, and its result: the work done."""
    start = time.process_time()
    work = call(draw)
    return time.process_time() - start, work


def by_turns(sides, draws, repeats):
    """Time callables against each other; each is called once before, unmeasured.

    Args:
        sides: callables by name; each takes the number of the draw and returns the work done.
        draws: number of different samples.
        repeats: number of calls for each sample.

    Returns:
        The ``Timing`` of each callable, by name.
    """
    timings = {name: Timing() for name in sides}
    for call in sides.values():
        call(0)
    for _ in range(repeats):
        for draw in range(draws):
            for name, call in sides.items():
                timings[name].add(draw, *clocked(call, draw))
    return timings


def ratios(ours, peer):
    """Return our speed-up per unit of work: overall, lowest and highest pair."""
    pairs = [
        (b / peer.work[draw]) / (a / ours.work[draw])
        for draw, repeats in ours.seconds.items()
        for a, b in zip(repeats, peer.seconds[draw], strict=True)
    ]
    return peer.per_unit / ours.per_unit, min(pairs), max(pairs)


def largest(values):
    """Return the largest value, or NaN if one of them is NaN; ``max`` may lose it."""
    values = list(values)
    return math.nan if any(math.isnan(value) for value in values) else max(values)


def gate(what, value, limit):
    """Return a parity value beside its limit; NaN is never within it."""
    return {"what": what, "value": value, "gate": limit, "ok": value <= limit}


def row(name, value, *, goal, unit="x", most=False, parity=(), spread=1.0, **facts):
    """Return a finished row.

    Args:
        name: name of the row.
        value: the value that the goal limits.
        goal: limit of the value; None for a row without one, which can only fail its gates.
        unit: unit of the value, ``x`` for a ratio.
        most: True if the goal is the largest value allowed, False if it is the smallest.
        parity: gates, from :func:`gate`; a row is met only if all of them hold.
        spread: slowest over fastest repeat.
        facts: other measurements, by name.
    """
    reached = None if goal is None else (value <= goal if most else value >= goal)
    return {
        "row": name,
        "value": value,
        "unit": unit,
        "goal": goal,
        "most": most,
        "met": reached if all(entry["ok"] for entry in parity) else False,
        "parity": list(parity),
        "spread": spread,
        "flag": not spread <= NOISY,
        **facts,
    }


def against(name, timings, peer, *, goal, parity=(), **facts):
    """Return the row of our speed-up over a peer."""
    ours, other = timings["rlcomp"], timings[peer]
    ratio, low, high = ratios(ours, other)
    return row(
        name,
        ratio,
        goal=goal,
        parity=parity,
        spread=max(ours.spread, other.spread),
        ours=ours.per_call,
        peer=peer,
        peer_seconds=other.per_call,
        range=[low, high],
        work={"rlcomp": _mean_work(ours), peer: _mean_work(other)},
        **facts,
    )


def absent(name, goal, most=False):
    """Return the row of a peer that is not installed: it is never met."""
    note = "peer not installed: pip install rlcomp[bench]"
    return {"row": name, "goal": goal, "most": most, "unit": "x", "met": False, "note": note}


def _mean_work(timing):
    return statistics.mean(timing.work.values())


def verdict(entry):
    """Return if a row meets its goal (``yes``, ``no``, ``-``), and if that is noisy."""
    word = {True: "yes", False: "no", None: "-"}[entry["met"]]
    return f"{word}, noisy" if entry.get("flag") else word


def emit(rows):
    """Print the table, then all rows as the last line, in JSON."""
    print(table(rows))
    print(json.dumps(rows), flush=True)
    sys.stdout.flush()


def table(rows):
    """Return the rows as a Markdown table."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(_cells(entry)) + " |" for entry in rows]
    return "\n".join(lines)


def _cells(entry):
    if "note" in entry:
        return [entry["row"], entry["note"], "", "", "", "", "", goal_cell(entry), "no"]
    peer = f"{entry['peer']} {entry['peer_seconds']:.3g} s" if "peer" in entry else "-"
    flag = " **noisy**" if entry["flag"] else ""
    return [
        entry["row"],
        f"{entry['ours']:.3g} s" if "ours" in entry else "-",
        peer,
        value_cell(entry["value"], entry["unit"]),
        "-".join(f"{end:.2f}" for end in entry["range"]) if "range" in entry else "-",
        f"{entry['spread']:.2f}{flag}",
        "; ".join(parity_cell(entry) for entry in entry["parity"]) or "-",
        goal_cell(entry),
        verdict(entry),
    ]


def value_cell(value, unit):
    return f"{100 * value:.3g} %" if unit == "%" else f"{value:.2f} {unit}"


def goal_cell(entry):
    if entry["goal"] is None:
        return "-"
    return ("≤ " if entry["most"] else "≥ ") + value_cell(entry["goal"], entry["unit"])


def parity_cell(entry):
    mark = "" if entry["ok"] else " **FAILED**"
    return f"{entry['what']} {entry['value']:.1e} (≤ {entry['gate']:.0e}){mark}"
