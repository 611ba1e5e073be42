"""Wrong answers near a right one, and the forms of responses with an answer."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction

from rlcomp.errors import UserError
from rlcomp.verify.number import committed_number

PLACEHOLDER = "{answer}"

# Forms that our own verifiers read, and most of other people's.
FORMS: Mapping[str, str] = {
    "plain": PLACEHOLDER,
    "boxed": rf"\boxed{{{PLACEHOLDER}}}",
    "tagged": f"<answer>{PLACEHOLDER}</answer>",
    "marked": f"#### {PLACEHOLDER}",
    "said": f"The answer is {PLACEHOLDER}.",
    "thought": rf"<think>I see.</think>\boxed{{{PLACEHOLDER}}}",
}


def fill_form(form: str, answer: str) -> str:
    r"""Return the response with an answer in a form.

    Examples:
        >>> fill_form(FORMS["boxed"], "7")
        '\\boxed{7}'
    """
    return form.replace(PLACEHOLDER, answer)


def all_forms(user_forms: Collection[str]) -> dict[str, str]:
    """Return the built-in forms and the user's forms, such as ``<final>{answer}</final>``.

    Raises:
        UserError: a form has no ``{answer}``.
    """
    for form in user_forms:
        if PLACEHOLDER not in form:
            raise UserError(
                f"--form {form!r:.80} has no {PLACEHOLDER}: put it in place of the answer, such as "
                f"--form '<final>{PLACEHOLDER}</final>'"
            )
    return {**FORMS, **{form: form for form in user_forms}}


# Longer numbers are skipped: the verifier's float might round the mutation away.
_NUMBER = re.compile(r"-?(?:[0-9]{1,12}|[0-9]{1,3}(?:,[0-9]{3}){1,3})(?:\.[0-9]{1,6})?")
_WORDS = re.compile(r"[A-Za-z]+(?: [A-Za-z]+)*")


def wrong_numbers(gold: str) -> dict[str, list[str]]:
    """Return numbers near a gold one, by mutation; empty if it is no plain number.

    ``off_by_one``, ``sign``, ``shifted`` (the decimal point), ``swapped`` (two digits) and
    ``dropped`` (a digit). Each differs in value from the gold one.

    Examples:
        >>> wrong_numbers("72")["off_by_one"], wrong_numbers("72")["swapped"]
        (['73', '71'], ['27'])
        >>> wrong_numbers("x + 1")
        {}
    """
    text = gold.strip()
    if not _NUMBER.fullmatch(text):
        return {}
    text = text.replace(",", "")
    value = Decimal(text)
    mutations = {
        "off_by_one": [_plain(value + 1), _plain(value - 1)],
        "sign": [_plain(-value)],
        "shifted": [_plain(value * 10), _plain(value / 10)],
        "swapped": _swap_digits(text),
        "dropped": [text[:-1]] if text[-2:-1].isdigit() else [],
    }
    return {
        kind: [number for number in texts if Decimal(number) != value]
        for kind, texts in mutations.items()
    }


def _plain(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _swap_digits(text: str) -> list[str]:
    """Swap the first two neighbouring digits that differ."""
    for pair in re.finditer(r"(?=([0-9])([0-9]))", text):
        if pair[1] != pair[2]:
            start = pair.start()
            return [text[:start] + pair[2] + pair[1] + text[start + 2 :]]
    return []


def wrong_words(gold: str) -> list[str]:
    """Return a gold answer of plain words with another last letter, and without it.

    Examples:
        >>> wrong_words("Rome"), wrong_words("B"), wrong_words("x^2")
        (['Romf', 'Rom'], ['C'], [])
    """
    text = gold.strip()
    if not _WORDS.fullmatch(text):
        return []
    last = "a" if text[-1] == "z" else "A" if text[-1] == "Z" else chr(ord(text[-1]) + 1)
    shorter = [text[:-1]] if len(text.split()[-1]) > 2 else []
    return [text[:-1] + last, *shorter]


def increment_number(gold: str) -> list[str]:
    """Increase the first number of a text by one: nearly always wrong, but not surely.

    The list holds the changed text; it is empty for a text without a number.

    Examples:
        >>> increment_number("16*12+15"), increment_number("Rome")
        (['17*12+15'], [])
    """
    match = re.search(r"[0-9]{1,12}", gold)
    if match is None:
        return []
    return [gold[: match.start()] + str(int(match[0]) + 1) + gold[match.end() :]]


def surely_differ(first: str, second: str) -> bool:
    r"""Test if two answers, numbers or plain words, mean different things to any verifier.

    Examples:
        >>> surely_differ("0.5", r"\frac12"), surely_differ("72", "73"), surely_differ("a", "B")
        (False, True, True)
        >>> surely_differ("x+1", "1+x")
        False
    """
    values = value_of(first), value_of(second)
    if None not in values:
        return values[0] != values[1]
    return all(_WORDS.fullmatch(text.strip()) for text in (first, second)) and (
        first.strip().casefold() != second.strip().casefold()
    )


def value_of(gold: str) -> Fraction | None:
    """Return a gold answer as a number; None if it is anything else, or above 40 characters."""
    if len(gold) > 40 or _has_letters(gold):
        return None
    return committed_number(gold, where="last")


def _has_letters(gold: str) -> bool:
    """Test if an answer has letters outside LaTeX commands: a number is then only part of it."""
    return bool(re.search(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", gold)))


def different_gold(gold: str, others: Iterable[str]) -> str | None:
    """Return the first of other rows' gold answers that surely differs from this one, or None."""
    return next((other for other in others if surely_differ(gold, other)), None)
