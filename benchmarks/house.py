"""Measure the code and the part that a run enters: ``python benchmarks/house.py [--sizes]``.

It prints the lines and files by place. For a run of ``recipe=grpo`` it prints how many files the
run enters: in all, before ``launch``, before torch is imported, and in the rollout and learner
stages; and how many functions get the config before ``launch``. ``--sizes`` leaves out the run. A
run enters a file when a frame of the file starts.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUN = ["recipe=grpo", "phases.warm_start.steps=1", "phases.rl.steps=2", "evaluation.num_prompts=4"]
STAGES = ("rollout", "learner")


def python_files(*folders):
    """Return the Python files of folders."""
    return [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]


def has_code(file):
    """Return whether a file has more than a docstring."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return any(
        not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in body
    )


def size(files):
    """Return the number of lines, and the number of files with code."""
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    return {"lines": lines, "files": sum(map(has_code, files))}


def sizes():
    """Return the sizes of kernel, worlds, advice and tests."""
    worlds = python_files("components/worlds")
    advice = python_files("rlcomp/advice")
    excluded = {*worlds, *advice}
    kernel = [file for file in python_files("rlcomp", "components") if file not in excluded]
    return {
        "kernel": size(kernel),
        "worlds": size(worlds),
        "advice": size(advice),
        "tests": size(python_files("tests")),
    }


class Tracer:
    """Profile hook that appends each new line of JSON on an entered function to a file.

    The file is opened for appending, so that forked processes write to it, too.

    Args:
        file: the file to write.
    """

    def __init__(self, file):
        self.output = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.seen = set()
        self.launched = False
        self.stages = []

    def __call__(self, frame, event, argument):
        """Record an event of the interpreter."""
        code = frame.f_code
        name = code.co_filename.removeprefix(f"{ROOT}/")
        if not name.startswith(("rlcomp/", "components/")):
            return
        stage = (name, code.co_name) == ("rlcomp/run/program.py", "_call")
        if event == "call":
            self.launched |= (name, code.co_name) == ("rlcomp/run/launch.py", "launch")
            if stage:
                self.stages.append(frame.f_locals["node"])
            self.enter(name, code.co_name, frame)
        elif event == "return" and stage:
            self.stages.pop()

    def enter(self, name, function, frame):
        """Write the line of an entered function, if it is new.

        ``before`` is True before ``launch``, ``checks`` before torch is imported. ``config`` is the
        function's name if it gets the config before ``launch``.
        """
        row = {
            "file": name,
            "function": function != "<module>",
            "before": not self.launched,
            "checks": "torch" not in sys.modules,
            "stage": self.stages[-1] if self.stages else "",
            "config": function if not self.launched and _has_config(frame) else "",
        }
        line = json.dumps(row) + "\n"
        if line not in self.seen:
            self.seen.add(line)
            os.write(self.output, line.encode())


def _has_config(frame):
    """Return whether an argument of a function is the config, or a part of it."""
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
    return any(type(frame.f_locals.get(name)).__name__ == "DictConfig" for name in names)


def trace(file, words):
    """Run the command line in this process, and write the functions that it enters."""
    tracer = Tracer(file)
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    from rlcomp.cli.run import main

    sys.argv = ["rlcomp", *words]
    main()


def count_entered():
    """Return how many files a run enters, by part of the run."""
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/entered.jsonl"
        words = [*RUN, f"directory={folder}/run"]
        command = [sys.executable, __file__, "--trace", file, *words]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        rows = [json.loads(line) for line in Path(file).read_text().splitlines()]
    files_of = {
        "run, any frame": {row["file"] for row in rows},
        "run, functions": {row["file"] for row in rows if row["function"]},
        "before launch": {row["file"] for row in rows if row["before"]},
        "before torch": {row["file"] for row in rows if row["checks"]},
        "config, functions": {(row["file"], row["config"]) for row in rows if row["config"]},
        "config, files": {row["file"] for row in rows if row["config"]},
        "advice": {row["file"] for row in rows if row["file"].startswith("rlcomp/advice/")},
    }
    for stage in STAGES:
        files_of[f"stage {stage}"] = {row["file"] for row in rows if row["stage"] == stage}
    return {name: len(files) for name, files in files_of.items()}


def main():
    """Print the figures, and in the last line all of them as JSON."""
    if sys.argv[1:2] == ["--trace"]:
        return trace(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", action="store_true", help="no run")
    figures = {"sizes": sizes()}
    if not parser.parse_args().sizes:
        figures["entered"] = count_entered()
    for part in figures.values():
        for name, value in part.items():
            text = (
                value
                if isinstance(value, int)
                else "{lines:,} lines, {files} files".format(**value)
            )
            print(f"{name:20} {text}")
    print(json.dumps(figures))
    return None


if __name__ == "__main__":
    main()
