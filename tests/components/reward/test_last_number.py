import gzip
import json
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.reward.last_number import LastNumber, final_number

READ = [
    ("72", 72),
    ("It is 72.", 72),
    ("1,234.50 dollars", Fraction(2469, 2)),
    ("$1,000,000", 1_000_000),
    ("-3", -3),
    ("\u22123", -3),
    ("-$5", -5),
    ("$-5", -5),
    (".5", Fraction(1, 2)),
    ("5.0", 5),
    ("50%", 50),
    ("3/4", Fraction(3, 4)),
    ("-1/2 cup", Fraction(-1, 2)),
    ("2 and then 7", 7),
    ("10-3", 3),
    ("10 - 3", 3),
    ("1,2,3", 3),
    ("1,2345", 2345),
    ("007", 7),
    ("5 #### 6 apples of 9", 6),
    ("#### 1 #### 2", 2),
    ("3 + 4\nA: 7\n8", 7),
    ("The answer is 12 because of 3", 12),
    ("the ANSWER IS: $4.", 4),
    ("Answer:\n5", 5),
    ("1e5", 100_000),
    ("1.5e-3", Fraction(3, 2000)),
    ("about -2.5E+2.", -250),
    ("1,200e2", 120_000),
    ("3e2/4", 75),
    ("7 even", 7),
    ("5e", 5),
    ("#### 2e3 m", 2000),
    ("room 1e5b", 5),
    ("USA: 4 or 5", 5),
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
]


@pytest.mark.parametrize(("text", "number"), READ)
def test_the_final_number_of_a_text(text, number):
    assert final_number(text) == number


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_text_without_a_final_number(text):
    assert final_number(text) is None


@given(st.integers(-(10**12), 10**12))
def test_any_way_of_writing_a_whole_number_is_read(number):
    for text in (f"{number}", f"{number:,}", f"#### {number:,}.00", f"${number}."):
        assert final_number(text) == number


def test_right_and_wrong_numbers_score_1_and_0():
    reward = LastNumber()

    assert reward.score("", "A: 5.0", "work\n#### 5") == 1.0
    assert reward.score("", "A: 6", "work\n#### 5") == 0.0
    assert reward.score("", "no idea", "5") == 0.0


def test_an_answer_without_a_number_cannot_be_judged():
    assert LastNumber().score("", "5", "five") is None


@pytest.mark.parametrize(("tolerance", "score"), [(0.0, 0.0), (0.01, 1.0)])
def test_numbers_within_the_tolerance_are_equal(tolerance, score):
    assert LastNumber(tolerance=tolerance).score("", "3.33", "10/3") == score


def test_with_tolerance_0_equal_numbers_are_still_equal():
    assert LastNumber(tolerance=0.0).score("", "5.0", "5") == 1.0


def test_large_numbers_are_compared_exactly():
    # 2^53 and 2^53 + 1 are the same float64.
    assert LastNumber().score("", "9007199254740993", "9007199254740992") == 0.0


def read(path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", ["gsm8k_train_2000", "gsm8k_test"])
def test_every_gold_answer_of_gsm8k_is_accepted(shared_data, name):
    reward = LastNumber()

    for row in read(shared_data / "math" / f"{name}.jsonl.gz"):
        assert reward.score("", row["answer"], row["final"]) == 1.0
        assert reward.score("", row["final"], row["answer"]) == 1.0


def test_the_verdict_on_1040_solutions_is_that_of_their_labels(shared_data):
    reward = LastNumber()
    rows = read(shared_data / "math" / "gsm8k_labelled_solutions.jsonl.gz")

    verdicts = [reward.score("", row["solution"], row["gold"]) == 1.0 for row in rows]

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
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_of_100_000_characters_is_read_at_once(piece):
    text = (piece * 100_000)[:100_000]
    start = time.process_time()

    final_number(text)

    assert time.process_time() - start < 0.1
