r"""Mathematical equality of answers, checked by math-verify behind guards."""

from __future__ import annotations

import logging
import re
from types import ModuleType
from typing import Any, Literal

from rlcomp.errors import require
from rlcomp.functional.prefix_match import commands
from rlcomp.verify.answers import extract
from rlcomp.verify.math_cost import is_costly, is_large
from rlcomp.verify.math_text import chain_values, is_hedge, unicode_math
from rlcomp.verify.qualifiers import is_qualified, is_related

# Characters that are read of a response without a box.
_TAIL = 512
# The last formula in dollars, without a number after it.
_ENDING = re.compile(r"\$([^$]+)\$[^$0-9]*\Z")


def symbolic(
    response: str,
    answer: str,
    *,
    where: Literal["boxed", "tagged", "anywhere"] = "boxed",
    decimals: int = 6,
) -> float | None:
    r"""Return 1 if a response's answer is mathematically equal to the gold one, else 0.

    ``\frac12`` equals ``0.5``, ``x + 1`` equals ``1 + x``, ``9`` equals ``9\%``; so do sets in any
    order, intervals and their inequalities, and matrices. An answer is wrong if it hedges
    (:mod:`rlcomp.verify.math_text`), qualifies its value (:mod:`rlcomp.verify.qualifiers`), costs
    too much (:mod:`rlcomp.verify.math_cost`) or cannot be parsed by math-verify. A chain
    (``\frac{10}{4} = 2.5``) is wrong unless each value is equal.

    There is no time limit here: the guards keep it to about a second. For a strict limit run it in
    a worker that can be killed.

    Args:
        response: text of the policy.
        answer: the gold answer: LaTeX, bare, in a box, in dollars or at the end of a solution.
        where: the place in the response: a box or tags after the thought. ``anywhere`` also reads
            mathematics without a place, in 512 characters after the last "answer is" or at the end,
            and checks relations, denials and bases there, but not hedges and chains. Use it to
            evaluate a model without an agreed place, never to train one.
        decimals: decimal fractions are rounded to so many digits before they are compared.

    Returns:
        1 or 0; None if the gold answer cannot be read.

    Raises:
        MissingExtra: math-verify is not installed (extra ``verify``).

    Source:
        math-verify 0.9 (Kydlíček, Hugging Face), Apache-2.0.
    """
    library = _library()
    response, answer = unicode_math(response), unicode_math(answer)
    gold = _parse(library, answer if _is_marked_up(answer) else _formula(answer))
    if not gold:
        return None
    if where == "anywhere":
        tail = _answer_region(response)
        if is_costly(tail, answer) or is_related(_last_formula(tail), _gold_formula(answer)):
            return 0.0
        return float(_equal(library, gold, tail, decimals))
    candidate = extract(response, where)
    if candidate is None or is_costly(candidate, answer) or _is_uncommitted(candidate, answer):
        return 0.0
    values = map(_formula, chain_values(candidate))
    return float(all(_equal(library, gold, value, decimals) for value in values))


def _is_uncommitted(answer: str, gold: str) -> bool:
    """Return whether an answer hedges or qualifies its value."""
    return is_hedge(answer, gold) or is_qualified(answer, _gold_formula(gold))


def _gold_formula(gold: str) -> str:
    """Return the last box of a gold answer, else its last formula in dollars, else all of it."""
    boxes = commands(gold.encode("utf-8", "replace"), b"boxed")
    if boxes:
        return boxes[-1].decode()
    ending = _ENDING.search(gold)
    return ending[1] if ending else gold


def _formula(text: str) -> str:
    """Return a text without dollar signs as one formula between dollars."""
    return f"${text.replace(chr(92) + '$', '').replace('$', '')}$"


def _answer_region(response: str) -> str:
    """Return the text in which a response without an agreed place gives its answer.

    The boxes of the last line with a box; without boxes 512 characters: from the last "answer is",
    else at the end.
    """
    _, marker, text = response.rpartition("</think>")[2].rpartition("answer is")
    if r"\\boxed{" in text:  # escaped twice
        text = text.replace("\\\\", "\\")
    lines = [line for line in text.splitlines() if r"\boxed{" in line]
    if not lines:
        return marker + text[:_TAIL] if marker else text[-_TAIL:]
    contents = commands(lines[-1].encode("utf-8", "replace"), b"boxed")
    return " and ".join(_formula(box.decode()) for box in contents)


def _last_formula(tail: str) -> str:
    """Return the formula in dollars at a text's end, else the sentence after "answer is"."""
    ending = _ENDING.search(tail)
    if ending:
        return ending[1]
    _, marker, sentence = tail.rpartition("answer is")
    return re.split(r"\n|\. ", sentence.lstrip())[0] if marker else ""


def _library() -> ModuleType:
    library = require("math_verify", "verify")
    # Silence its warning that time limits are off: they work by signals, in a main thread only.
    for name in ("parser", "grader"):
        logging.getLogger(f"math_verify.{name}").setLevel(logging.ERROR)
    return library


def _is_marked_up(answer: str) -> bool:
    return any(sign in answer.replace(r"\$", "") for sign in ("$", r"\boxed", r"\(", r"\["))


def _parse(library: ModuleType, text: str) -> list[Any]:
    expressions: list[Any] = library.parse(text, parsing_timeout=None)
    return expressions


def _equal(library: ModuleType, gold: list[Any], text: str, decimals: int) -> bool:
    expressions = _parse(library, text)
    if expressions and is_large(expressions[0], gold[0]):
        return False
    return bool(
        library.verify(
            gold,
            expressions,
            float_rounding=decimals,
            allow_set_relation_comp=True,
            timeout_seconds=None,
        )
    )
