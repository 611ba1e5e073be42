import json

import pytest
import torch

from components.reward.surface import Repetition
from components.shaping.length import SoftOverlong
from rlcomp.testing import make_batch
from rlcomp.verify.language import repetition


def scored(reward, *rows):
    """The rewards of rows of tokens, behind a prompt token that counts for nothing."""
    width = max(map(len, rows)) + 1
    tokens = torch.tensor([[9, *row, *[9] * (width - 1 - len(row))] for row in rows])
    mask = torch.tensor(
        [[False, *[True] * len(row), *[False] * (width - 1 - len(row))] for row in rows]
    )
    return reward(make_batch(tokens=tokens, response_mask=mask))


def test_the_share_of_n_grams_that_were_there_before():
    # Pairs 12 21 12 21 12: 2 of 5 are distinct. Pairs 12 23: all. A lone token has none.
    result = scored(Repetition(size=2, penalty=0.5), [1, 2, 1, 2, 1], [1, 2, 3], [9])

    assert result["reward"].tolist() == pytest.approx([-0.5 * (1 - 2 / 4), 0.0, 0.0])
    assert torch.equal(result["rewards", "repetition"], result["reward"])
    assert result["correct"].tolist() == [False, True, True]
    assert result["reward_valid"].all()


def test_the_defaults():
    # Of the four threes 123 231 312 123 one was there before.
    assert scored(Repetition(), [1, 2, 3, 1, 2, 3])["reward"].tolist() == [-0.25]


def test_single_tokens():
    assert repetition([1, 1, 2, 1], 1) == 0.5
    assert repetition("abab", 4) == 0.0


def test_trl_s_recorded_values(shared_data):
    lines = (shared_data / "peers" / "trl_rewards.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    mine = [row for row in rows if row["fn"] == "repetition_penalty" and row["completion_ids"]]

    assert len(mine) == 6
    for row in mine:
        size, most = row["params"]["ngram_size"], -row["params"]["max_penalty"]
        (score,) = scored(Repetition(size=size, penalty=most), row["completion_ids"])[
            "reward"
        ].tolist()
        assert score == pytest.approx(row["expected"], abs=1e-6)


def test_trl_s_soft_overlong_punishment(shared_data):
    lines = (shared_data / "peers" / "trl_rewards.jsonl").read_text("utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["fn"] == "soft_overlong"]

    assert len(rows) == 3
    for row in rows:
        given = row["params"]
        shaping = SoftOverlong(
            max_length=given["max_completion_len"], buffer=given["soft_punish_cache"]
        )
        zero, one = torch.zeros(1), torch.ones(1, dtype=torch.bool)
        batch = make_batch(
            reward=zero,
            rewards={"right": zero},
            reward_valid=one,
            response_mask=torch.ones(1, row["length"], dtype=torch.bool),
        )
        assert shaping(batch)["reward"].tolist() == pytest.approx([row["expected"]])
