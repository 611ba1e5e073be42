import pytest

from components.reward.answer import Constraints
from rlcomp.errors import DataError
from rlcomp.verify.constraints import satisfied_share

DIGITS = {name: [1, 2, 3] for name in "abc"}


@pytest.mark.parametrize(
    ("constraint", "holds"),
    [
        ("a + b == c", True),
        ("a * 1000000 * 1000000 + a > c", True),
        ("a - b == -1", True),
        ("-a + 2 * b == c", True),
        ("c % b == a", True),
        ("a < b < c", True),
        ("a < c < b", False),
        ("a <= 1 and b >= 2 and c != 2", True),
        ("a > 1 or b > 2", False),
        ("not a > 1", True),
        ("different(a, b, c)", True),
        ("different(a, b, c - 1)", False),
        ("abs(a - c) == 2", True),
        ("sum(a, b, c) == 6", True),
        ("implies(a == 2, b == 9)", True),
        ("implies(a == 1, b == 9)", False),
        ("c % (a - 1) == 0", False),
    ],
)
def test_a_constraint_holds_or_not(constraint, holds):
    assert satisfied_share({"a": 1, "b": 2, "c": 3}, DIGITS, [constraint]) == float(holds)


def test_texts_are_values_and_the_share_counts_constraints():
    # Ann: "Bob is a knave." Bob: "We are both knaves." Only ann = knight, bob = knave fits.
    kinds = {name: ["knight", "knave"] for name in ("ann", "bob")}
    result = [
        '(ann == "knight") == (bob == "knave")',
        '(bob == "knight") == (ann == "knave" and bob == "knave")',
        "ann != bob",
    ]

    assert satisfied_share({"ann": "knight", "bob": "knave"}, kinds, result) == 1.0
    assert satisfied_share({"ann": "knave", "bob": "knight"}, kinds, result) == pytest.approx(2 / 3)
    assert satisfied_share({"ann": "knave", "bob": "knave"}, kinds, result) == 0.0


@pytest.mark.parametrize(
    "assignment",
    [
        {"a": 1, "b": 2},
        {"a": 1, "b": 2, "c": 3, "d": 1},
        {"a": 1, "b": 2, "c": 4},
        {"a": True, "b": 2, "c": 3},
        {"a": 1.0, "b": 2, "c": 3},
        {"a": [1], "b": 2, "c": 3},
        [1, 2, 3],
        None,
    ],
)
def test_a_malformed_assignment_satisfies_nothing(assignment):
    assert satisfied_share(assignment, DIGITS, ["1 == 1"]) == 0.0


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ("a +", "is no expression"),
        (f"{'-' * 50_000}a == 1", "is no expression"),
        ("a ** b", "has the operator Pow"),
        ("a @ b", "has the operator MatMult"),
        ("a is b", "has the operator Is"),
        ("d == 1", "has 'd', which is neither a variable nor known"),
        ("__import__('os')", "neither a variable nor known"),
        ("a.real == 1", "neither a variable nor known"),
        ("max(a, b) == 1", "neither a variable nor known"),
        ("abs(a, x=1) == 1", "neither a variable nor known"),
        ("a == 1.5", "has '1.5', which is neither"),
        ("'x' * 1000000000000 == a", "computes with 'x', which is no whole number"),
        ("999999999999999 * a == 1", "computes with 999999999999999"),
        ("a < 'x'", "cannot be computed"),
        (f"{'not ' * 700}a", "cannot be computed"),
    ],
)
def test_a_malformed_constraint_is_refused(constraint, message):
    with pytest.raises(DataError, match=message):
        satisfied_share({"a": 1, "b": 2, "c": 3}, DIGITS, [constraint])


def test_no_constraints_are_a_mistake():
    with pytest.raises(DataError, match="every assignment would satisfy"):
        satisfied_share({}, {}, [])


def test_the_reward_reads_an_assignment_in_tags():
    row = {"prompt": "", "answer": "", "variables": {"a": [1, 2], "b": [1, 2]}}
    row |= {"constraints": ["a != b", "a == 1"]}
    right, half = '<answer>{"a": 1, "b": 2}</answer>', '<answer>{"a": 2, "b": 1}</answer>'

    assert Constraints().score_row(row | {"response": right}) == 1.0
    assert Constraints().score_row(row | {"response": half}) == 0.0
    assert Constraints(partial=True).score_row(row | {"response": half}) == 0.5
    assert Constraints().score_row(row | {"response": '{"a": 1, "b": 2}'}) == 0.0
    assert Constraints(where="whole").score_row(row | {"response": '{"a": 1, "b": 2}'}) == 1.0
    del row["constraints"]
    with pytest.raises(DataError, match="reward=constraints needs the column 'constraints'"):
        Constraints().score_row(row | {"response": right})
