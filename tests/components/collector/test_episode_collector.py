import pytest
import torch

from components.collector.episodes import EpisodeCollector
from rlcomp.batch import decode_texts, encode_columns, encode_texts
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.session import TurnSample
from rlcomp.episodes.player import Player
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn
from rlcomp.metrics import recording
from rlcomp.testing import make_batch, tiny_policy
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abcd>|=")


def ids(text):
    return [TOKENIZER.eos_token_id if c == "." else TOKENIZER.get_vocab()[c] for c in text]


class Told:
    """A policy whose rows say what they are told to; ``~`` is a cut."""

    tokenizer, decoding, context_length = TOKENIZER, Decoding(), None
    device, version = torch.device("cpu"), 3

    def __init__(self, *rows):
        self.rows = [list(row) for row in rows]

    def session(self, prompts, *, decoding, generator):
        self.contexts = [list(prompt) for prompt in prompts]
        return self

    def extend(self, row, tokens):
        self.contexts[row] += tokens

    def generate(self, rows, *, limits, texts):
        said = [self.rows[row].pop(0) for row in rows]
        for row, text in zip(rows, said, strict=True):
            self.contexts[row] += ids(text.strip("~"))
        return [TurnSample(ids(t.strip("~")), [-0.5] * len(t.strip("~")), "~" in t) for t in said]

    def close(self, rows):
        pass


class Seeds:
    """Pays the length of what it hears; ``d`` ends, ``c`` breaks; tells the seed it got."""

    stops = (">",)
    seeds: list = []

    def reset(self, example, seed):
        self.seeds.append(seed)
        self.example = example
        return Turn()

    def step(self, action):
        if "c" in action:
            raise ValueError("c")
        known = self.example.columns.get("says", "||")
        return Turn(observation=known, reward=float(len(action)), done="d" in action)

    def facts(self):
        return {"length": len(self.example.answer)}

    def close(self):
        pass


def collector(policy, **changed):
    limits = {"max_turns": 3, "max_new_tokens": 4} | changed
    return EpisodeCollector(player=Player(policy=policy, environment=Seeds, **limits), group_size=2)


def asked(**entries):
    batch = make_batch(prompt=["a=", "bb="], answer=["a", "ab"])
    return batch.update(entries)


ROWS = [["ab>", "d>"], ["ab~"], ["c>"], ["a>", "b>", "d."]]


def test_episodes_become_rows():
    batch = asked(example_id=torch.tensor([7, 9]))
    batch["columns"] = encode_columns([{"says": "b|"}, {"says": "||"}])

    rows = collector(Told(*ROWS))(batch)

    assert rows["group_id"].tolist() == [0, 0, 1, 1]
    assert rows["example_id"].tolist() == [7, 7, 9, 9]
    assert decode_texts(rows["prompt"]) == ["a=", "a=", "bb=", "bb="]
    assert decode_texts(rows["response"]) == ["d>", "ab", "c>", "d"]
    assert decode_texts(rows["transcript"]) == ["ab>b|d>", "ab", "c>", "a>||b>||d"]
    assert decode_texts(rows["episode_error"]) == ["", "", "ValueError: c", ""]
    assert rows["truncated"].tolist() == [False, True, False, False]
    assert rows["turn_id"][0].tolist() == [-1, -1, 0, 0, 0, -1, -1, 1, 1, -1, -1, -1, -1]
    assert rows["turn_reward"][0].tolist() == [0.0] * 4 + [3.0, 0.0, 0.0, 0.0, 2.0] + [0.0] * 4
    assert torch.equal(rows["response_mask"], rows["turn_id"] >= 0)
    assert rows["rollout_log_probs"][0].tolist() == [
        -0.5 if inside else 0.0 for inside in rows["response_mask"][0].tolist()
    ]
    assert rows["policy_version"].max() == 3


def test_numbers_of_episodes_are_recorded():
    with recording() as ledger:
        collector(Told(*ROWS))(asked())

    # Sampled 5, 2, 2 and 6 tokens; paid 3 + 2, 0, 0 and 2 + 2 + 1; observed 2, 0, 0 and 4.
    assert ledger.means() == pytest.approx(
        {
            "rollout/length": 15 / 4,
            "rollout/truncated": 1 / 4,
            "rollout/tokens": 15.0,
            "episode/turns": (2 + 1 + 1 + 3) / 4,
            "episode/environment_reward": (5 + 0 + 0 + 5) / 4,
            "episode/failed": 1 / 4,
            "episode/observed": (2 + 0 + 0 + 4) / 4,
            "facts/length": (1 + 1 + 2 + 2) / 4,
        }
    )


def seeds_of(made):
    Seeds.seeds.clear()
    made.policy.rows = [[*row] for row in ROWS]
    made(asked())
    return [*Seeds.seeds]


def test_what_is_read_behind_a_turn_of_one_token_is_observed():
    policy = Told([">", "d>"], [">", "d>"])
    with recording() as ledger:
        collector(policy)(asked()[:1])

    # The two bars, in each of two episodes.
    assert ledger.means()["episode/observed"] == 2.0


def test_environments_get_seeds_of_their_own_and_of_the_rollout():
    torch.manual_seed(0)
    first = seeds_of(collector(Told()))
    torch.manual_seed(0)
    assert seeds_of(made := collector(Told())) == first
    assert len(set(first)) == 4
    assert not {*seeds_of(made)} & {*first}


def test_seeds_follow_from_the_number_of_the_rollout_whatever_was_drawn_before():
    torch.manual_seed(0)
    made = collector(Told())
    torch.manual_seed(0)
    other = collector(Told())

    seeds_of(made)
    torch.rand(3, generator=other.generator)
    seeds_of(other)

    assert seeds_of(made) == seeds_of(other)


def test_a_run_that_goes_on_draws_what_one_that_was_not_stopped_does():
    made, other = collector(Told()), collector(Told())
    seeds_of(made)

    other.generator.set_state(made.generator.get_state())  # as a checkpoint does

    assert seeds_of(other) == seeds_of(made)


def test_a_conditioned_policy_is_asked_its_own_prompt():
    policy = Told(["d>"], ["d>"], ["d>"], ["d>"])

    rows = collector(policy)(asked(policy_prompt=encode_texts(["b=", "a="])))

    assert [row[:2] for row in rows["tokens"].tolist()] == [ids("b=")] * 2 + [ids("a=")] * 2
    assert decode_texts(rows["prompt"])[0] == "a="


def test_what_cannot_work_is_refused_when_it_is_made():
    with pytest.raises(ConfigError, match="max_turns"):
        collector(Told(), max_turns=0)
    policy = tiny_policy()
    policy.session = None
    with pytest.raises(ConfigError, match="which cannot continue"):
        collector(policy)
