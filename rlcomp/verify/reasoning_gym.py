"""Scores of answers to reasoning-gym's puzzles by its own checkers, with checks of the answers.

Eight checkers evaluate an answer as Python or as a formula: they receive only plain lists and plain
formulas. Four checkers accept wrong answers and are refused, and so is ``composite``, which runs
the checkers of other data sets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rlcomp.errors import ConfigError, nearest, require
from rlcomp.verify.answers import Where, extract
from rlcomp.verify.math_cost import is_costly

# Most characters of an answer.
_LONGEST = 4_000
# Checkers that call eval on a list, and checkers that call sympy's parser on a formula.
_LISTS = frozenset({"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"})
_FORMULAS = frozenset(
    {"intermediate_integration", "polynomial_multiplication", "simple_integration"}
)
# Checkers that accept NaN: its distance to the right number is never too large.
_NUMBERS = frozenset({"complex_arithmetic", "number_sorting"})
# Version 0.1.25 accepts wrong answers for each; composite runs checkers of other data sets.
_UNSOUND = {
    "coin_flip": "accepts 0 as right",
    "game_of_life_halting": "accepts any text as True",
    "propositional_logic": "accepts a copied premise as a conclusion",
    "puzzle24": "ignores the numbers that an answer uses",
    "composite": "judges by other data sets: choose one of them",
}
# Excludes calls, attributes, comprehensions and format strings.
_PLAIN_LIST = re.compile(r"""[\w\s,.\[\]'"-]*""", re.ASCII)
_PLAIN_FORMULA = re.compile(r"[\w\s+\-*/^().]*", re.ASCII)
# Only integers: x/x would be a 1 without a number, and 3.5 would count as two numbers.
_PLAIN_SUM = re.compile(r"[0-9\s+\-*/()]*", re.ASCII)
_WORDS = re.compile(r"[^\W\d]\w*")
_FUNCTION_NAMES = "sin cos tan cot sec csc asin acos atan sinh cosh tanh exp log ln sqrt Abs pi E"
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())


def puzzles(name: str, settings: Mapping[str, Any], seed: int, size: int) -> Any:  # noqa: ANN401
    """Return a data set of reasoning-gym with ``len`` and ``[index]``, cached by the arguments.

    Args:
        name: name of the data set, such as ``leg_counting``.
        settings: reasoning-gym's settings of the difficulty.
        seed: fixes the puzzles.
        size: number of puzzles.

    Raises:
        ConfigError: there is no such data set, it has no such settings, or its checker accepts
            wrong answers.
        MissingExtra: reasoning-gym is not installed (extra ``gym``).
    """
    return _cached_puzzles(name, json.dumps(settings, sort_keys=True), seed, size)


@lru_cache(maxsize=32)
def _cached_puzzles(name: str, settings: str, seed: int, size: int) -> Any:  # noqa: ANN401
    known = require("reasoning_gym.factory", "gym").DATASETS
    if name in _UNSOUND:
        raise ConfigError(f"the checker of reasoning-gym's {name} {_UNSOUND[name]}")
    if name not in known:
        raise ConfigError(f"reasoning-gym has no data set {name!r}{nearest(name, known)}")
    gym = require("reasoning_gym", "gym")
    try:
        return gym.create_dataset(name, seed=seed, size=size, **json.loads(settings))
    except (TypeError, AssertionError, ValueError) as error:
        raise ConfigError(
            f"reasoning-gym's {name} does not take the settings {settings}: {error}"
        ) from error


def question(puzzle: Mapping[str, Any]) -> str:
    """Return the question of a puzzle.

    Args:
        puzzle: ``name``, ``settings``, ``seed`` and ``size`` of :func:`puzzles`, and ``index``.
    """
    return str(_dataset(puzzle)[int(puzzle["index"])]["question"])


def _dataset(puzzle: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return the data set of a puzzle."""
    name, settings = str(puzzle["name"]), puzzle["settings"]
    return puzzles(name, settings, int(puzzle["seed"]), int(puzzle["size"]))


def reasoning_gym(
    response: str, puzzle: Mapping[str, Any], *, where: Where = "tagged", partial: bool = False
) -> float:
    """Return the score of a response's answer by the puzzle's checker: 1 if right, else 0.

    It runs code of reasoning-gym on text of the policy: call it in a worker with limits. If the
    checker fails on an answer, but not on the gold one, the answer is wrong. A formula that takes
    long is wrong too (:mod:`rlcomp.verify.math_cost`).

    Args:
        response: text of the policy.
        puzzle: see :func:`question`.
        where: position of the answer after the thought.
        partial: return scores between 0 and 1 too; some checkers give .01 to any text.

    Raises:
        ConfigError, MissingExtra: see :func:`puzzles`.
        Exception: the checker fails on the gold answer, too.
    """
    answer = extract(response, where)
    name = str(puzzle["name"])
    if answer is None or not is_plain(answer, name):
        return 0.0
    dataset = _dataset(puzzle)
    entry = dataset[int(puzzle["index"])]
    if name in _FORMULAS and is_costly(answer, str(entry["answer"])):
        return 0.0
    try:
        score = float(dataset.score_answer(answer, entry))
    except Exception:
        dataset.score_answer(entry["answer"], entry)  # raises if the checker itself is at fault
        return 0.0
    return score if partial else float(score >= 1)


def is_plain(answer: str, name: str) -> bool:
    """Return whether an answer may be passed to a checker.

    Args:
        answer: must not be empty or long.
        name: name of the data set; a checker that evaluates answers gets lists or formulas only.

    Examples:
        >>> is_plain("[[0, 1]]", "binary_matrix"), is_plain("exit()", "binary_matrix")
        (True, False)
        >>> is_plain("x**2/2 + C", "simple_integration"), is_plain("open(x)", "countdown")
        (True, False)
    """
    if not answer.strip() or len(answer) > _LONGEST:
        return False
    if name in _NUMBERS and re.search("nan|inf", answer, re.IGNORECASE):
        return False
    if name == "countdown":
        return bool(_PLAIN_SUM.fullmatch(answer)) and not re.search(r"\*\*|//", answer)
    if name in _LISTS:
        words = {*_WORDS.findall(answer)}
        return bool(_PLAIN_LIST.fullmatch(answer)) and not words & {"for", "lambda"}
    if name in _FORMULAS:
        return bool(_PLAIN_FORMULA.fullmatch(answer)) and all(
            len(word) == 1 or word in _FUNCTIONS for word in _WORDS.findall(answer)
        )
    return True
