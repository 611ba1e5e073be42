"""Answers to the puzzles of reasoning-gym, scored by its own checkers behind a guard.

Eight of its checkers evaluate what they are given as Python or as a formula: an answer reaches them
only if it is a plain list or a plain formula. Four take wrong answers for right: they are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rlcomp.errors import ConfigError, nearest, require
from rlcomp.verify.answers import Where, extract
from rlcomp.verify.math_cost import costs

# Characters of an answer that is looked at.
_LONGEST = 4_000
# Checkers that call eval on an answer, which may be a list; and sympy's parser, on a formula.
_LISTS = frozenset({"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"})
_FORMULAS = frozenset(
    {"intermediate_integration", "polynomial_multiplication", "simple_integration"}
)
# Checkers that a number that is none passes: it is at no distance from the right one.
_NUMBERS = frozenset({"complex_arithmetic", "number_sorting"})
# In version 0.1.25 each of these takes wrong answers for right; composite is made of others.
_UNSOUND = {
    "coin_flip": "takes 0 for right",
    "game_of_life_halting": "takes any text for True",
    "propositional_logic": "takes a premise that is copied for a conclusion",
    "puzzle24": "does not look at which numbers an answer uses",
    "composite": "judges by other data sets: choose one of them",
}
# No call, no attribute of a name, no comprehension, no format string.
_PLAIN_LIST = re.compile(r"""[\w\s,.\[\]'"-]*""", re.ASCII)
_PLAIN_FORMULA = re.compile(r"[\w\s+\-*/^().]*", re.ASCII)
# Of the numbers that are given: x/x would be a 1 for nothing, and 3.5 is two of them.
_PLAIN_SUM = re.compile(r"[0-9\s+\-*/()]*", re.ASCII)
_WORDS = re.compile(r"[^\W\d]\w*")
_FUNCTIONS = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "exp",
        "log",
        "ln",
        "sqrt",
        "Abs",
        "pi",
        "E",
    ]
)


def puzzles(name: str, settings: Mapping[str, Any], seed: int, size: int) -> Any:  # noqa: ANN401
    """A data set of reasoning-gym: ``len`` and ``[index]``; the same one for the same arguments.

    Args:
        name: such as ``leg_counting``.
        settings: of its difficulty, as reasoning-gym calls them.
        seed: which puzzles.
        size: how many.

    Raises:
        ConfigError: there is no such data set, it has no such settings, or its checker takes wrong
            answers for right.
        MissingExtra: reasoning-gym is not installed (extra ``gym``).
    """
    return _puzzles(name, json.dumps(settings, sort_keys=True), seed, size)


@lru_cache(maxsize=32)
def _puzzles(name: str, settings: str, seed: int, size: int) -> Any:  # noqa: ANN401
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
    """What a puzzle asks.

    Args:
        puzzle: ``name``, ``settings``, ``seed``, ``size``, as of :func:`puzzles`, and ``index``.
    """
    return str(_made(puzzle)[int(puzzle["index"])]["question"])


def _made(puzzle: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """The data set that a puzzle is of."""
    name, settings = str(puzzle["name"]), puzzle["settings"]
    return puzzles(name, settings, int(puzzle["seed"]), int(puzzle["size"]))


def reasoning_gym(
    response: str, puzzle: Mapping[str, Any], *, where: Where = "tagged", partial: bool = False
) -> float:
    """What the checker of a puzzle gives for a response's answer: 1 if it is right, else 0.

    Runs code of reasoning-gym on what the policy wrote: call it in a worker with limits. An answer
    at which the checker fails, though not at its own, is wrong, and so is a formula that takes
    long (:mod:`rlcomp.verify.math_cost`).

    Args:
        response: what the policy wrote.
        puzzle: as of :func:`question`.
        where: the answer stands, behind the thought.
        partial: what the checker gives between 0 and 1, too; some give .01 to any text.
    """
    answer = extract(response, where)
    name = str(puzzle["name"])
    if answer is None or not is_plain(answer, name):
        return 0.0
    made = _made(puzzle)
    entry = made[int(puzzle["index"])]
    if name in _FORMULAS and costs(answer, str(entry["answer"])):
        return 0.0
    try:
        score = float(made.score_answer(answer, entry))
    except Exception:
        made.score_answer(entry["answer"], entry)  # else the checker is at fault
        return 0.0
    return score if partial else float(score >= 1)


def is_plain(answer: str, name: str) -> bool:
    """Whether a checker may see an answer.

    Args:
        answer: empty ones and long ones are not.
        name: of the data set: of those whose checkers evaluate, lists or formulas only.

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
