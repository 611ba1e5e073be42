import io

from rich.console import Console

from rlcomp.audit.audit import Audit, Case, Count
from rlcomp.report.audit import audit_tables


def test_nothing_that_a_verifier_raises_steers_a_terminal():
    case = Case("?", "\x1b[3J", "\x1b[2J", "bare", "ValueError: cannot read \x1b[2J")
    found = Audit(1, kinds={"empty": Count(1, raised=1, example=case)}, slowest=(1.0, case))
    out = io.StringIO()
    console = Console(file=out, width=400, markup=False, emoji=False)

    for part in audit_tables(found):
        console.print(part)

    told = out.getvalue()
    assert r"cannot read \x1b[2J" in told
    assert "\x1b" not in told
