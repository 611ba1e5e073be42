import math

import pytest
import torch
from tensordict import TensorDict

from components.reward.episode import EpisodeFact
from components.reward.tools import AutoRefine, ToolStar
from rlcomp.batch import encode_columns, encode_texts
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording


def batch(responses, answers, **facts):
    size = [len(responses)]
    entries = {
        "prompt": encode_texts(["?"] * len(responses)),
        "response": encode_texts(responses),
        "answer": encode_texts(answers),
    }
    rows = TensorDict(entries, batch_size=size)
    rows["facts"] = TensorDict({k: torch.tensor(v) for k, v in facts.items()}, batch_size=size)
    return rows


def test_a_fact_is_the_reward():
    rows = EpisodeFact(fact="cost", correct_from=2.0)(
        batch(["", "", ""], ["", "", ""], cost=[1.5, 2.0, math.nan])
    )

    assert rows["reward"].tolist() == [1.5, 2.0, 0.0]
    assert rows["correct"].tolist() == [False, True, False]
    assert rows["reward_valid"].tolist() == [True, True, False]
    never = EpisodeFact(fact="cost")(batch([""], [""], cost=[9.0]))
    assert never["correct"].tolist() == [False]


def test_a_missing_fact_is_named():
    with pytest.raises(
        ConfigError,
        match=r"the fact 'costs', which the environment does not report; did you mean 'cost'",
    ):
        EpisodeFact(fact="costs")(batch([""], [""], cost=[1.0]))


# Answers to the gold "red brick house": exact; two of three words (f1 = 4 / 5); one word of twenty
# (f1 = 2 / 23 = 0.087, below the weight of notes); none.
ANSWERS = ["red brick house", "brick house", "house" + " x" * 19, "barn"]


@pytest.mark.parametrize(
    ("combine", "expected"),
    [
        ("gated", [1.0, 0.8, 0.1, 0.1, 1.0, 0.8, 0.1, 0.0]),
        ("product", [1.0, 0.8, 2 / 23, 0.0, 0.0, 0.0, 0.0, 0.0]),
        ("sum", [1.1, 0.9, 0.1 + 2 / 23, 0.1, 1.0, 0.8, 2 / 23, 0.0]),
    ],
)
def test_answers_and_notes_are_combined(combine, expected):
    result = [f"<answer>{answer}</answer>" for answer in ANSWERS * 2]
    rows = batch(result, ["red brick house"] * 8, notes_hold_answer=[1.0] * 4 + [0.0] * 4)

    judged = AutoRefine(combine=combine)(rows)

    assert judged["reward"].tolist() == pytest.approx(expected)
    assert judged["correct"].tolist() == [True, False, False, False] * 2
    assert judged["rewards", "noted"].tolist() == [1.0] * 4 + [0.0] * 4
    assert judged["rewards", "f1"].tolist() == pytest.approx([1.0, 0.8, 2 / 23, 0.0] * 2)


def test_no_answer_and_another_weight():
    rows = batch(["house", "house"], ["house", "house"], notes_hold_answer=[1.0, 0.0])

    assert AutoRefine(note_weight=0.3)(rows)["reward"].tolist() == pytest.approx([0.3, 0.0])
    assert AutoRefine(where="whole")(rows)["reward"].tolist() == [1.0, 1.0]
    nothing = batch(["<answer>a</answer>"], [" "], notes_hold_answer=[1.0])
    assert AutoRefine()(nothing)["reward_valid"].tolist() == [False]


def test_form_answer_and_tools_are_scored_in_this_order():
    right, wrong, none = "<answer>7</answer>", "<answer>8</answer>", "7"
    rows = batch(
        [right, right, right, wrong, none, right],
        ["7"] * 6,
        malformed=[0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
        tools_used=[2.0, 1.0, 2.0, 2.0, 2.0, 3.0],
    )
    with recording() as ledger:
        judged = ToolStar(bonus=0.25)(rows)

    assert judged["reward"].tolist() == [1.25, 1.0, -1.0, 0.0, -1.0, 1.25]
    assert judged["correct"].tolist() == [True, True, False, False, False, True]
    metrics = ledger.means()
    # The reward with the bonus, and the parts without.
    assert metrics["reward/mean"] == pytest.approx((1.25 + 1 - 1 + 0 - 1 + 1.25) / 6)
    assert metrics["reward/accuracy"] == pytest.approx(3 / 6)
    assert metrics["reward/tools"] == pytest.approx(2 / 6)
    assert metrics["reward/form"] == pytest.approx(-2 / 6)


def test_several_gold_answers():
    rows = batch(["<answer>UK</answer>"], ["Britain"], malformed=[0.0], tools_used=[0.0])
    rows["columns"] = encode_columns([{"answers": ["uk"]}])

    assert ToolStar()(rows)["reward"].tolist() == [1.0]
