"""IFEval: verifiable instructions, checked strictly or loosely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from rlcomp.errors import DataError, in_one_line, nearest
from rlcomp.verify.ifeval_rules import RULES


def ifeval(
    response: str,
    instruction_id_list: Sequence[str],
    kwargs: Sequence[Mapping[str, object]],
    *,
    loose: bool = False,
    partial: bool = False,
) -> float:
    """Return 1 if a response follows all its instructions, else 0; or the share that it follows.

    Args:
        response: what the policy wrote; an empty one follows no instruction.
        instruction_id_list: names such as ``punctuation:no_comma``.
        kwargs: arguments of each instruction; None counts as missing.
        loose: see :func:`followed`.
        partial: return the share of the followed instructions instead of all or nothing.

    Raises:
        DataError: an instruction is unknown, or it does not take its arguments.

    Source:
        Zhou et al. 2023, arXiv:2311.07911 (prompt-level and instruction-level accuracy).

    Examples:
        >>> rules = ["punctuation:no_comma", "startend:quotation"]
        >>> ifeval("one, two", rules, [{}, {}]), ifeval('"one', rules, [{}, {}], partial=True)
        (0.0, 0.5)
    """
    verdicts = followed(response, instruction_id_list, kwargs, loose=loose)
    return sum(verdicts) / len(verdicts) if partial else float(all(verdicts))


def followed(
    response: str,
    instruction_id_list: Sequence[str],
    kwargs: Sequence[Mapping[str, object]],
    *,
    loose: bool = False,
) -> list[bool]:
    """Return whether each instruction is followed.

    Loose: by any of eight versions of the response, with and without its first line, its last line
    and its asterisks, because models introduce their texts.

    Raises:
        DataError: an instruction is unknown, or it does not take its arguments.

    Source:
        Zhou et al. 2023, arXiv:2311.07911.
    """
    _check(instruction_id_list, kwargs)
    texts = [text for text in (_versions(response) if loose else [response]) if text.strip()]
    return [
        any(_follows(text, name, arguments) for text in texts)
        for name, arguments in zip(instruction_id_list, kwargs, strict=True)
    ]


def _versions(response: str) -> list[str]:
    lines = response.split("\n")
    cuts = [response, *("\n".join(lines[a:b]).strip() for a, b in ((1, None), (0, -1), (1, -1)))]
    return [text.replace("*", mark) for text, mark in product(cuts, ("*", ""))]


def _follows(text: str, name: str, arguments: Mapping[str, object]) -> bool:
    known = {key: value for key, value in arguments.items() if value is not None}
    try:
        return RULES[name](text, **known)
    # An unknown argument, a number for a text, a paragraph or a relation that does not exist.
    except (TypeError, AttributeError, LookupError) as error:
        raise DataError(
            f"the instruction {name!r} cannot be given {known!r:.200}: {in_one_line(error)}"
        ) from error


def _check(names: Sequence[str], kwargs: Sequence[Mapping[str, object]]) -> None:
    if not _all_are(str, names) or not _all_are(Mapping, kwargs):
        raise DataError(
            f"instruction_id_list is {names!r:.80} and kwargs is {kwargs!r:.80}: must be a list of "
            "names and a list of mappings, as in the data set"
        )
    if not names or len(names) != len(kwargs):
        raise DataError(
            f"there are {len(names)} instructions in instruction_id_list and {len(kwargs)} entries "
            "in kwargs: give each instruction its arguments, {} where it takes none"
        )
    for name in names:
        if name not in RULES:
            raise DataError(f"{name!r} is no instruction of IFEval{nearest(name, RULES)}")


def _all_are(kind: type, values: object) -> bool:
    return isinstance(values, (list, tuple)) and all(isinstance(each, kind) for each in values)
