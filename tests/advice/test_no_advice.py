"""Advice is for mistakes: a run that succeeds enters none of it."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
from rlcomp.cli.run import main
sys.argv = ["rlcomp", *json.loads(sys.argv[1])]
try:
    main(apart=False)
finally:
    print(json.dumps([name for name in sys.modules if name.startswith("rlcomp.advice")]))
"""
TINY = [
    "recipe=grpo",
    "phases.warm_start.steps=1",
    "phases.rl.steps=2",
    "demonstrations.batch_size=2",
    "prompts.batch_size=2",
    "rollout.group_size=2",
    "evaluation.num_prompts=2",
    "model.hidden_size=16",
    "model.num_hidden_layers=1",
]


def entered(words):
    """Return the exit code of a command line, and the modules of advice that it imported."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(words)], capture_output=True, text=True
    )
    return ran.returncode, json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_run_that_succeeds_enters_no_advice(tmp_path):
    assert entered([*TINY, f"directory={tmp_path}"]) == (0, [])


@pytest.mark.slow
def test_a_mistake_enters_it(tmp_path):
    code, modules = entered(["learning_rate=1", f"directory={tmp_path}"])

    assert code == 2
    assert {"rlcomp.advice.explain", "rlcomp.advice.foreign_options"} <= {*modules}


@pytest.mark.slow
def test_building_parts_enters_no_advice():
    code = "import sys, rlcomp; rlcomp.build('recipe=sft', 'model.hidden_size=16'); "
    code += "print([name for name in sys.modules if name.startswith('rlcomp.advice')])"

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (ran.returncode, ran.stdout.splitlines()[-1:]) == (0, ["[]"]), ran.stderr


@pytest.mark.parametrize("package", ["rlcomp", "components"])
def test_no_module_imports_advice_at_its_top(package):
    files = [file for file in (ROOT / package).rglob("*.py") if file.parent.name != "advice"]
    imports = [
        f"{file}:{line.lineno}"
        for file in files
        for line in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(line, ast.ImportFrom) and str(line.module).startswith("rlcomp.advice")
    ]

    assert len(files) > 100
    assert imports == []
