import pytest

from components.worlds.tactics.environment import TacticsEnvironment
from components.worlds.tactics.formula import is_tautology, parse
from components.worlds.tactics.natural_deduction import proves
from components.worlds.tactics.task import Tactics, TacticSteps, rename_atoms
from rlcomp.errors import ConfigError


def test_every_goal_holds_and_its_answer_proves_it():
    task = Tactics(shortest=3, longest=8)
    for index in range(200):
        example = task.example(index)
        goal, proof = example.prompt[1:-1], example.answer.split("\n")
        assert example.prompt == f"⊢{goal}\n"
        assert is_tautology(parse(goal))
        assert proves(goal, proof)
        assert 3 <= len(proof) == example.columns["proof_length"] <= 8
        assert example.columns["statement"] == f"theorem goal (p q r s : Prop) : {goal}"
        assert task.example(index) == example


def test_a_demonstration_is_what_the_environment_would_say():
    for index in range(100):
        example, proof = Tactics().example(index), TacticsEnvironment()
        proof.reset(example, seed=0)
        told = [proof.step(tactic) for tactic in example.turns[::2]]
        assert [turn.observation + turn.closing for turn in told[:-1]] == [*example.turns[1::2]]
        assert told[-1].done
        assert told[-1].reward == 1.0
        assert "".join(example.turns) == example.demonstration


def test_no_goal_is_in_training_and_held_out():
    examples = [Tactics(held_out=0.3).example(index) for index in range(600)]
    parts = {True: set(), False: set()}
    for example in examples:
        parts[example.is_held_out(0.3)].add(example.prompt)
    assert min(map(len, parts.values())) > 100
    assert not parts[True] & parts[False]
    # Nor under other names.
    assert all(rename_atoms(example.prompt) == example.prompt for example in examples)


@pytest.mark.parametrize(
    ("name", "value"),
    [("atoms", 5), ("depth", 5), ("longest", 1), ("examples", 2**63), ("shortest", 0)],
)
def test_what_it_cannot_be_is_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        Tactics(**{name: value})


def test_a_step_is_one_of_the_theorem_s_proof():
    theorems = Tactics(longest=5)
    task, states = TacticSteps(theorems=theorems), 0
    for index in range(100):
        step, theorem = task.example(index), theorems.example(index)
        states += step.prompt != theorem.prompt
        place = [theorem.prompt, *theorem.turns[1::2]].index(step.prompt)
        assert theorem.answer.split("\n")[place] == step.demonstration
        assert step.source == theorem.source
    assert states > 40
    assert (len(task), task.held_out) == (len(theorems), theorems.held_out)
