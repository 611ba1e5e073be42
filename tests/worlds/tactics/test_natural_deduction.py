import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.worlds.tactics.formula import atoms, is_tautology, parse, write
from components.worlds.tactics.natural_deduction import (
    MESSAGES,
    Goal,
    apply_tactic,
    initial_state,
    parse_state,
    proves,
    run_script,
    state_text,
)
from components.worlds.tactics.search import prove
from rlcomp.errors import DataError

FORMULAS = st.recursive(
    st.sampled_from(["p", "q", "r", "False"]),
    lambda part: st.tuples(st.sampled_from("→∧∨"), part, part),
    max_leaves=8,
)


@given(FORMULAS)
def test_what_is_written_is_read_again(formula):
    assert parse(write(formula)) == formula


@pytest.mark.parametrize(
    ("text", "brackets"),
    [
        ("p→q→r", "(p→(q→r))"),
        ("p∧q∨r∧p→q", "(((p∧q)∨(r∧p))→q)"),
        ("¬p∧q", "((¬p)∧q)"),
        ("p∨¬¬q→r", "((p∨(¬(¬q)))→r)"),
        ("p∧q∨False", "((p∧q)∨False)"),
    ],
)
def test_connectives_bind_as_in_lean(text, brackets):
    assert parse(text) == parse(f" {brackets} ")
    assert write(parse(brackets)) == text


@pytest.mark.parametrize(
    "text",
    ["", "p→", "→p", "(p", "p)", "p q", "t", "p∧∧q", "Falsep q", "()", "¬", "p\u200b", "p" * 300],
)
def test_a_text_that_is_no_formula_is_refused(text):
    with pytest.raises(DataError):
        parse(text)


def test_the_deepest_formula_is_read_and_written():
    assert write(parse("¬" * 255 + "p")) == "¬" * 255 + "p"


@pytest.mark.parametrize(
    ("text", "holds"),
    [("p∨¬p", True), ("False→p", True), ("((p→q)→p)→p", True), ("p→p∧q", False), ("¬p", False)],
)
def test_truth_tables(text, holds):
    assert is_tautology(parse(text)) is holds


# Of each tactic, by hand: a state, what it becomes or what is wrong.
STEPS = [
    ("⊢p→q", "intro", "h0:p\n⊢q"),
    ("⊢¬p", "intro", "h0:p\n⊢False"),
    ("⊢p∧q", "intro", "no implication"),
    ("h0:r\n⊢p∧q", "split", "h0:r\n⊢p\n\nh0:r\n⊢q"),
    ("⊢p∨q", "split", "no conjunction"),
    ("⊢p∨q", "left", "⊢p"),
    ("⊢p∨q", "right", "⊢q"),
    ("⊢p", "left", "no disjunction"),
    ("⊢p", "exfalso", "⊢False"),
    ("h0:p∧q\nh1:r\n⊢p", "cases h0", "h1:r\nh2:p\nh3:q\n⊢p"),
    ("h0:p∨q\n⊢r\n\n⊢s", "cases h0", "h0:p\n⊢r\n\nh0:q\n⊢r\n\n⊢s"),
    ("h3:False\n⊢r", "cases h3", "no goals"),
    ("h0:p→q\n⊢r", "cases h0", "no cases"),
    ("h0:p\n⊢p", "cases h1", "unknown hypothesis"),
    ("h0:p→q→r\n⊢r", "apply h0", "h0:p→q→r\n⊢p\n\nh0:p→q→r\n⊢q"),
    ("h0:p→q→r\n⊢q→r", "apply h0", "h0:p→q→r\n⊢p"),
    ("h0:p\n⊢p", "apply h0", "no goals"),
    ("h0:¬p\n⊢False", "apply h0", "h0:¬p\n⊢p"),
    ("h0:p→q\n⊢r", "apply h0", "no match"),
    ("h0:p\n⊢q→p", "apply h0", "no match"),
    ("h0:p\n⊢p\n\n⊢q", "exact h0", "⊢q"),
    ("h0:p\n⊢q", "exact h0", "no match"),
    ("h0:p\n⊢q", "exact p", "unknown hypothesis"),
    ("h4:p\n⊢q", "have p∧q", "h4:p\n⊢p∧q\n\nh4:p\nh5:p∧q\n⊢q"),
    ("⊢q", "have p∧", "no formula"),
    ("⊢p→p", "sorry", "unknown tactic"),
    ("⊢p→p", "intro h", "unknown tactic"),
    ("⊢p→p", "exact", "unknown tactic"),
    ("⊢p→p", "intro\nexact h0", "unknown tactic"),
]


@pytest.mark.parametrize(("before", "tactic", "after"), STEPS)
def test_what_a_tactic_does(before, tactic, after):
    new = apply_tactic(parse_state(before), tactic)
    assert (new if isinstance(new, str) else state_text(new)) == after
    if isinstance(new, str):
        assert new in MESSAGES
    elif new:
        assert parse_state(after) == new


@pytest.mark.parametrize(
    "text", ["", "p", "h0:p", "h0:p\nh0:q\n⊢p", "x:p\n⊢p", "h01:p\n⊢p", "h0\n⊢p"]
)
def test_a_text_that_is_no_state_is_refused(text):
    with pytest.raises(DataError):
        parse_state(text)


def test_nothing_follows_the_end_of_a_proof():
    assert apply_tactic((), "intro") == "no goals"
    assert proves("p→p", ["intro", "exact h0"])
    assert not proves("p→p", ["intro", "exact h0", "intro"])
    assert run_script(initial_state("p→p"), ["intro", "left", "exact h0"])[1:] == (
        1,
        "no disjunction",
    )


def random_formula(draw, depth):
    if depth == 0 or draw.random() < 0.25:
        return draw.choice(["p", "q", "False"])
    sign = draw.choice("→→∧∨")
    return (sign, random_formula(draw, depth - 1), random_formula(draw, depth - 1))


def random_tactic(draw, state):
    """Any tactic, and often one that can be meant."""
    names = [name for name, _ in state[0].hypotheses] or ["h0"]
    have = write(random_formula(draw, 1))
    with_name = [f"{verb} {draw.choice(names)}" for verb in ("cases", "apply", "exact", "exact")]
    return draw.choice(
        ["intro", "intro", "split", "left", "right", "exfalso", *with_name, f"have {have}"]
    )


def test_nothing_is_accepted_but_tautologies():
    # 10,000 scripts over random statements, of which most hold for no reason.
    draw, accepted = random.Random(0), 0
    for _ in range(10_000):
        goal = random_formula(draw, 2)
        state = (Goal((), goal),)
        for _ in range(10):
            new = apply_tactic(state, random_tactic(draw, state))
            state = state if isinstance(new, str) else new
            if not state:
                accepted += 1
                assert is_tautology(goal), write(goal)
                break
    assert accepted > 200


def sequent(goal):
    """What a goal says, as one formula."""
    formula = goal.target
    for _, given_ in reversed(goal.hypotheses):
        formula = ("→", given_, formula)
    return formula


@given(st.randoms(use_true_random=False))
def test_a_tactic_never_makes_a_false_goal_true(draw):
    # If all that a tactic leaves holds, what it was applied to did.
    given_ = [random_formula(draw, 2) for _ in range(3)]
    state = (Goal((), random_formula(draw, 2)).with_hypotheses(*given_),)
    for _ in range(8):
        new = apply_tactic(state, random_tactic(draw, state))
        if not isinstance(new, str):
            if all(is_tautology(sequent(goal)) for goal in new):
                assert is_tautology(sequent(state[0]))
            state = new[:1] or state


def test_the_prover_s_scripts_are_proofs():
    draw, proven = random.Random(1), 0
    for _ in range(300):
        formula = random_formula(draw, 3)
        script = prove(Goal((), formula)) if is_tautology(formula) else None
        if script is not None:
            assert proves(write(formula), script)
            proven += 1
    assert proven > 50


def test_atoms_are_in_order_of_occurrence():
    assert atoms(parse("q∨p→False∧q")) == ["q", "p"]
