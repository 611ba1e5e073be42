import json
import math
import time

import pytest

from rlcomp.errors import ConfigError, require
from rlcomp.verify.reasoning_gym import is_plain, puzzles, reasoning_gym


def of(name, index=0, **settings):
    return {"name": name, "settings": settings, "seed": 3, "size": 5, "index": index}


def gold(puzzle):
    result = puzzles(puzzle["name"], puzzle["settings"], puzzle["seed"], puzzle["size"])
    return str(result[puzzle["index"]]["answer"])


def test_its_own_answer_is_right_and_another_is_not():
    puzzle = of("leg_counting", 2)
    right = gold(puzzle)

    assert reasoning_gym(right, puzzle, where="whole") == 1.0
    assert reasoning_gym(f"<answer>{right}</answer>", puzzle) == 1.0
    assert reasoning_gym(f"<think>0</think><answer> {right}\n</answer>", puzzle) == 1.0
    assert reasoning_gym(str(int(right) + 1), puzzle, where="whole") == 0.0
    assert reasoning_gym(right, puzzle, where="tagged") == 0.0


def test_another_right_answer_is_right_as_well():
    puzzle = of("countdown")
    first = gold(puzzle)

    assert reasoning_gym(f"(({first}))", puzzle, where="whole") == 1.0


def test_an_answer_at_which_the_checker_fails_is_wrong():
    puzzle = of("prime_factorization")
    result = puzzles("prime_factorization", {}, 3, 5)

    with pytest.raises(ValueError, match="invalid literal"):
        result.score_answer("abc", result[0])
    assert reasoning_gym("abc", puzzle, where="whole") == 0.0


def test_a_checker_that_fails_at_its_own_answer_is_at_fault(monkeypatch):
    def broken(answer, entry):
        raise KeyError("a bug")

    monkeypatch.setattr(puzzles("prime_factorization", {}, 3, 5), "score_answer", broken)

    with pytest.raises(KeyError, match="a bug"):
        reasoning_gym("6", of("prime_factorization"), where="whole")


def test_each_index_is_a_puzzle_of_its_own():
    answers = {gold(of("leg_counting", index)) for index in range(5)}

    assert len(answers) > 1


def test_settings_reach_the_generator():
    few = puzzles("leg_counting", {"min_animals": 2, "max_animals": 2}, 0, 4)

    assert [entry["metadata"]["num_animals"] for entry in few] == [2, 2, 2, 2]


def test_partial_credit_needs_the_argument():
    # Its checker gives .05 to a list that is not one of moves.
    puzzle = of("knight_swap")

    assert reasoning_gym("[]", puzzle, where="whole", partial=True) == 0.05
    assert reasoning_gym("[]", puzzle, where="whole") == 0.0


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("binary_matrix", "__import__('os').getpid()"),
        ("n_queens", "print('x')"),
        ("spiral_matrix", "[x for x in y]"),
        ("string_insertion", "lambda x"),
        ("string_insertion", "f'{1}'"),
        ("countdown", "open(1)"),
        ("countdown", "x.subs(x, 1)"),
        ("countdown", "3 + x/x"),
        ("countdown", "3.5"),
        ("countdown", "2**3"),
        ("countdown", "7//2"),
        ("complex_arithmetic", "NaN"),
        ("number_sorting", "[NaN]"),
        ("complex_arithmetic", "inf+1j"),
        ("simple_integration", "exec"),
        ("simple_integration", "x; y"),
        ("polynomial_multiplication", "x**2 if x else y"),
        ("leg_counting", " \n"),
        ("leg_counting", "1" * 4_001),
    ],
)
def test_code_never_reaches_a_checker(name, answer):
    assert not is_plain(answer, name)
    assert reasoning_gym(answer, of(name), where="whole", partial=True) == 0.0


def test_nan_is_not_sorted():
    # NaN is at no distance from a number, and a list of NaN is in order.
    puzzle = of("number_sorting")
    result = puzzles("number_sorting", {}, 3, 5)
    answer = json.dumps([math.nan] * len(result[0]["metadata"]["original_numbers"]))

    assert result.score_answer(answer, result[0]) == 1.0
    assert reasoning_gym(answer, puzzle, where="whole", partial=True) == 0.0


def test_a_countdown_makes_its_target_of_the_numbers_alone():
    puzzle = of("countdown")
    result = puzzles("countdown", {}, 3, 5)
    told = result[0]["metadata"]
    ones = "+".join(["x/x"] * told["target"])
    answer = f"{'*'.join(map(str, told['numbers']))}*(x-x)+{ones}"

    assert result.score_answer(answer, result[0]) == 1.0
    assert reasoning_gym(answer, puzzle, where="whole", partial=True) == 0.0


def test_a_formula_that_takes_long_is_wrong_at_once():
    start = time.thread_time()

    assert reasoning_gym("9**9**9*x", of("simple_integration"), where="whole") == 0.0
    assert time.thread_time() - start < 20


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("binary_matrix", "[[0, 1], [1, 0]]"),
        ("string_insertion", "['A', 'B']"),
        ("countdown", "(3 + 4)*2"),
        ("intermediate_integration", "sqrt(x)*sin(2*x)/2 + C"),
        ("leg_counting", "1" * 4_000),
        ("word_sorting", "print, exec"),
    ],
)
def test_plain_answers_reach_the_checker(name, answer):
    assert is_plain(answer, name)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("leg_countin", {}, r"no data set 'leg_countin'.*leg_counting"),
        ("composite", {}, "composite judges by other data sets"),
        ("coin_flip", {}, "coin_flip accepts 0 as right"),
        ("propositional_logic", {}, "propositional_logic accepts a copied premise"),
        ("puzzle24", {}, "puzzle24 ignores the numbers"),
        ("game_of_life_halting", {}, "game_of_life_halting accepts any text as True"),
        (
            "leg_counting",
            {"animals": 3},
            r'leg_counting does not take the settings \{"animals": 3}',
        ),
        ("leg_counting", {"min_animals": 0}, "does not take the settings"),
    ],
)
def test_unknown_data_sets_and_settings_are_refused(name, settings, message):
    with pytest.raises(ConfigError, match=message):
        puzzles(name, settings, 0, 3)


# What a policy that knows nothing may write.
STOCK = ["0", "1", "-1", "nan", "None", "[]", "{}", "abc", "True", "yes", "0.5", "A"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of a file it reads
def test_every_data_set_takes_its_own_answers_and_no_stock_ones():
    factory = require("reasoning_gym.factory", "gym")
    refused, tried = [], 0
    for name in sorted(factory.DATASETS):
        try:
            result = puzzles(name, {}, 3, 5)
        except ConfigError:
            refused.append(name)
            continue
        for index in range(2):
            tried += 1
            answer, puzzle = result[index]["answer"], of(name, index)
            if answer is not None and is_plain(str(answer), name):
                assert reasoning_gym(str(answer), puzzle, where="whole") == 1.0, (name, answer)
            for stock in STOCK:
                given = reasoning_gym(stock, puzzle, where="whole")
                equal = str(answer).strip().lower() in (
                    stock.lower(),
                    f"{stock}.0",
                    "'" + stock + "'",
                )
                assert given < 1 or equal, (name, stock, answer)
    unsound = ["coin_flip", "composite", "game_of_life_halting", "propositional_logic", "puzzle24"]
    assert refused == unsound
    assert tried == 2 * (len(factory.DATASETS) - 5)
