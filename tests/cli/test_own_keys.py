"""A user's own package, outside the repository: keys of its own, and errors inside its modules."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rlcomp as package

HOME = Path(package.__file__).parents[1]
TINY = [
    "phases.warm_start.steps=0",
    "phases.rl.steps=1",
    "prompts.batch_size=4",
    "rollout.group_size=2",
    "evaluation.num_prompts=8",
    "model.hidden_size=16",
    "model.intermediate_size=16",
]
TURNS = '''
import torch
from rlcomp.component import Component
from rlcomp.interfaces.advantage import broadcast
from rlcomp.metrics import record


class Turn(Component):
    """Numbers the turns: all tokens of the prompt are turn 0, those of the response turn 1."""

    keys = {"span_id": ("B T", "int64", "which turn wrote the token")}
    reads = ("response_mask",)
    writes = ("span_id",)

    def forward(self, batch):
        batch["span_id"] = batch["response_mask"].long()
        return batch


class LastTurn(Component):
    """The reward, on the tokens of turn 1."""

    keys = {"span_id": ("B T", "int64", "which turn wrote the token")}
    reads = ("reward", "response_mask", "span_id")
    writes = ("advantage",)

    def forward(self, batch):
        record("turns/last", batch["span_id"], where=batch["response_mask"])
        return broadcast(batch, batch["reward"])

'''
WRONG = '''
from own_turns import LastTurn


class Contrary(LastTurn):
    """Another class's key with another dtype."""

    keys = {"span_id": ("B T", "float", "which turn wrote the token")}


class Borrowed(LastTurn):
    keys = {"reward": ("B T", "float", "the schema's key with another shape")}


class Mistyped(LastTurn):
    reads = ("reward", "response_mask", "span_idd")
'''
BROKEN = {
    "import_error": "from rlcomp.component import Component\nfrom math import nothing\n",
    "name_error": "from rlcomp.component import Component\n\nundefined_name\n",
    "syntax_error": "from rlcomp.component import Component\nimport own_broken_syntax_helper\n",
    "no_module": "from rlcomp.component import Component\nimport own_absent_package\n",
    "exit": "from rlcomp.component import Component\nexit(0)\n",
    "config_error": (
        "from rlcomp.component import Component\n"
        "type('Made', (Component,), {'reads': ('rewrad',)})\n"
    ),
}
DESCRIBE = """
import sys
from rlcomp.cli.describe import main
try:
    main()
finally:
    assert not {"torch", "tensordict", "own_turns"} & set(sys.modules)
"""
PART = """

class Part(Component):
    reads = ("reward", "response_mask")
    writes = ("advantage",)

    def forward(self, batch):
        return batch
"""


@pytest.fixture
def user(tmp_path, monkeypatch):
    """A folder with the user's modules and options."""
    (tmp_path / "own_turns.py").write_text(TURNS)
    (tmp_path / "own_wrong.py").write_text(WRONG)
    for kind, lines in BROKEN.items():
        (tmp_path / f"own_broken_{kind}.py").write_text(lines + PART)
    (tmp_path / "own_broken_syntax_helper.py").write_text("x = 1\nclass (\n")
    options = {
        "shaping/turn": "own_turns.Turn",
        "advantage/last_turn": "own_turns.LastTurn",
        "advantage/contrary": "own_wrong.Contrary",
        "advantage/borrowed": "own_wrong.Borrowed",
        "advantage/mistyped": "own_wrong.Mistyped",
        **{f"advantage/{kind}": f"own_broken_{kind}.Part" for kind in BROKEN},
    }
    for option, target in options.items():
        file = tmp_path / "own" / f"{option}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"_target_: {target}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(folder, *words):
    """A program in a process of its own: what it prints, its message and its code."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    environment = {**own, "PYTHONPATH": str(HOME), "OMP_NUM_THREADS": "1"}
    pipes = {"capture_output": True, "text": True, "check": False}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, **pipes)
    return done.stdout, done.stderr, done.returncode


def described(folder, *words):
    """``rlcomp-describe`` in a process that fails where torch was imported."""
    return command(folder, "-c", DESCRIBE, "-cd", "own", *words)


def test_an_own_key_is_described_with_its_shape(user):
    text, message, code = described(user, "shaping=turn", "advantage=last_turn")

    assert (message, code) == ("", 0)
    assert "span_id[B,T]" in [line.split()[-1] for line in text.splitlines() if " Turn " in line]


@pytest.mark.slow
def test_parts_with_an_own_key_run_from_a_config_directory(user):
    chosen = ["shaping=turn", "advantage=last_turn"]

    _, message, code = command(user, "-m", "rlcomp", "-cd", "own", *chosen, *TINY, "directory=run")

    assert code == 0, message
    row = json.loads((user / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    # Every token of a response is of turn 1.
    assert row["turns/last"] == 1.0


def test_an_own_key_nobody_writes_is_told(user):
    _, message, code = described(user, "advantage=last_turn")

    assert code == 2
    assert "stage advantage (LastTurn) reads 'span_id', which no earlier stage writes" in message


def test_an_undeclared_key_is_refused_before_torch_with_the_nearest(user):
    _, message, code = described(user, "advantage=mistyped")

    assert code == 2
    assert message.startswith("rlcomp: advantage._target_ is own_wrong.Mistyped: Mistyped: ")
    assert "'span_idd' is not a key of the batch; did you mean 'span_id'?" in message


def test_a_key_that_contradicts_another_classs_is_refused_before_torch(user):
    _, message, code = described(user, "advantage=contrary")

    assert code == 2
    assert "own_wrong.Contrary.keys: 'span_id' is [B,T] float" in message
    assert "but own_turns.LastTurn declares it as [B,T] int64" in message


def test_a_key_that_contradicts_the_schema_is_refused_before_torch(user):
    _, message, code = described(user, "advantage=borrowed")

    assert code == 2
    assert "own_wrong.Borrowed.keys: 'reward' is [B,T] float" in message
    assert "but the schema declares it as [B] float" in message


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("import_error", "ImportError: cannot import name 'nothing' from 'math'"),
        ("name_error", "NameError: name 'undefined_name' is not defined"),
        ("syntax_error", "SyntaxError: invalid syntax (own_broken_syntax_helper.py, line 2)"),
        ("no_module", "ModuleNotFoundError: No module named 'own_absent_package'"),
        ("exit", "importing it ends the process (SystemExit: 0, "),
        ("config_error", "ConfigError: Made: 'rewrad' is not a key of the batch; did you mean"),
    ],
)
def test_an_error_inside_a_users_module_is_told_with_its_cause(user, rlcomp, capsys, kind, told):
    code = rlcomp("-cd", "own", f"advantage={kind}", *TINY, f"directory={user / 'run'}")

    message = capsys.readouterr().err
    assert code == 2
    start = f"rlcomp: advantage._target_ is own_broken_{kind}.Part: {told}"
    assert message.startswith(start)
    assert len(message.strip().splitlines()) == 1
    assert kind == "syntax_error" or f"own_broken_{kind}.py, line " in message
