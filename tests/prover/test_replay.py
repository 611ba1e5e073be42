"""The recorded sessions of a Lean REPL, and what counts as a proof in them."""

import json

import pytest

from components.environment.proofs import LeanEnvironment
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.environment import Environment
from rlcomp.interfaces.task import Example
from rlcomp.prover.repl import ReplayLean, is_proof, read_sessions, replay


@pytest.fixture
def recorded(shared_data):
    return read_sessions(shared_data / "lean" / "repl_transcripts.jsonl")


def test_all_sessions_are_played_again(recorded):
    assert len(recorded) == 33
    for session in recorded:
        ask = replay(session.commands, session.replies)
        assert [ask(command) for command in session.commands] == [*session.replies]


def test_no_goals_are_no_proof(recorded):
    told = [reply for session in recorded for reply in session.replies]
    without = [reply for reply in told if reply.get("goals") == []]
    proofs = [reply for reply in told if is_proof(reply)]
    assert (len(without), len(proofs)) == (19, 8)
    assert all(reply["proofStatus"] == "Completed" for reply in proofs)


def written(tmp_path, *sessions_):
    """A file of sessions: commands and replies that take turns."""
    path = tmp_path / "sessions.jsonl"
    rows = []
    for number, turns in enumerate(sessions_):
        asked = "\n\n".join(json.dumps(each) for each in turns[::2])
        told = "\n\n".join(json.dumps(each) for each in turns[1::2])
        rows.append(json.dumps({"name": f"s{number}", "input": asked, "expected": told}))
    path.write_text("\n".join(rows) + "\n")
    return str(path)


STATEMENT = "example (p q : Prop) : p ∧ q → q ∧ p"
TACTICS = [
    "intro h",
    "have hp : p := h.left",
    "have hq : q := h.right",
    "apply And.intro",
    "exact hq",
    "exact hp",
]


def environment(tmp_path, recorded, file_reply):
    """The recorded session of this proof, and the whole file with a reply of its own behind it."""
    (session,) = [each for each in recorded if each.name == "proof_branching2"]
    turns = [each for pair in zip(session.commands, session.replies, strict=True) for each in pair]
    whole = {"cmd": "\n  ".join([f"{STATEMENT} := by", *TACTICS])}
    return LeanEnvironment(backend=ReplayLean(path=written(tmp_path, [*turns, whole, file_reply])))


def proven(proof):
    proof.reset(Example("", "", "", columns={"statement": STATEMENT}), seed=0)
    return [proof.step(f"{tactic}\n") for tactic in TACTICS]


def test_a_proof_is_paid_when_the_whole_file_is_accepted(tmp_path, recorded):
    proof = environment(tmp_path, recorded, {"env": 1})
    assert isinstance(proof, Environment)
    turns = proven(proof)
    assert turns[0].observation == "p q : Prop\nh : p ∧ q\n⊢ q ∧ p"
    assert turns[3].observation.count("⊢") == 2
    assert [turn.reward for turn in turns] == [0, 0, 0, 0, 0, 1]
    assert turns[-1].done
    proof.close()


@pytest.mark.parametrize(
    "reply",
    [
        {"env": 1, "messages": [{"severity": "error", "data": "kernel says no"}]},
        {"env": 1, "messages": [{"severity": "warning", "data": "declaration uses `sorry`"}]},
        {"env": 1, "sorries": [{"goal": "⊢ p"}]},
        {"message": "Unknown environment."},
    ],
)
def test_a_proof_that_the_file_refutes_is_not_paid(tmp_path, recorded, reply):
    turns = proven(environment(tmp_path, recorded, reply))
    assert turns[-1].reward == 0
    assert not turns[-1].done
    assert "file is not accepted" in turns[-1].observation


def test_a_refused_tactic_never_reaches_lean(tmp_path, recorded):
    proof = environment(tmp_path, recorded, {"env": 1})
    proof.reset(Example("", "", "", columns={"statement": STATEMENT}), seed=0)
    assert proof.step("exact sorry\n").observation == "'sorry' is refused"
    with pytest.raises(DataError, match="never asked"):
        proof.step("omega\n")


def test_a_state_without_goals_that_is_no_proof_is_an_error(tmp_path):
    # As recorded in `placeholder_synthesis`.
    start = {"cmd": "example : 1 = 0 := by sorry"}
    hole = {"env": 0, "sorries": [{"proofState": 0, "goal": "⊢ 1 = 0"}]}
    reply = {"proofStatus": "Incomplete: contains metavariable(s)", "proofState": 1, "goals": []}
    path = written(tmp_path, [start, hole, {"tactic": "simpa", "proofState": 0}, reply])
    proof = LeanEnvironment(backend=ReplayLean(path=path))
    proof.reset(Example("", "", "", columns={"statement": "example : 1 = 0"}), seed=0)
    turn = proof.step("simpa\n")
    assert (turn.done, turn.reward) == (False, 0.0)
    assert turn.observation == "no goals, and no proof: Incomplete: contains metavariable(s)"


def test_a_header_goes_before_the_theorem(recorded, shared_data):
    path = str(shared_data / "lean" / "repl_transcripts.jsonl")
    lean = ReplayLean(path=path, header="import Mathlib")
    state = lean.start(Example("", "", "", columns={"statement": "theorem test : 0 < 1"}))
    assert state.goals == ("⊢ 0 < 1",)
    new = lean.run(state, "exact?")
    assert new.completed


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "a", "input": "{}"}',
        '{"name": "a", "input": "{} {}", "expected": "{}"}',
        '{"name": "a", "input": "{", "expected": "{}"}',
        '{"name": "a", "input": "1", "expected": "{}"}',
    ],
)
def test_a_file_of_no_sessions_is_refused(tmp_path, text):
    path = tmp_path / "sessions.jsonl"
    path.write_text(text + "\n{}\n")
    with pytest.raises(DataError):
        ReplayLean(path=str(path))


def test_what_was_never_stated_is_said(recorded, shared_data):
    lean = ReplayLean(path=str(shared_data / "lean" / "repl_transcripts.jsonl"))
    with pytest.raises(DataError, match="no recorded session"):
        lean.start(Example("", "", "", columns={"statement": "theorem new : True"}))
    with pytest.raises(DataError, match="statement"):
        lean.start(Example("", "", ""))
    with pytest.raises(ConfigError, match="nowhere"):
        ReplayLean(path="/nowhere.jsonl")


@pytest.mark.parametrize("lacking", ["name", "input", "expected"])
def test_a_line_without_one_of_its_texts_is_told_with_its_place(tmp_path, lacking):
    row = {"name": "a", "input": "{}", "expected": "{}"} | {lacking: None}
    path = tmp_path / "sessions.jsonl"
    path.write_text(json.dumps(row))

    with pytest.raises(DataError, match="line 1: must hold texts"):
        read_sessions(path)
