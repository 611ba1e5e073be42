import pytest

from rlcomp.audit.audit import Audit, Count, RewardJudge, RewardVerdict, audit, examples_of
from rlcomp.audit.wrong_answers import FORMS, all_forms, fill_form
from rlcomp.errors import UserError
from rlcomp.interfaces.reward import TextReward
from rlcomp.interfaces.task import Example
from rlcomp.verify.answers import extract

ROWS = [Example(f"{n}+1=", str(n + 1), str(n + 1)) for n in (5, 28, 70)]
PLAIN = {"plain": FORMS["plain"]}
BOTH = {**PLAIN, "boxed": FORMS["boxed"]}


def judged(accepts):
    """A judge from a function of the example and the response."""

    def judge(example, response):
        return RewardVerdict(
            "accepted" if accepts(example, response) else "refused", len(response) / 1e6
        )

    return judge


def accepted(found):
    return {kind: count.accepted for kind, count in found.kinds.items() if count.accepted}


def test_an_exact_verifier_has_no_false_accepts():
    found = audit(ROWS, judged(lambda row, said: said == row.answer), PLAIN)

    assert (found.rows, found.gold.tried, found.gold.accepted) == (3, 3, 3)
    assert accepted(found) == {}
    assert found.false_accepts() == []
    # Of 6, 29, 71 two neighbours each; 6 has no digit to drop, and none to swap.
    assert [found.kinds[kind].tried for kind in ("off_by_one", "dropped", "swapped")] == [6, 2, 2]
    assert found.kinds["other_gold"].tried == 3
    assert "edited" not in found.kinds


def test_a_verifier_that_looks_for_the_answer_accepts_hedges_and_lists():
    found = audit(
        ROWS, judged(lambda row, said: row.answer in said.replace(",", "").split()), PLAIN
    )

    # Each row: four hedges of words, the two by lines and not x=7=6; all lists; both orders. A
    # space is beside the number in 26 of 30 relations, in all bounds, and in "29 in base 12".
    assert accepted(found) == {
        "denied": 3,
        "related": 78,
        "bounded": 18,
        "based": 2,
        "hedge": 18,
        "wrong_last": 3,
        "right_last": 3,
        "stuffed": 12,
    }
    qualified = ["related", "bounded", "based"]
    assert found.false_accepts() == [
        *(
            "denied",
            "related",
            "bounded",
            "hedge",
            "wrong_last",
            "stuffed",
            "based",
        )  # 6 has no base
    ]
    assert found.false_accepts(["hedge", "stuffed", *qualified]) == ["denied", "wrong_last"]
    assert found.kinds["denied"].example.response == "not 6"


def test_the_others_of_a_row_are_those_behind_it_and_then_those_before():
    tried = {row.answer: [] for row in ROWS}

    def exact(row, said):
        tried[row.answer].append(said)
        return said == row.answer

    audit(ROWS, judged(exact), PLAIN)

    lists = {"6": "6, 29, 71", "29": "29, 71, 6", "71": "71, 6, 29"}
    for answer, listed in lists.items():
        assert listed in tried[answer]


def test_a_form_alone_is_told_by_nonsense_not_by_what_is_near_the_answer():
    found = audit(ROWS, judged(lambda row, said: len(said) > 1), PLAIN)

    assert accepted(found)["nonsense"] == 9
    assert "off_by_one" not in found.kinds
    assert set(found.false_accepts()) == {
        "empty", "nonsense", "control", "repeated", "long", "digits", "parsed", "prompt",
    }  # fmt: skip


def test_one_kind_of_nonsense_is_enough():
    found = audit(ROWS, judged(lambda row, said: said.isdigit()), PLAIN)

    # "8888888" and the digits of another script; the longest and the repeated ones of digits.
    assert found.kinds["nonsense"].accepted == 3
    assert "off_by_one" not in found.kinds


def test_attacks_wear_the_form_that_is_read():
    found = audit(ROWS, judged(lambda row, said: extract(said, "boxed") == row.answer), BOTH)

    assert (found.forms["plain"].accepted, found.forms["boxed"].accepted) == (0, 3)
    assert found.kinds["off_by_one"].tried == 6  # in the box only
    assert found.kinds["nonsense"].tried == 18  # in a form that was read, and plain
    assert accepted(found) == {}


def test_two_copies_of_a_form_hold_an_answer_each():
    asked = []

    def remember(row, said):
        asked.append(said)
        return said == fill_form(FORMS["boxed"], row.answer)

    audit(ROWS[:1], judged(remember), {"plain": "{answer}", "boxed": FORMS["boxed"]})

    assert "\\boxed{6}\n\\boxed{7}" in asked
    assert "\\boxed{7}\n\\boxed{6}" in asked


def test_a_solution_that_is_searched_for_may_be_another_one():
    rows = [Example("3 7:21=", "21", "3*7"), Example("2 9:18=", "18", "2*9")]
    found = audit(rows, judged(lambda row, said: said == row.demonstration), PLAIN)

    assert found.gold.accepted == 2
    assert "off_by_one" not in found.kinds
    assert (found.kinds["edited"].tried, found.kinds["other_response"].tried) == (2, 2)
    everything = audit(rows, judged(lambda row, said: "*" in said), PLAIN)
    assert everything.kinds["edited"].accepted == 2
    assert everything.false_accepts() == []  # it may be right


def test_a_gold_answer_that_is_refused_is_kept():
    found = audit(ROWS, judged(lambda row, said: said == "6"), BOTH)

    assert (found.gold.tried, found.gold.accepted) == (3, 1)
    assert found.gold.example.gold == "29"
    assert found.gold.example.form == "demonstration"  # the response that should be right


def test_a_row_without_a_gold_answer_is_attacked_blindly():
    found = audit([Example("Say no comma.", " ", "")], judged(lambda row, said: True), PLAIN)

    assert found.gold.tried == 0
    assert found.forms == {}
    assert found.kinds["empty"].accepted == 2


def test_a_prompt_that_is_the_answer_is_no_attack():
    found = audit(
        [Example("Rome", "Rome", "Rome")], judged(lambda row, said: said == "Rome"), PLAIN
    )

    assert "prompt" not in found.kinds


def test_the_slowest_call_is_kept():
    found = audit(ROWS[:1], judged(lambda row, said: False), PLAIN)

    assert found.slowest[0] == 0.02  # of 20,000 characters
    assert found.slowest[1].form == "plain"


def test_a_call_that_is_slow_only_once_is_not_the_slowest():
    seen = set()

    def judge(row, said):
        first = said not in seen
        seen.add(said)
        return RewardVerdict("refused", 9.0 if first and said == "zqxj vrrb" else len(said) / 1e6)

    assert audit(ROWS[:1], judge, PLAIN).slowest[0] == 0.02


def test_an_answer_that_raises_counts_as_a_false_accept():
    def judge(row, said):
        known = said != "①②⑦⑨"
        return (
            RewardVerdict("refused", 0.0)
            if known
            else RewardVerdict("raised", 0.0, "ValueError: int()")
        )

    found = audit(ROWS, judge, PLAIN)

    assert (found.kinds["digits"].raised, found.kinds["digits"].accepted) == (3, 0)
    assert found.kinds["digits"].example.reason == "ValueError: int()"
    assert found.false_accepts() == ["digits"]


def test_an_audit_of_nothing_has_no_false_accepts():
    assert Audit(kinds={"edited": Count(accepted=1)}).false_accepts() == []


def test_forms_of_ones_own_need_a_place():
    assert fill_form(all_forms(["<f>{answer}</f>"])["<f>{answer}</f>"], "7") == "<f>7</f>"
    assert fill_form(FORMS["thought"], "7") == r"<think>I see.</think>\boxed{7}"
    assert fill_form(FORMS["tagged"], "7") == "<answer>7</answer>"
    with pytest.raises(UserError, match=r"--form '<f>' has no \{answer\}"):
        all_forms(["<f>"])


class Picky(TextReward):
    name = "picky"

    def score(self, prompt, response, answer):
        if response == "raise":
            raise ZeroDivisionError("by\nnothing")
        return None if response == "what?" else float(response == answer and prompt == "5+1=")


@pytest.mark.parametrize(
    ("response", "said", "why"),
    [
        ("6", "accepted", ""),
        ("7", "refused", ""),
        ("what?", "invalid", ""),
        ("raise", "raised", "ZeroDivisionError: by nothing"),
    ],
)
def test_the_verdict_of_a_reward(response, said, why):
    verdict = RewardJudge(Picky(), None)(ROWS[0], response)

    assert (verdict.decision, verdict.reason[:29]) == (said, why)
    assert 0 < verdict.seconds < 5


def test_a_check_lets_an_exception_through():
    RewardJudge(Picky(), None).check(ROWS[0])
    with pytest.raises(ZeroDivisionError):
        RewardJudge(Picky(), None).check(Example("", "raise", ""))


def test_a_reward_of_tokens_is_given_them():
    from components.reward.surface import Length
    from rlcomp.text.tokenizer import character_tokenizer

    judge = RewardJudge(Length(target=3), character_tokenizer(characters="0123456789+="))

    # Two characters and EOS: 3 tokens of 3.
    assert judge(ROWS[0], "66").decision == "accepted"
    assert judge(ROWS[0], "6").decision == "refused"


def test_the_examples_are_those_of_the_seed():
    class Numbers:
        held_out = 0.5

        def __len__(self):
            return 30

        def example(self, index):
            return Example(str(index), "", "")

    asked = [[row.prompt for row in examples_of(Numbers(), 4, seed)] for seed in (0, 0, 1)]

    assert asked[0] == asked[1] != asked[2]
    assert len({*asked[0]}) == 4
    assert len(examples_of(Numbers(), 99, 0)) == 30
