"""A critic that answers with words."""

import pytest
import torch

from rlcomp.errors import ConfigError
from rlcomp.model.language_critic import LanguageCritic
from rlcomp.testing import example_batch, tiny_model
from rlcomp.text.tokenizer import byte_tokenizer, character_tokenizer

KEYS = ("tokens", "attention_mask", "response_mask")
WORDS = {"bad": -1.0, "so-so": 0.5, "good": 3.0}


@pytest.fixture
def tokenizer():
    return character_tokenizer(characters="abcdef", words=[*WORDS])


@pytest.fixture
def critic(tokenizer):
    return LanguageCritic(model=tiny_model(tokenizer), tokenizer=tokenizer, words=WORDS)


def test_a_value_is_expected_under_the_words_that_could_come_next(critic, tokenizer):
    batch = example_batch(KEYS)

    values = critic.values(batch)

    ids = [tokenizer.convert_tokens_to_ids(word) for word in WORDS]
    with torch.no_grad():
        logits = critic.model(
            input_ids=batch["tokens"], attention_mask=batch["attention_mask"].long()
        ).logits
    weights = logits[..., ids].exp()
    by_hand = (weights * torch.tensor([-1.0, 0.5, 3.0])).sum(-1) / weights.sum(-1)
    places = batch["response_mask"].nonzero().tolist()
    assert places
    for row, token in places:
        assert float(values[row, token]) == pytest.approx(float(by_hand[row, token - 1]), abs=1e-4)
    assert not values[~batch["response_mask"]].any()
    assert not values.requires_grad


def test_many_rows_are_read_some_at_a_time(critic, monkeypatch):
    batch = example_batch(KEYS)
    whole = critic.values(batch)

    monkeypatch.setattr("rlcomp.model.language_critic._MAX_NUMBERS", 1)

    torch.testing.assert_close(critic.values(batch), whole)


def test_it_starts_once_from_where_the_policy_is(tokenizer):
    model = tiny_model(tokenizer)
    critic = LanguageCritic(model=model, tokenizer=tokenizer, words=WORDS)
    weight = model.get_input_embeddings().weight
    own = critic.model.get_input_embeddings().weight
    with torch.no_grad():
        weight.add_(1.0)
    critic.begin_phase()
    assert torch.equal(own, weight)
    with torch.no_grad():
        weight.add_(1.0)
    critic.begin_phase()
    assert not torch.equal(own, weight)


@pytest.mark.parametrize(
    ("value", "word"), [(-7, "bad"), (-0.25, "bad"), (-0.2, "so-so"), (1.7, "so-so"), (1.8, "good")]
)
def test_a_value_is_said_by_the_nearest_word(critic, value, word):
    assert critic.nearest(value) == word


def make(tokenizer, words):
    return LanguageCritic(model=tiny_model(tokenizer), tokenizer=tokenizer, words=words)


def test_words_that_cannot_be_told_apart_or_written_are_refused(tokenizer):
    with pytest.raises(ConfigError, match="'good' and 'grand' begin with the same token"):
        make(byte_tokenizer(), {"good": 1.0, "grand": 2.0})
    with pytest.raises(ConfigError, match=r"critic\.words.*'z'.*tokenizer\.words"):
        make(tokenizer, {"zero": 0.0, "good": 1.0})
    with pytest.raises(ConfigError, match="at least two words"):
        make(tokenizer, {"good": 1.0})


def test_words_of_several_tokens_are_told_by_their_first():
    found = make(byte_tokenizer(), {"bad": 0.0, "good": 1.0}).word_ids

    assert [len(ids) for ids in found.values()] == [3, 4]
