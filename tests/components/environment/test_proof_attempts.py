import pytest

from components.environment.proofs import ProofAttempts
from components.worlds.tactics.environment import TacticsEnvironment
from components.worlds.tactics.task import Tactics, TacticScripts
from rlcomp.interfaces.environment import Environment, Turn
from rlcomp.interfaces.task import Example


def begun(**arguments):
    proof = ProofAttempts(prover=TacticsEnvironment, **arguments)
    proof.reset(Example("⊢p→p∨q\n", "", ""), seed=0)
    return proof


def test_a_proof_at_once():
    proof = begun()
    assert isinstance(proof, Environment)
    assert proof.step("intro\nleft\nexact h0") == Turn(reward=1.0, done=True)
    assert proof.facts() == {"attempts": 1.0, "proven": 1.0, "first_proven": 1.0}
    proof.close()


def test_the_second_attempt_goes_on_where_the_first_failed():
    proof = begun()
    turn = proof.step("intro\nexact h0\nleft\n\n")
    assert turn.observation == "no match\nh0:p\n⊢p∨q"
    assert (turn.closing, turn.done, turn.reward) == ("\n", False, 0.0)
    assert proof.step("left\nexact h0") == Turn(reward=1.0, done=True)
    assert proof.facts() == {"attempts": 2.0, "proven": 1.0, "first_proven": 0.0, "repaired": 1.0}


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("intro\n\n", "not over\nh0:p\n⊢p∨q"),
        ("\n\n", "not over\n⊢p→p∨q"),
        # The tactic that ended the proof is cut with what stands behind it.
        ("intro\nleft\nexact h0\nintro\n\n", "no goals\nh0:p\n⊢p"),
    ],
)
def test_what_is_wrong_with_a_script(script, told):
    assert begun().step(script).observation == told


def test_the_last_attempt_ends_the_episode():
    proof = begun(attempts=3)
    assert [proof.step("left\n\n").done for _ in range(3)] == [False, False, True]
    assert proof.facts()["repaired"] == 0.0


def test_the_control_is_told_nothing():
    turn = begun(tells="nothing").step("intro\nexact h0\n\n")
    assert turn.observation == "again"
    # A state it is, for credit by state.
    assert turn.anchor == "h0:p\n⊢p∨q"


def test_a_demonstration_is_what_the_environment_would_say():
    task, attempts = TacticScripts(theorems=Tactics(longest=6), mistaken=0.6), []
    for index in range(100):
        example, proof = task.example(index), ProofAttempts(prover=TacticsEnvironment)
        proof.reset(example, seed=0)
        told = [proof.step(turn) for turn in example.turns[::2]]
        assert [turn.observation + turn.closing for turn in told[:-1]] == [*example.turns[1::2]]
        assert told[-1].reward == 1.0
        assert task.example(index) == example
        attempts.append(len(told))
    assert 45 <= sum(n == 2 for n in attempts) <= 75
    assert task.example(1).is_held_out(0.1) == task.theorems.example(1).is_held_out(0.1)
