import json
import math

import pytest
import torch

from components.evaluator.rollouts import RolloutLog
from rlcomp.batch import encode_texts
from rlcomp.interfaces.reward import write_reward
from rlcomp.metrics import recording
from rlcomp.testing import make_batch, tiny_policy
from rlcomp.text.answers import encode_answers


@pytest.fixture(scope="module")
def policy():
    return tiny_policy("0123456789+=")


@pytest.fixture
def batch(policy):
    """Three groups of two: 12+3=15, the second answer cut off after one token."""
    rows = encode_answers(policy, ["12+3="] * 6, ["15", "1", "15", "1", "15", "1"])
    rows["group_id"] = torch.tensor([7, 7, 3, 3, 9, 9])
    for key, text in {"prompt": "12+3=", "response": "15"}.items():
        rows[key] = torch.tensor([[*text.encode(), 255]] * 6, dtype=torch.uint8)
    return rows


def kept(policy, batch, **arguments):
    with recording() as ledger:
        result = RolloutLog(policy=policy, **arguments)(batch)
    assert result is batch
    return ledger.samples


def test_the_first_groups_are_saved_with_all_their_answers(policy, batch):
    samples = kept(policy, batch, num_groups=2)

    assert [sample["group_id"] for sample in samples] == [7, 7, 3, 3]
    assert samples[0]["tokens"] == ["1", "5", "<eos>"]
    assert samples[1]["tokens"] == ["1", "<eos>"]
    assert samples[0]["prompt"] == "12+3="


def test_tokens_without_training_are_saved_and_marked(policy, batch):
    # A prompt of 5 tokens: the answer is at 5, 6, 7; its second token is a tool's.
    batch["response_mask"][0, 6] = False

    sample = kept(policy, batch)[0]

    assert (sample["tokens"], sample["trained"]) == (["1", "5", "<eos>"], [1, 0, 1])


def test_numbers_match_their_tokens(policy, batch):
    scored = policy(batch.select("tokens", "attention_mask", "response_mask"))
    batch["advantage"] = torch.arange(8.0).expand(6, 8) * batch["response_mask"]
    # Half as likely before the step: the ratio is 2.
    batch["old_log_probs"] = scored["log_probs"] - torch.tensor(2.0).log()

    sample = kept(policy, batch)[0]

    assert sample["advantage"] == [5.0, 6.0, 7.0]
    assert sample["ratio"] == pytest.approx([2.0, 2.0, 2.0], rel=1e-3)
    assert sample["entropy"] == pytest.approx(scored["entropy"][0, 5:8].tolist(), rel=1e-3)


def test_outcomes_are_saved_unchanged(policy, batch):
    batch["reward"] = torch.tensor([1.0, float("nan"), 0.0, 0.0, 0.0, 0.0])
    batch["rewards"] = make_batch(format=torch.full((6,), 1 / 3))
    batch["correct"] = batch["truncated"] = torch.tensor([True, False] * 3)

    first, second = kept(policy, batch, num_groups=1)

    assert (first["reward"], second["reward"]) == (1.0, None)
    assert first["rewards"] == {"format": 0.3333}
    assert (first["correct"], second["truncated"]) == (True, False)
    json.dumps([first, second], allow_nan=False)


def test_a_fully_masked_answer_is_saved_and_marked(policy, batch):
    batch["response_mask"][0] = False

    sample = kept(policy, batch)[0]

    assert (sample["tokens"], sample["trained"]) == (["1", "5", "<eos>"], [0, 0, 0])


def test_masked_first_tokens_are_saved_and_marked(policy, batch):
    batch["response_mask"][0, 5] = False

    sample = kept(policy, batch)[0]

    assert (sample["tokens"], sample["trained"]) == (["1", "5", "<eos>"], [0, 1, 1])


def test_an_empty_prompt_is_one_token_all_the_same(policy):
    # An empty prompt is <eos>, so that the answer is at 1, 2, 3.
    rows = encode_answers(policy, [""], ["15"])
    rows["group_id"] = torch.tensor([0])
    for key, text in {"prompt": "", "response": "15"}.items():
        rows[key] = torch.tensor([[*text.encode(), 255]], dtype=torch.uint8)

    assert kept(policy, rows)[0]["tokens"] == ["1", "5", "<eos>"]


def test_an_empty_answer_has_no_tokens(policy, batch):
    batch["response_mask"][0] = False
    batch["attention_mask"][0, 5:] = False

    assert kept(policy, batch)[0]["tokens"] == []


def test_missing_entries_are_left_out(policy, batch):
    (sample, _) = kept(policy, batch, num_groups=1)

    assert set(sample) == {
        "group_id",
        "prompt",
        "response",
        "tokens",
        "trained",
        "entropy",
    }


def test_the_right_answer_is_split_at_its_possible_ends(policy, batch):
    batch["answer"] = encode_texts(["né="] * 6)
    # é has two bytes; a piece may end between them.
    batch["answer_ends"] = torch.tensor([[True, True, True, True, False]] * 6)

    assert kept(policy, batch)[0]["pieces"] == ["n", "\ufffd", "\ufffd", "="]


def test_an_answer_in_one_piece_is_not_cut(policy, batch):
    batch["answer"] = encode_texts(["15"] * 6)
    batch["answer_ends"] = torch.tensor([[False, True, False]] * 6)

    assert "pieces" not in kept(policy, batch)[0]


def test_questions_of_a_saved_group_are_saved_with_their_answers(policy, batch):
    # Group 9 answers the question of the first row of group 7.
    batch["answers_group_id"] = torch.tensor([9, -1, -1, -1, -1, -1])

    samples = kept(policy, batch, num_groups=1)

    assert [sample["group_id"] for sample in samples] == [7, 7, 9, 9]


def test_turns_rewards_and_facts_of_episodes_are_saved(policy, batch):
    # The answer's tokens at 5, 6, 7: sampled, observed, sampled.
    batch["turn_id"] = torch.tensor([[-1] * 5 + [0, -1, 1]] * 6)
    batch["turn_reward"] = torch.tensor([[0.0] * 5 + [0.25, 0.0, 1 / 3]] * 6)
    batch["facts"] = make_batch(cost=[2.0] + [math.nan] * 5)

    first, second = kept(policy, batch, num_groups=1)

    assert (first["turn"], first["turn_reward"]) == ([0, -1, 1], [0.25, 0.0, 0.3333])
    assert (first["facts"], second["facts"]) == ({"cost": 2.0}, {"cost": None})
    json.dumps([first, second], allow_nan=False)


def test_answers_have_no_verdict_if_the_reward_has_none(policy, batch):
    score, right = torch.tensor([8.0, 1.0] * 3), torch.ones(6).bool()

    def samples(decides):
        with recording() as ledger:
            write_reward(batch, score, {"mine": score}, right, right, decides=decides)
            RolloutLog(policy=policy)(batch)
        return ledger.samples

    assert ["correct" in sample for sample in samples(decides=False)] == [False] * 4
    assert [sample["correct"] for sample in samples(decides=True)] == [True] * 4
