"""Forms of a response: the places in which verifiers look for an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rlcomp.errors import UserError

PLACE = "{answer}"

# Forms that our own verifiers read, and most of other people's.
FORMS: Mapping[str, str] = {
    "plain": PLACE,
    "boxed": r"\boxed{{answer}}",
    "tagged": f"<answer>{PLACE}</answer>",
    "marked": f"#### {PLACE}",
    "said": f"The answer is {PLACE}.",
    "thought": rf"<think>I see.</think>\boxed{{{PLACE}}}",
}


def dressed(form: str, answer: str) -> str:
    r"""Return the response that gives an answer in a form.

    Examples:
        >>> dressed(FORMS["boxed"], "7")
        '\\boxed{7}'
    """
    return form.replace(PLACE, answer)


def all_forms(own: Iterable[str]) -> dict[str, str]:
    """Return the built-in forms and the user's forms, each under its own text.

    Args:
        own: forms such as ``<final>{answer}</final>``.

    Raises:
        UserError: a form has no place for the answer.
    """
    for form in own:
        if PLACE not in form:
            raise UserError(
                f"--form {form!r:.80} has no {PLACE} in it: write where the answer stands, such as "
                f"--form '<final>{PLACE}</final>'"
            )
    return {**FORMS, **{form: form for form in own}}
