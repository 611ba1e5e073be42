"""Decompositions: holes proven apart, and put together again."""

import pytest

from components.search import BestFirstSearch
from components.worlds.tactics.environment import TacticsEnvironment
from components.worlds.tactics.lean_theorem import write_lean_theorem
from components.worlds.tactics.natural_deduction import initial_state, proves, state_text
from components.worlds.tactics.subgoals import (
    check_sketch,
    fill_holes,
    hole_examples,
    subgoal_reward,
)
from rlcomp.prover.graph import ProofGraph, Proposal

GOAL = "(p→q)∧(q→r)∧p→r∧q"
HAVE = ["have q", "sorry", "have r", "sorry", "split", "sorry", "sorry"]
SKETCH = ["intro", "cases h0", "cases h1", *HAVE]
PROOFS = [["apply h0", "exact h2"], ["apply h1", "exact h3"], ["exact h4"], ["exact h3"]]


def test_holes_are_the_goals_that_are_left():
    found = check_sketch(initial_state(GOAL), SKETCH)
    assert found.message == ""
    assert [state_text(hole).split("⊢")[1] for hole in found.holes] == ["q", "r", "r", "q"]
    assert state_text(found.holes[0]) == "h0:p→q\nh1:q→r\nh2:p\n⊢q"
    assert "h3:q\nh4:r" in state_text(found.holes[2])


def test_parts_proven_apart_are_a_proof_together():
    whole = fill_holes(SKETCH, PROOFS)
    assert "sorry" not in whole
    assert proves(GOAL, whole)
    assert subgoal_reward(initial_state(GOAL), SKETCH, PROOFS) == 1.0
    assert "refine have h3 : q := ?_; ?_" in write_lean_theorem("t", GOAL, whole)


@pytest.mark.parametrize(
    ("proofs", "reward"),
    [
        ([None, None, None, None], 0.0),
        ([PROOFS[0], None, None, None], 0.125),
        ([*PROOFS[:3], None], 0.375),
        ([*PROOFS[:3], ["exact h4"]], 0.375),
        ([*PROOFS[:3], ["exact h3", "exact h3"]], 0.375),
        ([*PROOFS[:3], ["sorry"]], 0.375),
    ],
)
def test_full_credit_is_for_the_assembled_proof_only(proofs, reward):
    assert subgoal_reward(initial_state(GOAL), SKETCH, proofs) == reward


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (["sorry", "sorry"], "no goals"),
        (["intro", "split", "sorry"], "not over"),
        (["split", "sorry", "sorry"], "no conjunction"),
        (["intro", "have t", "sorry", "sorry"], "no formula"),
    ],
)
def test_a_script_that_fails_with_its_holes_assumed_is_worth_nothing(script, message):
    found = check_sketch(initial_state(GOAL), script)
    assert found.message == message
    assert subgoal_reward(initial_state(GOAL), script, [["exact h0"]] * len(found.holes)) == 0.0


def test_each_hole_is_searched_by_itself():
    names = [f"{verb} h{n}" for verb in ("apply", "exact") for n in range(5)]
    found, proofs = check_sketch(initial_state(GOAL), SKETCH), []
    for example in hole_examples(found):
        graph, strategy = ProofGraph(TacticsEnvironment(), example), BestFirstSearch()
        while not graph.root.solved:
            graph.expand(strategy.select(graph), [Proposal(name, -1.0) for name in names], 99)
        proofs.append([edge.tactic for edge in graph.proof()])
    assert subgoal_reward(initial_state(GOAL), SKETCH, proofs) == 1.0


def test_as_many_proofs_as_holes():
    with pytest.raises(ValueError, match="1 proofs for 4 holes"):
        fill_holes(SKETCH, [["exact h0"]])
