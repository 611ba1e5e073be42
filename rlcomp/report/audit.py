"""What an audit of a verifier found, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict

from rich import box
from rich.table import Table

from rlcomp.audit.attacks import KINDS
from rlcomp.audit.audit import Audit, Case, Count

# Characters of a response in a table, and in JSON.
_SHOWN, _KEPT = 60, 2000


def audit_tables(found: Audit, allowed: Collection[str] = ()) -> list[Table | str]:
    """Gold answers by form, attacks by kind, the slowest call, and what it all means."""
    lines = [_forms(found), _kinds(found, allowed)]
    return [*lines, *_gold_told(found), *_told(found, allowed)]


def _forms(found: Audit) -> Table:
    table = _table("gold answers by form", "form", "tried", "accepted", "")
    for name, count in found.forms.items():
        table.add_row(name, str(count.tried), _share(count.accepted, count.tried), _faults(count))
    return table


def _kinds(found: Audit, allowed: Collection[str]) -> Table:
    table = _table(
        "wrong answers by kind", "kind", "can be right", "tried", "accepted", "", "the first"
    )
    for kind, (told, rule) in KINDS.items():
        count = found.kinds.get(kind, Count())
        right = "allowed" if kind in allowed else rule
        accepted = _share(count.accepted, count.tried)
        shown = _shown(count.example) if count.example else told
        table.add_row(kind, right, str(count.tried), accepted, _faults(count), shown)
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
    """Rows that could not be judged."""
    faults = {"invalid": count.invalid, "raised": count.raised}
    return ", ".join(f"{number} {name}" for name, number in faults.items() if number)


def _shown(case: Case) -> str:
    cut = "…" if len(case.response) > _SHOWN else ""
    # What a verifier raises may quote the response, and steer a terminal.
    why = f" ({repr(case.why[:_SHOWN])[1:-1]})" if case.why else ""
    return f"{case.response[:_SHOWN]!r}{cut} for {case.gold[:_SHOWN]!r}{why}"


def _gold_told(found: Audit) -> list[str]:
    """What is to say of gold answers that were refused in every form."""
    gold = found.gold
    if not gold.tried:
        return ["false rejects: no row has a gold answer to try"]
    if gold.accepted == gold.tried:
        return [f"false rejects: none, each of {gold.tried} gold answers is accepted in some form"]
    refused = gold.tried - gold.accepted
    first = f"; the first: {_shown(gold.example)}" if gold.example else ""
    less = (
        ". Little of the above was tried: say how an answer is given, --form '...{answer}...'"
        if not gold.accepted
        else ""
    )
    return [f"false rejects: {refused} of {gold.tried} gold answers in every form{first}{less}"]


def _told(found: Audit, allowed: Collection[str]) -> list[str]:
    lines = []
    if found.slowest is not None:
        seconds, case = found.slowest
        lines.append(f"slowest call: {seconds:.2g} s, of {_shown(case)}")
    kinds = found.false_accepts(allowed)
    if not kinds:
        return [*lines, "false accepts: none of a kind that can never be right"]
    tried = [found.kinds[kind] for kind in kinds]
    number, whole = sum(each.accepted for each in tried), sum(each.tried for each in tried)
    raised = sum(each.raised for each in tried)
    more = f", and {raised} raised, which stops a run" if raised else ""
    return [*lines, f"false accepts: {number} of {whole}{more} ({', '.join(kinds)})"]


def audit_as_json(found: Audit, allowed: Collection[str] = ()) -> dict[str, object]:
    """The whole audit, as JSON holds it; responses are cut at 2,000 characters."""
    slowest = {"seconds": found.slowest[0], **_case(found.slowest[1])} if found.slowest else None
    return {
        "rows": found.rows,
        "gold": _count(found.gold),
        "forms": {name: _count(count) for name, count in found.forms.items()},
        "kinds": {
            kind: {"right": KINDS[kind].right, "allowed": kind in allowed, **_count(count)}
            for kind, count in found.kinds.items()
        },
        "false_accepts": found.false_accepts(allowed),
        "slowest": slowest,
    }


def _count(count: Count) -> dict[str, object]:
    numbers = asdict(count)
    return {**numbers, "example": _case(count.example) if count.example else None}


def _case(case: Case) -> Mapping[str, object]:
    return {name: text[:_KEPT] for name, text in asdict(case).items()}
