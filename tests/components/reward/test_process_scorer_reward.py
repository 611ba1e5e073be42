"""Reward of a process reward model whose scores are a table."""

import pytest
import torch

from components.potential import TokenScore
from components.reward.reward_model import ProcessScorerReward
from rlcomp.engine.decoding import Decoding
from rlcomp.metrics import recording
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.scorer import TokenScorer
from rlcomp.testing import tiny_model
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="ab;?")
CHANCES = {"a": 0.9, "b": 0.2, ";": 0.5}


class Table(TokenScorer):
    """The log-odds of a table, by the token."""

    def token_scores(self, batch):
        found = torch.zeros(batch["tokens"].shape)
        for text, chance in CHANCES.items():
            token = TOKENIZER.convert_tokens_to_ids(text)
            found[batch["tokens"] == token] = torch.logit(torch.tensor(chance))
        return torch.where(batch["response_mask"], found, 0.0)


def scorer():
    policy = LanguageModel(model=tiny_model(TOKENIZER), tokenizer=TOKENIZER, decoding=Decoding())
    return Table(policy=policy)


def scored(*responses, **settings):
    batch = encode_rows(TOKENIZER, ["?"] * len(responses), list(responses))
    return ProcessScorerReward(scorer=scorer(), **{"separator": ";", **settings})(batch)


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [("min", 0.2), ("prod", 0.5 * 0.5 * 0.2), ("last", 0.2), ("mean", 0.4)],
)
def test_steps_end_with_the_separator_and_the_last_with_the_text(aggregation, expected):
    with recording() as ledger:
        result = scored("ab;a;b", aggregation=aggregation)

    assert result["reward"].item() == pytest.approx(expected)
    # The prompt, the answer and EOS.
    assert result["step_end"].int().tolist() == [[0, 0, 0, 1, 0, 1, 1, 0]]
    wanted = torch.tensor([[0, 0, 0, 0.5, 0, 0.5, 0.2, 0]])
    torch.testing.assert_close(result["step_score"], wanted)
    assert ledger.means()["reward/steps"] == 3


def test_an_answer_is_right_above_one_half_and_an_empty_one_has_no_reward():
    result = scored("a", "b", "", ";")

    assert result["reward"][3] == 0.5
    assert result["correct"].tolist() == [True, False, False, False]
    assert result["reward_valid"].tolist() == [True, True, False, True]


def test_without_a_separator_every_character_is_a_step():
    assert scored("ab", separator="")["step_end"].int().tolist() == [[0, 1, 1, 0]]


def test_the_potential_is_the_chance_before_the_token():
    policy = LanguageModel(model=tiny_model(TOKENIZER), tokenizer=TOKENIZER, decoding=Decoding())
    model = TokenScorer(policy=policy)
    batch = encode_rows(TOKENIZER, ["?"], ["ab"])

    result = TokenScore(scorer=model)(batch.copy())["potential"]

    after = model.token_scores(batch).sigmoid()
    torch.testing.assert_close(result[0, 2:], after[0, 1:3])
    assert result[0, 0] == 0
    assert 0 < result[0, 1] < 1
