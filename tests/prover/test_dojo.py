"""lean-dojo's adapter against recorded exchanges of its line protocol; no Lean is started."""

import json
import sys

import pytest

from components.environment.proofs import LeanEnvironment
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example
from rlcomp.prover import dojo as adapter
from rlcomp.prover.dojo import DojoLean

pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 13), reason="no wheels of lean-dojo for this Python"
)
COLUMNS = {"file_path": "Basic.lean", "full_name": "swap"}
# Requests and replies of Lean4Repl: a state that is told, or an error.
FIRST = {"sid": 0, "tacticState": "p q : Prop\n⊢ p ∧ q → q ∧ p", "error": None}
EXCHANGES = {
    (0, "intro h"): {"sid": 1, "tacticState": "p q : Prop\nh : p ∧ q\n⊢ q ∧ p", "error": None},
    (1, "constructor"): {
        "sid": 2,
        "tacticState": "2 goals\ncase left\nh : p ∧ q\n⊢ q\n\ncase right\nh : p ∧ q\n⊢ p",
        "error": None,
    },
    (1, "exact h"): {"sid": None, "tacticState": None, "error": "type mismatch"},
    (1, "apply holes"): {"sid": None, "tacticState": None, "error": "proof contains `sorry`"},
    (1, "exact h.symm"): {"sid": 3, "tacticState": "no goals", "error": None},
}


class Process:
    """Lean4Repl as pexpect shows it: a line in, ``REPL>`` and a line out."""

    pid = 0

    def isalive(self):
        return True

    def sendline(self, line):
        request = json.loads(line)
        self.reply = EXCHANGES.get((request["sid"], request["cmd"]))

    def expect(self, patterns):
        import pexpect

        if self.reply is None:
            raise pexpect.TIMEOUT("")
        self.before = ""
        told = "REPL> " + json.dumps(self.reply) + "\n"
        self.match = type("Match", (), {"string": told})
        return 1


@pytest.fixture
def lean(monkeypatch):
    monkeypatch.setattr(adapter.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setenv("GITHUB_ACCESS_TOKEN", "x")
    package = adapter._import()
    ended, files = [], []

    def begin(self):
        self.proc = Process()
        return self, package.TacticState(FIRST["tacticState"], FIRST["sid"])

    monkeypatch.setattr(package.Dojo, "__enter__", begin)
    monkeypatch.setattr(package.Dojo, "__exit__", lambda self, *_: ended.append(1))
    monkeypatch.setattr(package, "LeanGitRepo", lambda url, commit: (url, commit))
    monkeypatch.setattr(
        package, "check_proof", lambda theorem, proof: files.append(proof) or "symm" in proof
    )
    made = DojoLean(url="https://example.org/repo", commit="0" * 40)
    made.ended, made.files = ended, files
    return made


def test_a_proof_is_paid_when_check_proof_accepts_the_file(lean):
    proof = LeanEnvironment(backend=lean)
    proof.reset(Example("", "", "", columns=COLUMNS), seed=0)
    assert proof.step("intro h\n").observation == "p q : Prop\nh : p ∧ q\n⊢ q ∧ p"
    assert proof.step("exact h\n").observation == "type mismatch"
    assert proof.step("apply holes\n").observation == "the proof contains sorry"
    last = proof.step("exact h.symm\n")
    assert (last.reward, last.done) == (1.0, True)
    assert lean.files == ["by\n  intro h\n  exact h.symm"]
    proof.close()
    assert lean.ended == [1]


def test_what_lean_dojo_calls_finished_is_not_believed(lean, monkeypatch):
    monkeypatch.setattr(adapter._import(), "check_proof", lambda theorem, proof: False)
    proof = LeanEnvironment(backend=lean)
    proof.reset(Example("", "", "", columns=COLUMNS), seed=0)
    proof.step("intro h\n")
    last = proof.step("exact h.symm\n")
    assert (last.reward, last.done) == (0.0, False)


def test_states_are_a_tree(lean):
    state = lean.run(lean.start(Example("", "", "", columns=COLUMNS)), "intro h")
    two = lean.run(state, "constructor")
    assert [goal.split("⊢ ")[1] for goal in two.goals] == ["q", "p"]
    assert lean.run(state, "exact h.symm").completed


def test_a_tactic_that_takes_too_long_ends_the_process(lean):
    state = lean.start(Example("", "", "", columns=COLUMNS))
    with pytest.raises(TimeoutError, match="60 s"):
        lean.run(state, "never told")
    assert lean.ended == [1]
    # Its late reply would be the next tactic's.
    with pytest.raises(ChildProcessError):
        lean.run(state, "intro h")


def test_what_is_missing_is_said(monkeypatch, lean):
    with pytest.raises(DataError, match="full_name"):
        lean.start(Example("", "", ""))
    monkeypatch.setattr(adapter.shutil, "which", lambda name: None if "l" in name else name)
    with pytest.raises(ConfigError, match="needs lake and lean in PATH: install git and elan"):
        DojoLean(url="https://example.org/repo", commit="0" * 40).start(Example("", "", ""))
