"""Every row: ``python benchmarks/run_all.py [SCRIPT ...]``, e.g. ``step head``.

Each script runs in a process of its own, one after the other. The rows go to ``results.json`` and,
as a table, between the marks in ``README.md``, both beside this file. Rows of scripts that were not
chosen stay as they were.
"""

import json
import os
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from measure import table

HERE = Path(__file__).parent
COMMANDS = [
    "rollout.py S",
    "rollout.py L",
    "scoring.py log_probs M",
    "scoring.py update M",
    "scoring.py update M --linear torch",
    "step.py S",
    "step.py M",
    "step.py L",
    "step.py hostile",
    "head.py",
    "plumbing.py",
    "scaling.py",
    "limit.py",
]
PACKAGES = ("torch", "transformers", "tensordict", "trl")
SLOT = re.compile(r"<!-- results -->.*<!-- end of results -->", re.DOTALL)


def rows_of(command):
    """The rows a script prints as its last line, in JSON; one that stops has a row that says so."""
    print(f"benchmarks/{command}", flush=True)
    script, *arguments = command.split()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        note = f"stopped with exit code {done.returncode}"
        rows = [{"row": command, "goal": None, "met": False, "note": note}]
    else:
        rows = json.loads(lines[-1])
        print(table(rows), flush=True)
    return [entry | {"command": f"python benchmarks/{command}"} for entry in rows]


def machine():
    """Where this was measured."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    return {
        "processor": _processor(),
        "threads": 1,
        "python": platform.python_version(),
        **versions,
    }


def _processor():
    names = Path("/proc/cpuinfo")
    lines = names.read_text().splitlines() if names.exists() else []
    return next((x.split(":")[1].strip() for x in lines if "model name" in x), platform.machine())


def main(chosen):
    """Run, and write both files."""
    commands = [c for c in COMMANDS if not chosen or c.partition(".")[0] in chosen]
    file = HERE / "results.json"
    before = json.loads(file.read_text())["rows"] if file.exists() else []
    found = [entry for command in commands for entry in rows_of(command)]
    fresh = {entry["command"] for entry in found}
    kept = [entry for entry in before if entry["command"] not in fresh]
    order = [f"python benchmarks/{command}" for command in COMMANDS]
    rows = sorted([*kept, *found], key=lambda entry: order.index(entry["command"]))
    here = machine()
    file.write_text(json.dumps({"machine": here, "rows": rows}, indent=1) + "\n")
    readme = HERE / "README.md"
    said = ", ".join(f"{name} {value}" for name, value in here.items())
    body = f"<!-- results -->\n{table(rows)}\n\n{said}\n<!-- end of results -->"
    readme.write_text(SLOT.sub(lambda _: body, readme.read_text()))
    open_rows = [entry["row"] for entry in rows if entry["met"] is False]
    print("all goals met" if not open_rows else f"not met: {', '.join(open_rows)}")


if __name__ == "__main__":
    main(sys.argv[1:])
