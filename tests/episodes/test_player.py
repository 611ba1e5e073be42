import inspect

import pytest
import torch

from components.worlds.lookup.environment import LookupTool
from rlcomp.batch import decode_texts, encode_columns, encode_texts
from rlcomp.data.train_bpe import bpe_tokenizer
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.episodes.player import Player
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import make_batch
from rlcomp.testing.tiny import tiny_model, tiny_policy
from rlcomp.text.token_bytes import row_bytes, token_bytes
from rlcomp.text.tokenizer import byte_tokenizer

CHARACTERS = "abc123456=<>|?"


def policy(**changed):
    return tiny_policy(CHARACTERS, scale=2.0, context_length=64, **changed)


def player(of, environment=LookupTool, max_turns=6, max_new_tokens=5, observation_tokens=8):
    return Player(
        policy=of,
        environment=environment,
        max_turns=max_turns,
        max_new_tokens=max_new_tokens,
        observation_tokens=observation_tokens,
    )


def prompts(count=3):
    batch = make_batch(prompt=encode_texts(["a1=", "b2=", "c3="][:count]))
    batch["columns"] = encode_columns([{"map": "bca"}] * count)
    return batch


def played(by, group_size=4, seed=3, decoding=None):
    return by.play(
        prompts(),
        group_size=group_size,
        decoding=decoding,
        generator=torch.Generator().manual_seed(seed),
        seed=0,
    )


class Corpus:
    held_out = 0.0

    def __len__(self):
        return 1

    def example(self, index):
        return Example("", "hello hello hello world", "")


class Always:
    """Goes on whatever it hears, and tells how often it was asked."""

    stops = (">", "|")

    def __init__(self):
        self.turns = 0

    def reset(self, example, seed):
        return Turn()

    def step(self, action):
        self.turns += 1
        return Turn(observation=f"{self.turns}|", reward=0.5, anchor=str(self.turns))

    def facts(self):
        return {}

    def close(self):
        pass


@pytest.mark.parametrize("forward", ["packed", "transformers"])
def test_sampling_and_scoring_agree_over_turns_and_holes(forward):
    by = policy(engine=Engine(forward=forward))
    rows = played(player(by, Always, max_new_tokens=20), group_size=16)

    assert (rows["turn_id"].amax(1) >= 2).any()  # some took several turns
    assert (rows["attention_mask"] & ~rows["response_mask"]).sum() > 3 * 16 * 3  # holes
    found = by.score(rows)
    torch.testing.assert_close(found, rows["rollout_log_probs"], atol=1e-5, rtol=0)


def test_the_first_turn_is_what_generate_samples():
    by = policy()
    whole = by.generate(
        [[5, 6], [7]], group_size=3, max_new_tokens=6, generator=torch.Generator().manual_seed(1)
    )
    prompts = [[5, 6]] * 3 + [[7]] * 3
    session = by.session(prompts, generator=torch.Generator().manual_seed(1))

    said = session.generate(range(6), limits=[6] * 6)

    for row, turn in enumerate(said):
        mask = whole["response_mask"][row]
        assert turn.tokens == whole["tokens"][row][mask].tolist()
        assert turn.log_probs == pytest.approx(whole["rollout_log_probs"][row][mask].tolist())
        assert turn.truncated == bool(whole["truncated"][row])


def test_a_row_draws_the_same_whatever_turns_others_take():
    # Its n-th token has its n-th number, in however many turns and beside whomever.
    by = policy(decoding=Decoding(temperature=1.0))
    alone, beside = (by.session([[5], [5]], generator=torch.Generator()) for _ in range(2))

    one = alone.generate([0, 1], limits=[4, 4])
    two = beside.generate([1, 0], limits=[2, 1])
    more = beside.generate([0], limits=[3])

    text = [said.tokens for said in (one[0], two[1], more[0])]
    assert text[0][: len(text[1]) + len(text[2])] == text[1] + text[2]
    assert one[1].tokens[:2] == two[0].tokens


def test_the_rows_of_a_prompt_are_its_episodes():
    rows = played(player(policy()))

    assert rows["group_id"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert rows["trajectory_id"].tolist() == [*range(12)]
    assert decode_texts(rows["prompt"])[::4] == ["a1=", "b2=", "c3="]
    assert (rows["policy_version"] == 0).all()


def test_turns_rewards_and_anchors_stand_on_their_tokens():
    rows = played(player(policy(), Always, max_new_tokens=20), group_size=8)

    mask, turn = rows["response_mask"], rows["turn_id"]
    assert torch.equal(turn >= 0, mask)
    for row in range(len(rows)):
        count = int(turn[row].max()) + 1
        for number in range(count):
            places = (turn[row] == number).nonzero()[:, 0]
            assert places.diff().eq(1).all()  # in one piece
            paid = rows["turn_reward"][row, places]
            assert paid[:-1].eq(0).all()
            # The last turn was cut, or was one too many: the latter was acted on.
            assert paid[-1] == 0.5 or (number + 1 == count and len(places) == 20)
            anchors = rows["anchor_id"][row, places].unique()
            assert len(anchors) == 1
            assert (anchors >= 0).all() == (number > 0)  # the start names no state


def test_environment_tokens_have_no_gradient():
    by = policy()
    rows = played(player(by, Always, max_new_tokens=20), group_size=8)
    scored = by(rows.clone())
    holes = rows["attention_mask"] & ~rows["response_mask"]

    assert scored["log_probs"][holes].eq(0).all()
    # The weight of an observed token at a place where it alone is the target.
    advantage = torch.where(holes, 100.0, 0.0)
    gradient = torch.autograd.grad((scored["log_probs"] * advantage).sum(), by.model.parameters())
    assert all(each.abs().max() == 0 for each in gradient)


def test_ids_are_never_encoded_twice():
    # Bytes one by one, of a tokenizer that would merge them: six turns, and each id as sampled.
    tokenizer = bpe_tokenizer(corpus=Corpus(), vocab_size=280, words=["<think>"])
    assert len(tokenizer("hello")["input_ids"]) < 5
    model = tiny_model(tokenizer, scale=2.0, context_length=256)
    by = LanguageModel(model=model, tokenizer=tokenizer, decoding=Decoding())
    table = token_bytes(tokenizer)
    sampled = []

    class Six(Always):
        stops = ("o",)

        def step(self, action):
            self.turns += 1
            return Turn(observation="hello", done=self.turns == 6)

    session_of = by.session

    def watched(*args, **kwargs):
        session = session_of(*args, **kwargs)
        generate = session.generate

        def listening(rows, **limits):
            said = generate(rows, **limits)
            sampled.extend(zip(rows, said, strict=True))
            return said

        session.generate = listening
        return session

    by.session = watched
    batch = make_batch(prompt=["hello"])
    six = player(by, Six, max_new_tokens=30, observation_tokens=9)
    draws = torch.Generator().manual_seed(0)
    rows = six.play(batch, group_size=8, decoding=None, generator=draws, seed=0)

    for row in range(8):
        told = [token for number, said in sampled if number == row for token in said.tokens]
        assert rows["tokens"][row][rows["response_mask"][row]].tolist() == told
    unmerged = [
        said.tokens
        for _, said in sampled
        if tokenizer(row_bytes(table, said.tokens).decode(errors="replace"))["input_ids"]
        != said.tokens
    ]
    assert unmerged  # what an encoder would have written differs


def test_the_sets_that_tokens_were_drawn_from_are_kept_turn_by_turn():
    by = policy(decoding=Decoding(top_k=3, replay=True))
    rows = played(player(by, Always, max_new_tokens=20))

    bits = rows["sampling_mask"].to(torch.int64)
    count = sum((bits >> n) & 1 for n in range(8)).sum(-1)
    assert torch.equal(count == 3, rows["response_mask"])
    torch.testing.assert_close(by.score(rows), rows["rollout_log_probs"], atol=1e-5, rtol=0)


def test_a_policy_without_sessions_is_refused():
    class Bare:
        tokenizer = byte_tokenizer()

    with pytest.raises(ConfigError, match="policy is a Bare, which cannot continue"):
        player(Bare())


def test_no_rows_and_no_facts():
    rows = played(player(policy(), Always))

    assert [*rows["facts"].keys()] == []
    assert [*played(player(policy()))["facts"].keys()] == ["questions"]


@pytest.mark.parametrize(
    ("part", "numbers"), [(Player, {"max_turns": 8, "observation_tokens": 256})]
)
def test_numbers_that_nobody_gives(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers
