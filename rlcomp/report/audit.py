"""Result of a verifier's audit, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict

from rich import box
from rich.table import Table

from rlcomp.audit.attacks import KINDS
from rlcomp.audit.audit import Audit, Case, Count

_MAX_CELL, _MAX_JSON = 60, 2000  # characters of a response in a table, and in JSON


def audit_tables(result: Audit, allowed: Collection[str] = ()) -> list[Table | str]:
    """Return gold answers by form, attacks by kind, the slowest call and the conclusions."""
    forms = _table("gold answers by form", "form", "tried", "accepted", "")
    for name, count in result.forms.items():
        forms.add_row(name, str(count.tried), _share(count.accepted, count.tried), _faults(count))
    kinds = _kinds_table(result, allowed)
    return [forms, kinds, _gold_line(result), *_conclusions(result, allowed)]


def _kinds_table(result: Audit, allowed: Collection[str]) -> Table:
    table = _table(
        "wrong answers by kind", "kind", "can be right", "tried", "accepted", "", "the first"
    )
    for kind, (description, rule) in KINDS.items():
        count = result.kinds.get(kind, Count())
        right = "allowed" if kind in allowed else rule
        accepted = _share(count.accepted, count.tried)
        first = _describe(count.example) if count.example else description
        table.add_row(kind, right, str(count.tried), accepted, _faults(count), first)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        right = column in ("tried", "accepted")
        table.add_column(column, overflow="fold", justify="right" if right else "left")
    return table


def _share(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.1%})" if part else "0"


def _faults(count: Count) -> str:
    """Return the numbers of tries without a verdict, in words."""
    faults = {"invalid": count.invalid, "raised": count.raised}
    return ", ".join(f"{number} {name}" for name, number in faults.items() if number)


def _describe(case: Case) -> str:
    cut = "…" if len(case.response) > _MAX_CELL else ""
    # An exception of a verifier may quote the response, with control characters for the terminal.
    why = f" ({repr(case.reason[:_MAX_CELL])[1:-1]})" if case.reason else ""
    return f"{case.response[:_MAX_CELL]!r}{cut} for {case.gold[:_MAX_CELL]!r}{why}"


def _gold_line(result: Audit) -> str:
    """Return a line on gold answers that were refused in every form."""
    gold = result.gold
    if not gold.tried:
        return "false rejects: no row has a gold answer to try"
    if gold.accepted == gold.tried:
        return f"false rejects: none, each of {gold.tried} gold answers is accepted in some form"
    refused = gold.tried - gold.accepted
    line = f"false rejects: {refused} of {gold.tried} gold answers in every form"
    if gold.example:
        line += f"; the first: {_describe(gold.example)}"
    if not gold.accepted:
        line += ". Few attacks could be tried: give the form of an answer, --form '...{answer}...'"
    return line


def _conclusions(result: Audit, allowed: Collection[str]) -> list[str]:
    lines = []
    if result.slowest is not None:
        seconds, case = result.slowest
        lines.append(f"slowest call: {seconds:.2g} s, of {_describe(case)}")
    kinds = result.false_accepts(allowed)
    if not kinds:
        return [*lines, "false accepts: none of a kind that can never be right"]
    tried = [result.kinds[kind] for kind in kinds]
    number, whole = sum(count.accepted for count in tried), sum(count.tried for count in tried)
    raised = sum(count.raised for count in tried)
    more = f", and {raised} exceptions, which stop a run" if raised else ""
    return [*lines, f"false accepts: {number} of {whole}{more} ({', '.join(kinds)})"]


def audit_as_json(result: Audit, allowed: Collection[str] = ()) -> dict[str, object]:
    """Return the whole audit in JSON types; responses are cut at 2,000 characters."""
    slowest = {"seconds": result.slowest[0], **_case(result.slowest[1])} if result.slowest else None
    return {
        "rows": result.rows,
        "gold": _count(result.gold),
        "forms": {name: _count(count) for name, count in result.forms.items()},
        "kinds": {
            kind: {"right": KINDS[kind].right, "allowed": kind in allowed, **_count(count)}
            for kind, count in result.kinds.items()
        },
        "false_accepts": result.false_accepts(allowed),
        "slowest": slowest,
    }


def _count(count: Count) -> dict[str, object]:
    numbers = asdict(count)
    return {**numbers, "example": _case(count.example) if count.example else None}


def _case(case: Case) -> Mapping[str, object]:
    return {name: text[:_MAX_JSON] for name, text in asdict(case).items()}
