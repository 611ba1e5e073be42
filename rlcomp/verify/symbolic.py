r"""Mathematical equality of answers, by math-verify behind guards."""

from __future__ import annotations

import logging
import re
from types import ModuleType
from typing import Any, Literal

from rlcomp.errors import require
from rlcomp.functional.prefix_match import commands
from rlcomp.verify.answers import extract
from rlcomp.verify.math_cost import costs, is_large
from rlcomp.verify.math_hedge import claims, is_hedge
from rlcomp.verify.qualifiers import is_qualified, is_related
from rlcomp.verify.unicode_math import unicode_math

# Of a response without an agreed place: characters at its end that are looked at.
_TAIL = 512
# The last formula in dollars, without a number behind it.
_ENDING = re.compile(r"\$([^$]+)\$[^$0-9]*\Z")


def symbolic(
    response: str,
    answer: str,
    *,
    where: Literal["boxed", "tagged", "anywhere"] = "boxed",
    decimals: int = 6,
) -> float | None:
    r"""1 if a response's answer is mathematically equal to the gold one, else 0.

    Equal are ``\frac12`` and ``0.5``, ``x + 1`` and ``1 + x``, sets in any order, intervals and
    inequalities, matrices, ``9`` and ``9\%``. Wrong is an answer that hedges
    (:mod:`rlcomp.verify.math_hedge`), that costs too much (:mod:`rlcomp.verify.math_cost`) or that
    math-verify cannot parse, and a chain of values (``\frac{10}{4} = 2.5``) unless each is equal.

    It has no time limit of its own: the guards keep it to about a second, a worker that can be
    killed to the letter.

    Args:
        response: what the policy wrote.
        answer: gold: LaTeX, bare or in a box, in dollars or at the end of a worked solution.
        where: of the response: a box or tags behind the thought; ``anywhere`` reads whatever looks
            like mathematics in its last 512 characters: to evaluate a model that was not told where
            to answer, never to train one.
        decimals: to which decimal fractions are rounded before they are compared.

    Returns:
        1 or 0; None if the gold answer cannot be read.

    Raises:
        MissingExtra: math-verify is not installed (extra ``verify``).

    Source:
        math-verify 0.9 (Kydlíček, Hugging Face), Apache-2.0.
    """
    library = _library()
    response, answer = unicode_math(response), unicode_math(answer)
    gold = _parsed(library, answer if _is_marked_up(answer) else _formula(answer))
    if not gold:
        return None
    if where == "anywhere":
        tail = _end_of(response)
        if costs(tail, answer) or is_related(_last_formula(tail), _gold_formula(answer)):
            return 0.0
        return float(_equal(library, gold, tail, decimals))
    given = extract(response, where)
    if given is None or costs(given, answer) or _is_open(given, answer):
        return 0.0
    values = map(_formula, claims(given))
    return float(all(_equal(library, gold, value, decimals) for value in values))


def _is_open(answer: str, gold: str) -> bool:
    """Return whether an answer gives anything but one value."""
    return is_hedge(answer, gold) or is_qualified(answer, _gold_formula(gold))


def _gold_formula(gold: str) -> str:
    """Return the last box of a gold answer, else its last formula in dollars, else all of it."""
    boxes = commands(gold.encode("utf-8", "replace"), b"boxed")
    if boxes:
        return boxes[-1].decode()
    ending = _ENDING.search(gold)
    return ending[1] if ending else gold


def _formula(text: str) -> str:
    return f"${text.replace(chr(92) + '$', '').replace('$', '')}$"


def _end_of(response: str) -> str:
    """The last "answer is" with what follows, of that the last line of boxes, or the end."""
    _, marker, said = response.rpartition("</think>")[2].rpartition("answer is")
    if r"\\boxed{" in said:  # escaped twice
        said = said.replace("\\\\", "\\")
    boxes = [line for line in said.splitlines() if r"\boxed{" in line]
    if not boxes:
        return marker + said[:_TAIL] if marker else said[-_TAIL:]
    contents = commands(boxes[-1].encode("utf-8", "replace"), b"boxed")
    return " and ".join(_formula(box.decode()) for box in contents)


def _last_formula(tail: str) -> str:
    """Return the formula in dollars at a text's end, else the sentence behind "answer is"."""
    ending = _ENDING.search(tail)
    if ending:
        return ending[1]
    _, marker, sentence = tail.rpartition("answer is")
    return re.split(r"\n|\. ", sentence.lstrip())[0] if marker else ""


def _library() -> ModuleType:
    library = require("math_verify", "verify")
    # They warn once that the time limits by signal are off, which work in a main thread only.
    for name in ("parser", "grader"):
        logging.getLogger(f"math_verify.{name}").setLevel(logging.ERROR)
    return library


def _is_marked_up(answer: str) -> bool:
    return any(sign in answer.replace(r"\$", "") for sign in ("$", r"\boxed", r"\(", r"\["))


def _parsed(library: ModuleType, text: str) -> list[Any]:
    found: list[Any] = library.parse(text, parsing_timeout=None)
    return found


def _equal(library: ModuleType, gold: list[Any], text: str, decimals: int) -> bool:
    given = _parsed(library, text)
    if given and is_large(given[0], gold[0]):
        return False
    return bool(
        library.verify(
            gold,
            given,
            float_rounding=decimals,
            allow_set_relation_comp=True,
            timeout_seconds=None,
        )
    )
