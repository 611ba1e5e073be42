import json

import pytest

from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.prover.lean import file_of, refusal, rejections, statement_of, theorem_text


@pytest.mark.parametrize(
    "tactic",
    [
        "sorry",
        "exact sorryAx _ false",
        "admit",
        "native_decide",
        "decide +native",
        "exact Lean.ofReduceBool _ _ rfl",
        "bv_decide",
        "bv_decide?",
        "exact ofReduceNat _ _ rfl",
        "exact absurd (include_str p) h",
        "polyrith",
        "simp (config := dbgTraceVal {})",
        "trivial\n\naxiom f : False",
        "trivial\ntheorem t : True := trivial",
        "trivial #eval 1",
        "run_tac pure ()",
        "set_option maxHeartbeats 0 in simp",
        "exact (dbg_trace 1; h)",
        "trivial /-",
        "trivial -- ",
        "exact «sor»",
        'exact (by trace "x"; trivial)',
        "open Nat in simp",
        "simp\u202e",
        "",
        "  \n",
        "simp\t",
        "a" * 2001,
    ],
)
def test_what_could_forge_a_proof_is_refused(tactic):
    assert refusal(tactic)


@pytest.mark.parametrize(
    "tactic",
    [
        "intro h",
        "rcases h with ⟨a, b⟩ | c",
        "exact fun ⟨x, hx⟩ => hx.symm ▸ rfl",
        "simp only [Nat.add_comm, h1] at *",
        "have hp : p := h.left\nexact hp",
        "refine ⟨?_, ?_⟩",
        "omega",
        "nlinarith [sq_nonneg (a - b)]",
    ],
)
def test_what_proves_is_not(tactic):
    assert refusal(tactic) == ""


def test_every_line_of_a_tactic_stays_in_the_proof():
    assert theorem_text("theorem t : p", ["have : q := by\n  simp", "exact h"]) == (
        "theorem t : p := by\n  have : q := by\n    simp\n  exact h"
    )


# As Lean 4.28 prints it; the words are those of the two files that were checked.
def line(number, severity, data, kind="[anonymous]"):
    place = f'"pos":{{"column":0,"line":{number}}}'
    return f'{{"severity":"{severity}",{place},"kind":"{kind}","data":"{data}"}}'


FILE = file_of(["theorem t : True := by\n  trivial", "theorem t : 1 = 2 := by\n  rfl"])
SHOWN = [line(5, "information", '\\"N0\\" : String'), line(10, "information", '\\"N1\\" : String')]


def test_a_verdict_is_of_the_theorem_in_whose_lines_the_error_is():
    assert FILE.spans == [(1, 5), (6, 10)]
    printed = "\n".join(["[DEBUG:A] lean_main", SHOWN[0], line(8, "error", "not rfl"), SHOWN[1]])
    assert rejections(FILE, printed) == ["", "not rfl"]


def test_a_proof_with_sorry_is_rejected():
    warning = line(2, "warning", "declaration uses `sorry`", kind="hasSorry")
    assert rejections(FILE, "\n".join([warning, *SHOWN])) == ["declaration uses `sorry`", ""]


@pytest.mark.parametrize(
    "printed", ["", SHOWN[0], "[DEBUG]\nout of memory", SHOWN[0] + '\n{"a":1}']
)
def test_a_file_that_lean_has_not_read_to_its_end_has_no_verdict(printed):
    with pytest.raises(ChildProcessError):
        rejections(FILE, printed)


def test_a_line_end_of_unicode_in_a_message_ends_no_message():
    file = file_of(["theorem t : True := trivial"])
    told = {"severity": "information", "pos": {"line": file.spans[0][1]}, "data": '"N0"\u2028{}'}

    assert rejections(file, json.dumps(told, ensure_ascii=False)) == [""]


def stated(statement):
    return statement_of(Example("p", "", "", columns={"statement": statement}))


@pytest.mark.parametrize(
    "statement",
    [
        "theorem t (p : Prop) : p → p",
        "lemma t : 0 < 1",
        "example : 1 = 0",
        "  theorem mathd_1 (x : Nat)\n    (h : x ^ 2 = 4) : |x| = 2",
    ],
)
def test_one_theorem_is_a_statement(statement):
    assert stated(statement) == statement


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        (None, "has no column 'statement'"),
        (3, "has no column 'statement'"),
        ("", "must be one theorem"),
        ("axiom f : False", "must be one theorem"),
        ("theorems : True", "must be one theorem"),
        ("theorem t : True := trivial", "must be one theorem"),
        ("theorem t (h : x := 1) : True", "must be one theorem"),
        ("theorem t : True\naxiom f : False\ntheorem u : False", "'axiom' is refused"),
        ("theorem u : True\ntheorem t : False", "'theorem' is refused"),
        ("theorem t : True #print t", "'#' is refused"),
        ("theorem t : (by run_tac pure (); exact True)", "'run_tac' is refused"),
        ("theorem t : True -- ", "'--' is refused"),
        ("theorem t : sorry", "'sorry' is refused"),
        ("theorem", "is empty"),
        ("theorem t : " + "p ∧ " * 600 + "p", "more than 2000"),
    ],
)
def test_a_statement_that_is_more_or_less_is_refused_unread(statement, why):
    with pytest.raises(DataError, match=why):
        stated(statement)
