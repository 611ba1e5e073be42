import pytest
import torch
from tensordict import TensorDict

from components.reward.answer import ExactMatch
from components.reward.composite import ShuffledReward, WeightedSum
from components.reward.function import FunctionReward
from components.reward.surface import Brevity, Repetition
from rlcomp.batch import encode_columns, encode_texts
from rlcomp.errors import ConfigError, DataError, ShapeError
from rlcomp.interfaces.reward import TextReward, check_decides, name_without_verdict, write_reward
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch

INF, NAN = float("inf"), float("nan")


class Number(TextReward):
    """Reads the reward off the response; "?" cannot be judged."""

    name = "number"

    def score(self, prompt, response, answer):
        return None if response == "?" else float(response)


def len_of(response):
    return len(response)


def batch(*responses: str) -> TensorDict:
    texts = encode_texts(responses)
    prompts = encode_texts(["p"] * len(responses))
    return make_batch(prompt=prompts, response=texts, answer=prompts)


def test_every_row_gets_its_score():
    result = Number()(batch("0.5", "-2", "1"))

    assert result["reward"].tolist() == [0.5, -2.0, 1.0]
    assert result["reward"].dtype == torch.float32
    assert result["rewards", "number"].tolist() == [0.5, -2.0, 1.0]


@pytest.mark.parametrize("error", [ZeroDivisionError("by nothing"), SystemExit(0)])
def test_an_exception_names_the_row_it_was_raised_on(error):
    class Broken(TextReward):
        name = "broken"

        def score(self, prompt, response, answer):
            if response != "fine":
                raise error
            return 1.0

    with pytest.raises(type(error)) as caught:
        Broken()(batch("fine", "a\x1b[2J" + "b" * 200))

    # 122 characters of the response's repr: the quote, "a", the escape's "\\x1b" and "[2J", 113 b.
    told = f"row 1: prompt 'p', response 'a\\x1b[2J{'b' * 113}"
    notes = [*map(str, caught.value.args), *getattr(caught.value, "__notes__", [])]
    assert told in "\n".join(notes).splitlines()


def test_a_score_of_1_or_more_is_correct():
    assert Number()(batch("0.99", "1", "2"))["correct"].tolist() == [False, True, True]


def test_a_subclass_can_define_is_correct():
    class Positive(Number):
        def is_correct(self, score):
            return score > 0

    assert Positive()(batch("0.5", "0"))["correct"].tolist() == [True, False]


@pytest.mark.parametrize("unknown", ["?", "nan"])
def test_a_row_without_a_verdict_is_invalid_and_0(unknown):
    result = Number()(batch(unknown, "1"))

    assert result["reward"].tolist() == [0.0, 1.0]
    assert result["reward_valid"].tolist() == [False, True]
    assert result["correct"].tolist() == [False, True]


def test_an_infinite_score_is_an_error():
    with pytest.raises(DataError, match="Number scored '-inf' with -inf"):
        Number()(batch("-inf"))


def test_a_verifier_that_crashes_stops_the_run():
    with pytest.raises(ValueError, match="could not convert"):
        Number()(batch("1", "abc"))


def test_prompt_response_and_answer_arrive_in_their_places():
    class Seen(TextReward):
        name = "seen"

        def score(self, prompt, response, answer):
            assert (prompt, response, answer) == ("p", "r", "a")
            return 0.0

    entries = {key: encode_texts([key[0]]) for key in ("prompt", "response", "answer")}
    Seen()(TensorDict(entries, batch_size=[1]))


def test_metrics_count_valid_rows_only():
    with recording() as ledger:
        Number()(batch("?", "1", "0", "0.5"))

    # Valid: 1, 0, 0.5; one of three correct; one of four invalid.
    assert ledger.means() == {
        "reward/mean": 0.5,
        "reward/correct": pytest.approx(1 / 3),
        "reward/invalid_fraction": 0.25,
    }


def test_an_empty_batch_gets_empty_rewards():
    result = Number()(batch())

    assert result["reward"].shape == (0,)
    assert result["reward_valid"].dtype == torch.bool


def test_the_texts_are_left_as_they_were():
    before = batch("1", "?")
    kept = before.clone()

    Number()(before)

    assert all(torch.equal(before[key], kept[key]) for key in kept.keys())


def test_values_of_invalid_rows_do_not_matter():
    valid = torch.tensor([True, False, False])
    reward = torch.tensor([2.0, NAN, INF])

    result = write_reward(batch("1", "2", "3"), reward, {}, torch.ones(3, dtype=torch.bool), valid)

    assert result["reward"].tolist() == [2.0, 0.0, 0.0]
    assert result["correct"].tolist() == [True, False, False]


class Level(TextReward):
    """The column ``level``, 0 without one; -1 for the prompt "another"."""

    name = "level"

    def score_row(self, row):
        return -1.0 if row["prompt"] == "another" else float(row.get("level", 0))


def test_a_subclass_can_read_the_columns_of_each_row():
    asked = batch("r", "r")
    asked["columns"] = encode_columns([{"level": 3}, {"other": 4}])

    assert Level()(asked)["reward"].tolist() == [3.0, 0.0]


def test_a_column_does_not_stand_in_for_a_text():
    asked = batch("r")
    asked["columns"] = encode_columns([{"prompt": "another", "level": 2}])

    assert Level()(asked)["reward"].tolist() == [2.0]


def test_a_reward_that_reads_columns_keeps_the_contract():
    check_component(Level())


def test_columns_can_be_read_under_another_name():
    asked = batch("r")
    asked["facts"] = encode_columns([{"level": 3}])

    assert Level().set_keys(columns="facts")(asked)["reward"].tolist() == [3.0]


def test_a_reward_of_another_shape_is_refused():
    # [2, 1] against a mask [2] would broadcast to [2, 2].
    batch = TensorDict({}, batch_size=[2])
    right = torch.ones(2, dtype=torch.bool)

    with pytest.raises(ShapeError, match=r"'reward' of the reward has shape \[2, 1\]"):
        write_reward(batch, torch.ones(2, 1), {}, right, right)


def test_a_reward_without_a_verdict_records_no_share_of_right_answers():
    batch = TensorDict({}, batch_size=[2])
    score, right = torch.tensor([2.0, 0.0]), torch.tensor([True, False])

    with recording() as ledger:
        write_reward(batch, score, {"mine": score}, right, torch.ones(2).bool(), decides=False)

    assert ledger.means() == {"reward/mean": 1.0, "reward/invalid_fraction": 0.0}
    assert batch["correct"].tolist() == [True, False]


@pytest.mark.parametrize(
    ("reward", "name"),
    [
        (ExactMatch(), None),
        (FunctionReward(function=len_of), "function"),
        (FunctionReward(function=len_of, name="mine"), "mine"),
        (FunctionReward(function=len_of, name="mine", correct_by="mine"), None),
        (Repetition(), "repetition"),
        (Brevity(longest=3), "brevity"),
        (ShuffledReward(reward=ExactMatch()), None),
        (WeightedSum(parts={"a": Repetition()}, weights={"a": 1.0}), "weighted_sum"),
        (
            WeightedSum(
                parts={"a": Repetition(), "b": ExactMatch()},
                weights={"a": 1.0, "b": 1.0},
                correct_by="b",
            ),
            None,
        ),
    ],
)
def test_a_reward_declares_if_it_decides_what_is_correct(reward, name):
    assert name_without_verdict(reward) == name
    if name is None:
        check_decides(reward, "reward")
    else:
        with pytest.raises(ConfigError, match=f"reward.correct_by={name}"):
            check_decides(reward, "reward")


def test_a_reward_that_says_nothing_of_verdicts_has_one():
    assert name_without_verdict(torch.nn.Identity()) is None
