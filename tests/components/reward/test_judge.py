"""Rewards by a judge."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.judge import WordOverlapJudge, WordPrefixJudge
from components.reward.judge import JudgedSegment, JudgeScore, Rubric
from rlcomp.batch import encode_texts
from rlcomp.errors import ConfigError, DataError
from rlcomp.metrics import recording
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import byte_tokenizer


def contains(response, criterion):
    return None if criterion == "?" else float(criterion in response)


def row(response, **columns):
    return {"prompt": "p", "response": response, "answer": "", **columns}


def test_the_judge_compares_response_and_answer():
    asked = []
    reward = JudgeScore(judge=lambda *texts: asked.append(texts) or 0.5)

    assert reward.score("p", "mine", "gold") == 0.5
    assert asked == [("mine", "gold")]
    assert JudgeScore(judge=contains).score("p", "x", "?") is None
    assert [reward.is_correct(score) for score in (0.49, 0.5)] == [False, True]


@pytest.mark.parametrize(
    ("response", "score"), [("a", 0.75), ("ab", 1.0), ("ab!", 0.5), ("!", 0.0), ("b", 0.25)]
)
def test_negative_weights_reduce_the_reward(response, score):
    reward = Rubric(judge=contains, criteria={"a": 3, "b": 1, "!": -2})

    assert reward.score_row(row(response)) == score


def test_the_criteria_of_an_example_go_first():
    reward = Rubric(judge=contains, criteria={"a": 1.0}, column="asked")

    own = [{"criterion": "x", "weight": 3}, "y"]
    assert reward.score_row(row("ax", asked=own)) == 0.75
    assert reward.score_row(row("ax")) == 1.0


def test_a_criterion_without_a_verdict_makes_the_row_invalid():
    assert Rubric(judge=contains, criteria={"a": 1.0, "?": 0.1}).score_row(row("a")) is None


@pytest.mark.parametrize(
    "given",
    [
        [],
        "a",
        [1],
        [{"weight": 1}],
        ["a", "a"],
        [{"criterion": "a", "weight": "1"}],
        [{"criterion": "a", "weight": -1}],
        [""],
        [{"criterion": "a", "weight": True}],
    ],
)
def test_a_column_that_is_no_rubric_is_refused(given):
    with pytest.raises(DataError, match="must be a list of different"):
        Rubric(judge=contains).score_row(row("a", rubric=given))


def test_no_criteria_at_all_and_none_to_earn_by_are_refused():
    with pytest.raises(DataError, match=r"no column 'rubric' and there are no criteria"):
        Rubric(judge=contains).score_row(row("a"))
    with pytest.raises(ConfigError, match="no weight is above 0"):
        Rubric(judge=contains, criteria={"a": -1.0, "b": 0.0})


def test_correct_from_is_1_by_default():
    assert [Rubric(judge=contains).is_correct(score) for score in (0.99, 1.0)] == [False, True]
    assert Rubric(judge=contains, correct_from=0.5).is_correct(0.5)


TOKENIZER = byte_tokenizer()


def answered(*responses, answer="the cat sat"):
    batch = encode_rows(TOKENIZER, ["?"] * len(responses), responses)
    batch["answer"] = encode_texts([answer] * len(responses))
    return batch


def segment(judge, **arguments):
    return JudgedSegment(judge=judge, tokenizer=TOKENIZER, **arguments)


def test_the_last_box_after_the_thought_is_judged():
    heard = []

    def listen(prediction, reference):
        heard.append((prediction, reference))
        return 1.0

    segment(listen)(answered(r"\boxed{a}</think>\boxed{b} or \boxed{ the {c} at}."))

    assert heard == [(" the {c} at", "the cat sat")]


def test_the_judge_s_score_is_the_reward():
    # Of 2 and 3 words 2 are shared, 4 / 5; of 1 and 3 none; one without a box.
    responses = [r"</think>\boxed{cat the}", r"</think>\boxed{dog}", "</think>cat"]
    with recording() as ledger:
        batch = segment(WordOverlapJudge())(answered(*responses))

    assert batch["reward"].tolist() == pytest.approx([0.8, 0.0, 0.0])
    assert batch["rewards", "judged_segment"].equal(batch["reward"])
    assert batch["reward_valid"].tolist() == [True] * 3
    assert ledger.means()["reward/mean"] == pytest.approx(0.8 / 3)
    assert ledger.means()["reward/answered"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(("correct_from", "right"), [(0.5, True), (0.81, False)])
def test_correct_is_a_score_from_a_bound_on(correct_from, right):
    reward = segment(WordOverlapJudge(), correct_from=correct_from)

    assert reward(answered(r"</think>\boxed{cat the}"))["correct"].item() == right


def test_a_response_that_predicts_nothing_is_wrong_and_valid():
    # No box, no end of the thought, a box within the thought only, a box cut off.
    responses = ["</think>the cat sat", r"\boxed{the cat sat}"]
    responses += [r"\boxed{the cat sat}</think>", r"</think>\boxed{the cat sat"]

    with recording() as ledger:
        batch = segment(WordPrefixJudge(least=1))(answered(*responses))

    assert batch["reward"].tolist() == [0.0] * 4
    assert batch["reward_valid"].tolist() == [True] * 4
    assert not batch["correct"].any()
    assert ledger.means()["reward/answered"] == 0.0


def test_half_a_character_in_the_box_is_wrong_and_valid():
    # é is two bytes, and so two tokens; the box loses the second one.
    batch = answered(r"</think>\boxed{é}", answer="é")
    second = int((batch["tokens"][0] == TOKENIZER("é")["input_ids"][1]).nonzero()[-1])
    generous = segment(lambda prediction, reference: 1.0)
    whole = generous(batch.clone())
    batch["response_mask"][0, second] = False

    half = generous(batch)

    assert (whole["reward"].item(), half["reward"].item()) == (1.0, 0.0)
    assert half["reward_valid"].item()


def test_a_row_without_a_verdict_is_invalid():
    batch = segment(lambda prediction, _: None if prediction == "?" else 1.0)(
        answered(r"</think>\boxed{?}", r"</think>\boxed{!}")
    )

    assert batch["reward_valid"].tolist() == [False, True]
    assert batch["reward"].tolist() == [0.0, 1.0]
    assert batch["correct"].tolist() == [False, True]


@pytest.mark.parametrize("score", [1.5, -0.1, float("nan")])
def test_a_score_outside_of_0_and_1_stops_the_run(score):
    reward = segment(lambda prediction, reference: score)

    with pytest.raises(DataError, match="in \\[0, 1\\]"):
        reward(answered(r"</think>\boxed{a}"))


def test_a_box_in_the_prompt_is_not_judged():
    batch = answered("so")
    batch.update(encode_rows(TOKENIZER, [r"</think>\boxed{the cat sat}"], ["so"]))

    assert segment(WordOverlapJudge())(batch)["reward"].item() == 0.0


@given(st.lists(st.sampled_from(["the", "cat", "sat", "on"]), max_size=4), st.integers(1, 3))
def test_the_reward_is_the_judge_s_score_of_the_texts(words, least):
    judge, prediction = WordPrefixJudge(least=least), " ".join(words)

    batch = segment(judge)(answered(f"so</think>\\boxed{{{prediction}}}"))

    assert batch["reward"].item() == judge(prediction, "the cat sat")
    assert batch["reward"].dtype == torch.float32
