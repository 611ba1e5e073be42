import gzip
import json
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.verify.number import committed_number, numeric

READ = [
    ("72", 72),
    ("It is 72.", 72),
    ("1,234.50 dollars", Fraction(2469, 2)),
    ("$1,000,000", 1_000_000),
    (r"1\,000", 1000),
    ("1{,}000", 1000),
    ("1\u202f000", 1000),
    ("\uff17\uff12", 72),
    ("-3", -3),
    ("\u22123", -3),
    ("-$5", -5),
    ("$-5", -5),
    (".5", Fraction(1, 2)),
    ("5.0", 5),
    ("50%", 50),
    (r"50\%", 50),
    ("3/4", Fraction(3, 4)),
    ("3 / 4", Fraction(3, 4)),
    ("-1/2 cup", Fraction(-1, 2)),
    ("1 1/2 hours", Fraction(3, 2)),
    (r"-1\frac{1}{2}", Fraction(-3, 2)),
    (r"\frac12", Fraction(1, 2)),
    (r"\dfrac{-1}{20}", Fraction(-1, 20)),
    (r"\tfrac 1{20}", Fraction(1, 20)),
    (r"125\text{ m}^2", 125),
    (r"x_1 = 125", 125),
    ("2 and then 7", 7),
    ("007", 7),
    ("#### 1 #### 2", 2),
    ("5 #### 6 apples", 6),
    ("the ANSWER IS: $4.", 4),
    ("Answer:\n5", 5),
    ("**131**", 131),
    ("64 + 67 = **131**", 131),
    ("1e5", 100_000),
    ("1.5e-3", Fraction(3, 2000)),
    ("about -2.5E+2.", -250),
    ("1,200e2", 120_000),
    ("3e2/4", 75),
    ("7 even", 7),
    ("5e", 5),
    ("#### 2e3 m", 2000),
    ("room 1e5b", 5),
    ("5 million", 5_000_000),
    ("2 Thousand", 2),
    ("12k", 12_000),
    ("3 hundred", 300),
    ("5 thousand", 5000),
    ("ratio\uff1a 5", 5),
    ("1.5 billion", 1_500_000_000),
    ("6 or \\boxed{5}</think> it is 4", 4),
]
UNREADABLE = [
    "",
    "none",
    "####",
    "5 #### none",
    "3/0",
    "-",
    ".",
    "$",
    "1" * 2000,
    "1e1001",
    "1e-1001",
    "12.34.56",
    "3,5",
    "1,2345",
    "3:30",
    "10-3",
    "2^10",
    "2\u00b2",
    "201_3",
    "(2)^2",
]
RIGHT = [
    "#### 7",
    "A: $7.00",
    "A: 6 + 1 = 7 apples",
    "#### 14/2",
    r"\boxed{7}",
    r"\boxed{7\text{ m}^2}",
    "<answer> 7 </answer>",
    "<answer><b>7</b></answer>",
    "The answer is **7**.",
    "answer: 7 (seven), that is 7",
    "#### x=7",
    "#### => 7",
    "A: 18 dollars - 11 dollars = 7 dollars",
    "A: $18 - $11 = $7",
    "A: 20 -13 = 7",
    "A: 10 + 2 - 5 = 7",
    "A: 2 * (3 + 0.5) = 7",
    "A: 10 \u00d7 0.7 = 7",
    "A: 10/1.43 ≈ 7",
    r"A: 14 \div 2 = 7",
    r"A: \$7",
    "A: <<6+1=7>>7",
    r"<think>6 or \boxed{6}</think>\boxed{7}",
    "A: 6. No: A: 7",
]
HEDGED = [
    "6 or 7",
    "six or 7",
    "7 or six",
    "it is 7 apples, 7 or even six",
    "either 6, or 7",
    "6 and 7",
    "6, 7",
    "6; 7",
    "6|7",
    "6 to 7",
    "6-7",
    "6 - 7",
    "6\u20137",
    "6 7",
    "6\n7",
    "7:1",
    "(6)(7)",
    "{6,7}",
    r"\{6, 7\}",
    "[6,7]",
    r"6 \text{ or } 7",
    "maybe 6, maybe 7",
    "x=6=7",
    "6=7",
    "x=6=7=7",
    "1,2,3,4,5,6,7",
    "not 7",
    "it isn't 7",
    "x < 7",
    "x ≠ 7",
    r"x \neq 7",
    r"x \geq 7",
    "6 < x < 7",
    "6 ± 7",
    r"7 \pm 7",
    "+/- 7",
    "7x10",
    "7^1",
    "7_{8}",
    "7 million",
    "7k",
    "7e1",
    "7/0",
    "-7",
]
WRONG_PLACE = [
    r"\boxed{6} \boxed{7}",
    r"\boxed{7} or \boxed{8}",
    "<answer>6</answer><answer>7</answer>",
    "<answer>7",
    r"\boxed{7",
    "A: 7 because of 3",
    "A: 7\n8",
    "<think>A: 7</think>",
]


@pytest.mark.parametrize(("text", "number"), READ)
def test_the_number_of_a_text(text, number):
    assert committed_number(text, where="last") == number


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_text_without_a_number(text):
    assert committed_number(text, where="last") is None


@given(st.integers(-(10**12), 10**12))
def test_any_way_of_writing_a_whole_number_is_read(number):
    for text in (f"{number}", f"{number:,}", f"#### {number:,}.00", f"${number}."):
        assert committed_number(text, where="last") == number


@pytest.mark.parametrize("where", ["marked", "last"])
@pytest.mark.parametrize("response", RIGHT)
def test_one_number_in_the_agreed_place_is_right(response, where):
    assert numeric(response, "7", where=where) == 1.0
    assert numeric(response, "8", where=where) == 0.0


@pytest.mark.parametrize("response", HEDGED)
def test_a_hedge_is_wrong(response):
    assert numeric(response, "7", where="last") == 0.0
    assert numeric(f"#### {response}", "7") == 0.0
    assert numeric(rf"\boxed{{{response}}}", "7") == 0.0
    assert numeric(f"<answer>{response}</answer>", "7") == 0.0


@pytest.mark.parametrize("response", WRONG_PLACE)
def test_a_response_without_one_final_answer_is_wrong(response):
    assert numeric(response, "7", where="last") == 0.0


def test_a_bare_number_counts_only_with_where_last():
    assert numeric("so 7", "7", where="marked") == 0.0
    assert numeric("so 7", "7", where="last") == 1.0


@given(st.lists(st.integers(0, 99), min_size=2, max_size=5), st.sampled_from([" or ", ", ", "="]))
def test_listing_several_answers_is_never_right(numbers, between):
    listed = between.join(map(str, numbers))

    scores = {numeric(f"A: {listed}", str(number)) for number in numbers}

    assert scores == {1.0 if len(set(numbers)) == 1 and between != " or " else 0.0}


def test_an_answer_without_a_number_cannot_be_judged():
    assert numeric("A: 5", "five") is None


@pytest.mark.parametrize(
    ("absolute", "relative", "score"),
    [(0.0, 0.0, 0.0), (0.003, 0.0, 0.0), (0.004, 0.0, 1.0), (0.0, 0.0009, 0.0), (0.0, 0.0011, 1.0)],
)
def test_numbers_within_a_tolerance_are_equal(absolute, relative, score):
    # |3.33 - 10/3| = 0.00333...: a thousandth of the gold number.
    assert numeric("A: 3.33", "10/3", absolute=absolute, relative=relative) == score


def test_the_relative_tolerance_is_one_of_the_size():
    assert numeric("A: -99", "-100", relative=0.01) == 1.0


def test_with_tolerance_0_equal_numbers_are_still_equal():
    assert numeric("A: 5.0", "5", absolute=0.0) == 1.0


def test_large_numbers_are_compared_exactly():
    # 2^53 and 2^53 + 1 are the same float64.
    assert numeric("A: 9007199254740993", "9007199254740992") == 0.0


def read(path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", ["gsm8k_train_2000", "gsm8k_test"])
def test_every_gold_answer_of_gsm8k_is_accepted(shared_data, name):
    for row in read(shared_data / "math" / f"{name}.jsonl.gz"):
        assert numeric(row["answer"], row["final"]) == 1.0
        assert numeric(row["final"], row["answer"], where="last") == 1.0


@pytest.mark.parametrize("where", ["marked", "last"])
def test_the_verdict_on_1040_solutions_is_that_of_their_labels(shared_data, where):
    rows = read(shared_data / "math" / "gsm8k_labelled_solutions.jsonl.gz")

    verdicts = [numeric(row["solution"], row["gold"], where=where) == 1.0 for row in rows]

    assert len(rows) == 1040
    assert verdicts == [row["is_correct"] for row in rows]


HOSTILE = [
    "1",
    "1,",
    "1,111,",
    "-",
    "####",
    "1/",
    ".1",
    "A:",
    "answer is ",
    " -",
    "1.",
    "A:1 ",
    "1e",
    "1e1",
    "1e-",
    "\n",
    "1 ",
    "1 1",
    "1+",
    "a +",
    "1 or ",
    "\\boxed{",
    "\\boxed{1}",
    "<answer>",
    "<a",
    "<<",
    "\\frac{1",
    "^{",
    "1/1.",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_of_100_000_characters_is_read_at_once(piece):
    text = (piece * 100_000)[:100_000]
    start = time.thread_time()

    committed_number(text, where="last")

    assert time.thread_time() - start < 20  # 0.05 s; in quadratic time it is minutes
