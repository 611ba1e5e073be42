"""Targets in words: what becomes of a state."""

import pytest
import torch

from components.reward.answer import ExactMatch
from components.reward.function import FunctionReward
from components.reward.majority_vote import MajorityVote
from components.value import LanguageTargets
from rlcomp.batch import encode_texts
from rlcomp.errors import ConfigError, DataError
from rlcomp.metrics import recording
from rlcomp.model.language_critic import LanguageCritic
from rlcomp.testing import tiny_policy
from rlcomp.text.answers import answer_prompts
from rlcomp.text.tokenizer import character_tokenizer

WORDS = {"bad": 0.0, "even": 0.5, "good": 1.0}
PROMPTS = ["12", "345", "6"]


@pytest.fixture
def policy():
    return tiny_policy(tokenizer=character_tokenizer(characters="0123456789", words=[*WORDS]))


def targets(policy, reward, **changed):
    critic = LanguageCritic(model=policy.model, tokenizer=policy.tokenizer, words=WORDS)
    arguments = {"max_new_tokens": 4, "continuations": 3} | changed
    return LanguageTargets(policy=policy, critic=critic, reward=reward, **arguments)


def answered(policy, longest=4):
    rows = answer_prompts(
        policy,
        PROMPTS,
        group_size=1,
        max_new_tokens=longest,
        generator=torch.Generator().manual_seed(2),
    )
    rows["answer"] = encode_texts(["a", "b", "c"])
    return rows


def texts(policy, rows):
    """What each row says to whom: the state, and the word with EOS."""
    spans = zip(rows["tokens"], rows["attention_mask"], rows["response_mask"], strict=True)
    decode = policy.tokenizer.convert_ids_to_tokens
    return [(decode(ids[mask & ~said]), decode(ids[said])) for ids, mask, said in spans]


def even_prompt(prompt, response):
    """1 for the prompt 12, 0 for 6, and for 345 nothing that could be judged."""
    return {"12": 1.0, "6": 0.0, "345": None}[prompt]


def test_each_state_is_answered_by_the_word_of_its_mean_outcome(policy):
    rows = answered(policy)

    found = targets(policy, FunctionReward(function=even_prompt))(rows.copy())

    told = texts(policy, found)
    assert [word for _, word in told] == [["good", "<eos>"], ["bad", "<eos>"]]
    whole = dict(zip(PROMPTS, texts(policy, rows), strict=True))
    for (state, _), prompt in zip(told, ("12", "6"), strict=True):
        before, said = whole[prompt]
        assert state[: len(before)] == before
        kept = state[len(before) :]
        assert kept == said[: len(kept)]
        assert len(kept) < len(said)


def test_a_mean_is_rounded_to_the_nearest_word(policy):
    seen = []

    def one_of_three(response):
        seen.append(response)
        return float(len(seen) % 3 == 0)

    found = targets(policy, FunctionReward(function=one_of_three))(answered(policy))

    assert [word[0] for _, word in texts(policy, found)] == ["even"] * 3  # 1/3 is nearer to .5


def test_targets_are_recorded(policy):
    rows = answered(policy)
    taken = []

    def judged(prompt, response):
        taken.append(response)
        return even_prompt(prompt, response)

    part = targets(policy, FunctionReward(function=judged))
    with recording() as ledger:
        found = part(rows.copy())

    means = ledger.means()
    assert means["value_targets/mean"] == pytest.approx(0.5)
    assert means["value_targets/invalid_fraction"] == pytest.approx(1 / 3)
    assert len(found) == 2
    assert len(taken) == 9
    assert 9 <= means["value_targets/tokens"] <= 9 * 4


def test_cuts_are_spread_over_the_response_and_never_take_all_of_it(policy):
    rows = answered(policy)
    lengths = rows["response_mask"].sum(1).tolist()
    prompts = [len(prompt) for prompt in PROMPTS]
    part = targets(policy, FunctionReward(function=lambda response: 1.0), continuations=1)
    kept = [set(), set(), set()]
    for _ in range(60):
        found = part(rows.copy())
        states = (found["attention_mask"].sum(1) - 2).tolist()
        for places, state, prompt in zip(kept, states, prompts, strict=True):
            places.add(state - prompt)

    assert kept == [set(range(length)) for length in lengths]


def test_behind_the_horizon_the_critic_s_value_counts(policy):
    part = targets(
        policy, FunctionReward(function=lambda response: 0.0), horizon=1, continuations=2
    )
    part.critic.values = lambda batch: batch["response_mask"].float()  # 1 for any state

    rows = answered(policy)
    found = part(rows.copy())

    # Whatever did not end at once has the critic's 1, whatever ended the reward's 0.
    assert {word[0] for _, word in texts(policy, found)} <= {"bad", "even", "good"}
    with recording() as ledger:
        part(rows.copy())
    assert ledger.means()["value_targets/tokens"] == 6
    assert ledger.means()["value_targets/mean"] > 0


def test_the_critic_is_asked_for_the_state_behind_the_last_token(policy):
    part = targets(policy, FunctionReward(function=lambda response: 0.0))
    rows = answered(policy)
    asked = []

    def values(batch):
        asked.append(batch)
        return batch["tokens"].cumsum(1) * batch["response_mask"]

    part.critic.values = values

    found = part._last_values(rows)  # pad has the id 0

    assert found.tolist() == (rows["tokens"] * rows["attention_mask"]).sum(1).tolist()
    assert (
        asked[0]["attention_mask"].sum(1).tolist() == (rows["attention_mask"].sum(1) + 1).tolist()
    )


def test_without_any_valid_reward_it_says_so(policy):
    part = targets(policy, FunctionReward(function=lambda response: None))

    with pytest.raises(DataError, match="no continuation has a valid reward"):
        part(answered(policy))


def test_a_reward_that_compares_answers_is_refused(policy):
    with pytest.raises(ConfigError, match=r"value_targets\.reward.*verifier"):
        targets(policy, MajorityVote(reward=ExactMatch(), vote=str))


def test_the_prompt_s_own_entries_reach_the_reward(policy):
    seen = []

    def noted(prompt, answer):
        seen.append(prompt + answer)
        return 1.0

    targets(policy, FunctionReward(function=noted))(answered(policy))

    assert seen == ["12a"] * 3 + ["345b"] * 3 + ["6c"] * 3
