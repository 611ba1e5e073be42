import pytest

from components.worlds.tactics.environment import TacticsEnvironment
from rlcomp.errors import DataError
from rlcomp.interfaces.environment import Environment, Forkable, Turn
from rlcomp.interfaces.task import Example


def begun(prompt="⊢p∧q→q\n"):
    proof = TacticsEnvironment()
    assert proof.reset(Example(prompt, "", ""), seed=0) == Turn(anchor=prompt[:-1])
    return proof


def test_a_proof_turn_by_turn():
    proof = begun()
    assert isinstance(proof, Environment)
    state = "h0:p∧q\n⊢q"
    assert proof.step("intro\n") == Turn(observation=state, closing="\n", anchor=state)
    assert proof.step("exact h0\n") == Turn(observation="no match", closing="\n", anchor=state)
    assert proof.facts() == {"tactics": 2.0, "failed": 1.0, "solved": 0.0}
    assert proof.step("cases h0").observation == "h0:p\nh1:q\n⊢q"
    assert proof.step("exact h1\n") == Turn(reward=1.0, done=True)
    assert proof.facts() == {"tactics": 4.0, "failed": 1.0, "solved": 1.0}
    proof.close()


def test_a_fork_continues_independently():
    proof = begun()
    proof.step("intro\n")
    other = proof.fork()
    assert isinstance(proof, Forkable)
    other.step("cases h0\n")
    assert other.step("exact h1\n").done
    assert proof.step("cases h0\n").observation == "h0:p\nh1:q\n⊢q"
    assert (proof.facts()["tactics"], other.facts()["tactics"]) == (2.0, 3.0)


def test_a_state_is_searched_without_changing_it():
    proof = TacticsEnvironment()
    state = proof.start(Example("h0:p\n⊢p∨q\n", "", ""))
    left, right = proof.apply(state, "left"), proof.apply(state, "right")
    assert (proof.text(state), proof.text(left)) == ("h0:p\n⊢p∨q", "h0:p\n⊢p")
    assert proof.solved(proof.apply(left, "exact h0"))
    assert proof.apply(right, "exact h0") == "no match"
    assert not proof.solved(right)


def test_a_prompt_that_is_no_goal_is_refused():
    with pytest.raises(DataError, match="task=tactics"):
        TacticsEnvironment().start(Example("47+1=", "", ""))
