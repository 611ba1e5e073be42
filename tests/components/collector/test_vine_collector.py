"""VinePPO: values by continuations; the expected gradient of a chain, by enumeration."""

from itertools import product

import pytest
import torch

from components.advantage.turns import VinePPO
from components.collector.branching import VineCollector
from components.collector.episodes import EpisodeCollector
from components.reward.episode import EpisodeReturn
from components.worlds.lookup.environment import LookupTool
from rlcomp.batch import encode_columns
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.engine.session import TurnSample
from rlcomp.episodes.player import Player
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.environment import Turn
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch, tiny_policy
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="gsx=")


def ids(text):
    return [TOKENIZER.get_vocab()[c] for c in text]


class Told:
    """A policy whose rows say what they are told to, a character a turn; so do its forks."""

    tokenizer, decoding, context_length = TOKENIZER, Decoding(), None
    device, version = torch.device("cpu"), 0

    def __init__(self, rows, forks):
        self.rows, self.forks = [[*row] for row in rows], [[*row] for row in forks]

    def session(self, prompts, *, decoding, generator):
        self.contexts = [list(prompt) for prompt in prompts]
        return self

    def extend(self, row, tokens):
        self.contexts[row] += tokens

    def fork(self, row):
        self.contexts.append([*self.contexts[row]])
        self.rows.append(self.forks.pop(0))
        return len(self.rows) - 1

    def generate(self, rows, *, limits, texts):
        said = [ids(self.rows[row].pop(0)) for row in rows]
        for row, tokens in zip(rows, said, strict=True):
            self.contexts[row] += tokens
        return [TurnSample(tokens, [-0.5], False) for tokens in said]

    def close(self, rows):
        pass


class Chain:
    """``g`` goes and is paid 1, ``s`` stays, ``x`` fails."""

    stops = ("g", "s", "x")

    def reset(self, example, seed):
        return Turn()

    def step(self, action):
        if action == "x":
            raise ValueError("lost the way")
        return Turn(reward=float(action == "g"), done=action == "g")

    def facts(self):
        return {}

    def close(self):
        pass


def collector(rows, forks, *, group_size=1, **changed):
    policy = Told(rows, forks)
    player = Player(policy=policy, environment=Chain, max_turns=3, max_new_tokens=1)
    arguments = {"continuations": 1} | changed
    made = VineCollector(player=player, group_size=group_size, reward=EpisodeReturn(), **arguments)
    return made, policy


def asked():
    return make_batch(prompt=["="])


# An episode goes with probability p at each of three turns: J = 1 - (1 - p)^3. d log p / d theta is
# 1 - p for going and -p for staying.
P = 0.3
EXACT = 3 * (1 - P) ** 2 * P * (1 - P)
SCORE = {"g": 1 - P, "s": -P}


def ways(turns):
    """What an episode may do that has so many turns left."""
    return ["s" * n + "g" for n in range(turns)] + ["s" * turns]


def chance(way):
    return (1 - P) ** way.count("s") * P ** way.count("g")


def test_the_expected_gradient_is_exact():
    total, whole = 0.0, 0.0
    for episode in ways(3):
        # From before each of its turns one continuation, with the turns that are left.
        for forks in product(*(ways(3 - turn) for turn in range(len(episode)))):
            made, policy = collector([episode], forks)
            rows = VinePPO()(EpisodeReturn()(made(asked())))
            assert policy.forks == []
            found = rows["advantage"][rows["response_mask"]].tolist()
            weight = chance(episode)
            for fork in forks:
                weight *= chance(fork)
            whole += weight
            total += weight * sum(a * SCORE[c] for a, c in zip(found, episode, strict=True))

    assert whole == pytest.approx(1.0, abs=1e-12)
    assert total == pytest.approx(EXACT, abs=1e-10)


def test_values_by_hand():
    # Two episodes, sg and g, two continuations from each of the three places: of episode 0 before
    # turn 0, of episode 1 before turn 0, of episode 0 before turn 1.
    made, _ = collector(["sg", "g"], ["g", "sss", "sss", "sss", "g", "sg"], group_size=2)
    made.continuations = 2
    with recording() as ledger:
        rows = made(asked())

    # ``=`` is read and not sampled; turn by turn one token.
    assert rows["turn_value"].tolist() == [[0.0, 0.5, 1.0], [0.0, 0.0, 0.0]]
    advantage = VinePPO()(EpisodeReturn()(rows))["advantage"]
    assert advantage.tolist() == [[0.0, 0.5, 0.0], [0.0, 1.0, 0.0]]
    told = ledger.means()
    # Sampled behind the forks: 1 + 3, 3 + 3, 1 + 2.
    assert told["vine/tokens"] == 13.0
    assert told["vine/value"] == pytest.approx((0.5 + 0.0 + 1.0) / 3)
    assert told["vine/invalid_fraction"] == 0.0
    assert told["rollout/tokens"] == 3.0


def test_continuations_that_fail_are_left_out_and_few_may():
    forks = ["g", "x", "x", "x"]
    made, _ = collector(["sg"], forks, continuations=2, max_invalid_fraction=0.75)
    with recording() as ledger:
        rows = made(asked())

    # Before turn 0 one of two is left; before turn 1 none.
    assert rows["turn_value"][0, 1] == 1.0
    assert rows["turn_value"][0, 2].isnan()
    assert VinePPO()(EpisodeReturn()(rows))["advantage"].tolist() == [[0.0, 0.0, 0.0]]
    assert ledger.means()["vine/invalid_fraction"] == 0.75
    assert ledger.means()["vine/value"] == 1.0  # of the one turn whose value is known
    made, _ = collector(["sg"], forks, continuations=2)
    with pytest.raises(DataError, match=r"75% of 4 continuations are invalid.*lost the way"):
        made(asked())


def test_too_many_that_fail_are_refused_with_the_first_reason():
    reasons = iter(range(9))

    class Fails(Chain):
        def step(self, action):
            if action == "x":
                raise ValueError(f"reason {next(reasons)}")
            return super().step(action)

    policy = Told(["sg"], ["g", "x", "x", "x"])
    player = Player(policy=policy, environment=Fails, max_turns=3, max_new_tokens=1)
    made = VineCollector(player=player, group_size=1, reward=EpisodeReturn(), continuations=2)

    with pytest.raises(DataError, match="reason 0"):
        made(asked())


def test_an_episode_without_turns_has_no_value():
    class Shut(Chain):
        def reset(self, example, seed):
            raise OSError("shut")

    player = Player(policy=Told([""], []), environment=Shut, max_turns=3, max_new_tokens=1)
    made = VineCollector(player=player, group_size=1, reward=EpisodeReturn())

    assert made(asked())["turn_value"].tolist() == [[0.0]]


def batch_of_lookups():
    batch = make_batch(prompt=["a1=", "b2="])
    batch["columns"] = encode_columns([{"map": "bca"}] * 2)
    return batch


@pytest.mark.parametrize("forward", ["packed", "transformers"])
def test_the_episodes_are_those_without_continuations(forward):
    engine = Engine(forward=forward)
    policy = tiny_policy("abc123=<>|?", scale=2.0, context_length=64, engine=engine)
    player = Player(policy=policy, environment=LookupTool, max_turns=4, max_new_tokens=4)
    rows = []
    for kind, more in ((EpisodeCollector, {}), (VineCollector, {"reward": EpisodeReturn()})):
        torch.manual_seed(3)
        rows.append(kind(player=player, group_size=3, **more)(batch_of_lookups()))

    plain, valued = rows
    for key in plain.keys():
        # Other shapes, other rounding of the log-probs.
        torch.testing.assert_close(plain[key], valued[key], rtol=0, atol=1e-5)
    assert valued["turn_id"].max() > 0


def test_a_reward_that_compares_answers_is_refused():
    class Compares(EpisodeReturn):
        min_group_size = 2

    player = Player(policy=Told([], []), environment=Chain, max_turns=3, max_new_tokens=1)

    with pytest.raises(ConfigError, match="Compares, which judges an answer by the others"):
        VineCollector(player=player, group_size=1, reward=Compares())


def test_the_advantage_keeps_the_contract():
    check_component(VinePPO())
