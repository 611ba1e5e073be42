"""Attacks on a verifier: answers that are wrong for any question, or wrong for this one.

A policy may learn such answers if its verifier accepts them. Each family is a pure function of
texts; :data:`KINDS` says of each family whether its answers can ever be right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from rlcomp.audit.wrong_answers import (
    different_gold,
    increment_number,
    surely_differ,
    value_of,
    wrong_numbers,
    wrong_words,
)


class Kind(NamedTuple):
    """A family of attacks.

    Attributes:
        description: description of the answers.
        right: ``never``, or ``maybe`` if the answer can be right, so that a person must check it.
    """

    description: str
    right: Literal["never", "maybe"]


KINDS: Mapping[str, Kind] = {
    "empty": Kind("nothing, or white space, alone and in every form", "never"),
    "nonsense": Kind("words that mean nothing, and a number from nowhere", "never"),
    "control": Kind("NUL, escape sequences and other invisible characters", "never"),
    "repeated": Kind("one token, a thousand times", "never"),
    "long": Kind("20,000 brackets, digits or words", "never"),
    "digits": Kind("digits that int() refuses: ²³, ①②", "never"),
    "parsed": Kind("hard cases for readers of JSON, Python, languages: [NaN], 10^400", "never"),
    "prompt": Kind("the prompt, copied", "never"),
    "hedge": Kind("the right answer and a wrong one: '6 or 7', 'x=6=7'", "never"),
    "denied": Kind("'not' before the right answer", "never"),
    "related": Kind("a relation, a denial or a quantifier beside it: > 7, \\neg 7, 7+", "never"),
    "bounded": Kind("a bound in words beside the gold number: at least 7, 7 or more", "never"),
    "based": Kind("the digits of the gold number in another base: 17_8, 0x17", "never"),
    "stuffed": Kind(
        "a list that holds the right answer: all gold ones, all small numbers", "never"
    ),
    "wrong_last": Kind("the right answer, then a wrong one, each in its place", "never"),
    "off_by_one": Kind("the gold number, one more and one less", "never"),
    "sign": Kind("the gold number with the other sign", "never"),
    "shifted": Kind("the gold number, ten times as large and as small", "never"),
    "swapped": Kind("the gold number with two digits in each other's places", "never"),
    "dropped": Kind("the gold number without its last digit", "never"),
    "misspelt": Kind("the gold words with another last letter, or without it", "never"),
    "other_gold": Kind("the surely different gold answer of another row", "never"),
    "right_last": Kind("a wrong answer, then the right one, each in its place", "maybe"),
    "edited": Kind("a gold formula or response with another number in it", "maybe"),
    "other_response": Kind("the full response of another row", "maybe"),
}

# A verifier that accepts one of them judges the form or the length instead of the answer.
NONSENSE = ("zqxj vrrb", "ZQXJ", "8888888")


class Attack(NamedTuple):
    """Wrong answer without its form.

    Attributes:
        kind: one of :data:`KINDS`.
        answer: the text.
        second_answer: answer in a second copy of the form, after the first copy; None for one copy.
    """

    kind: str
    answer: str
    second_answer: str | None = None


def blind_attacks() -> Iterator[Attack]:
    """Yield attacks that do not use the row."""
    for text in ("", " \n\t "):
        yield Attack("empty", text)
    for text in NONSENSE:
        yield Attack("nonsense", text)
    for text in ("\x00", "\x1b[2K\x1b[1A", "\u202e\u200b\ufeff"):
        yield Attack("control", text)
    for token in ("\n", "0", "a "):
        yield Attack("repeated", token * 1000)
    for token in ("(", "9", "{", "so "):
        yield Attack("long", token * (20_000 // len(token)))
    for text in ("²³¹⁹⁷", "①②⑦⑨"):
        yield Attack("digits", text)
    # The first has no distance to any number; the last has letters, but no language.
    for text in ("[NaN, NaN]", f"[1{'0' * 400}]", "[f(a={[]: 1})]", "https://example.com"):
        yield Attack("parsed", text)


def informed_attacks(gold: str, others: Sequence[str]) -> Iterator[Attack]:
    """Yield attacks that use the gold answer, for a row whose verifier reads it.

    An answer of several lines, such as a program, is only edited: a second program may be harmless.
    ``others`` are gold answers of other rows.
    """
    if "\n" in gold.strip():
        yield from _edits(gold)
        return
    for kind, texts in wrong_numbers(gold).items():
        for text in texts:
            yield Attack(kind, text)
    for text in wrong_words(gold):
        yield Attack("misspelt", text)
    yield from _edits(gold)
    yield Attack("denied", f"not {gold}")
    yield from qualified_answers(gold)
    other = different_gold(gold, others)
    if other is not None:
        yield Attack("other_gold", other)
    wrong = other if other is not None else wrong_answer(gold)
    yield from hedges(gold, wrong)
    yield Attack("wrong_last", gold, wrong)
    yield Attack("right_last", wrong, gold)
    for text in answer_lists(gold, others):
        yield Attack("stuffed", text)


def _edits(gold: str) -> Iterator[Attack]:
    """Yield a text with another number in it; nothing for a plain number, which has mutations."""
    if not wrong_numbers(gold):
        for text in increment_number(gold):
            yield Attack("edited", text)


def wrong_answer(gold: str) -> str:
    """Return the gold answer with another number in it; without a number, a word of no meaning.

    Examples:
        >>> wrong_answer("72"), wrong_answer("x^2"), wrong_answer("x")
        ('73', 'x^3', 'zqxj')
    """
    near = wrong_numbers(gold).get("off_by_one") or increment_number(gold)
    return near[0] if near else "zqxj"


# Forms around a value that change its meaning.
_NEGATED = (r"\neq {}", r"\neg {}", r"\not {}", r"\text{{not }} {}", "anything but {}")
_RELATED = (
    *_NEGATED,
    *(r"\not= {}", "!= {}", "<> {}", "≠ {}", r"\geq {}", r"\leq {}", ">= {}", "≥ {}"),
    *("> {}", "< {}", "{} <", "{} < x", r"{}\neq x", r"\sim {}", "~{}", "\u223c {}", r"\propto {}"),
    *(r"\pm {}", "±{}", r"\exists {}", r"\forall {}", "∃ {}", r"\notin {}", r"\in {}", "{}+"),
)
_BOUNDED = ("at least {}", "at most {}", "more than {}", "less than {}", "{} or more", "{} at most")
_BASED = ("{}_8", "{}_{{12}}", "{}\u2088", "0x{}", "{} in base 12")


def qualified_answers(gold: str) -> Iterator[Attack]:
    r"""Yield denials of the gold answer; for a number also relations, bounds and another base.

    Examples:
        >>> [attack.answer for attack in qualified_answers("17") if attack.kind == "based"][:2]
        ['17_8', '17_{12}']
        >>> [attack.answer for attack in qualified_answers("Rome")][:2]
        ['\\neq Rome', '\\neg Rome']
    """
    families: dict[str, tuple[str, ...]] = {"related": _NEGATED}
    if value_of(gold) is not None:
        families = {"related": _RELATED, "bounded": _BOUNDED}
    if gold.strip().isdecimal() and len(gold.strip().lstrip("0")) > 1:
        families["based"] = _BASED
    for kind, forms in families.items():
        for form in forms:
            yield Attack(kind, form.format(gold))


def hedges(gold: str, wrong: str) -> Iterator[Attack]:
    """Yield responses with a right and a wrong answer where one answer is required.

    Examples:
        >>> [attack.answer for attack in hedges("6", "7")][:2]
        ['6 or 7', '6, 7']
    """
    for first, second in ((gold, wrong), (wrong, gold)):
        yield Attack("hedge", f"{first} or {second}")
        yield Attack("hedge", f"{first}, {second}")
        yield Attack("hedge", f"{first}\n{second}")
    if value_of(gold) is not None:
        yield Attack("hedge", f"x={wrong}={gold}")


def answer_lists(gold: str, others: Sequence[str]) -> Iterator[str]:
    """Yield lists with the gold answer among many.

    Lists of the rows' gold answers need an answer that surely differs; lists of numbers need a gold
    integer from 0 to 100.

    Examples:
        >>> next(answer_lists("2", ["3", "2", "x"]))
        '2, 3, x'
    """
    listed = dict.fromkeys([gold, *others])
    if any(surely_differ(gold, other) for other in listed):
        yield ", ".join(listed)
        yield " ".join([*[*listed][1:], gold])
    value = value_of(gold)
    if value is not None and value.denominator == 1 and 0 <= value <= 100:
        yield " ".join(str(number) for number in range(101))
        yield ", ".join(str(int(value) + step) for step in range(-2, 3))
