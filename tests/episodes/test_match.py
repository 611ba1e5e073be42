import inspect

import pytest
import torch

from rlcomp.batch import decode_texts, encode_texts
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.session import TurnSample
from rlcomp.episodes.match import MatchPlayer
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn
from rlcomp.testing import make_batch
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abcdxy|=?>")


def ids(text):
    return [TOKENIZER.get_vocab()[char] for char in text]


class Told:
    """Answers what it reads by a table; ``~`` is a cut."""

    tokenizer, decoding, context_length = TOKENIZER, Decoding(), None
    device = torch.device("cpu")

    def __init__(self, version=1, **answers):
        self.answers = {ids_text.replace("_", ""): answer for ids_text, answer in answers.items()}
        self.version = version
        self.read = []

    def session(self, prompts, *, decoding, generator):
        self.texts = ["".join(TOKENIZER.convert_ids_to_tokens(row)) for row in prompts]
        self.read.append(self.texts)
        return self

    def generate(self, rows, *, limits, texts):
        said = [self.answers[self.texts[row]] for row in rows]
        return [TurnSample(ids(t.strip("~")), [-0.5] * len(t.strip("~")), "~" in t) for t in said]


class Bids:
    """Seat 0 says a letter, seat 1 hears it and says one, seat 0 hears that and says a last one."""

    stops = ("x", "y")

    def reset(self, example, seed):
        self.said = []
        return Turn(observation="a", seat=0, anchor="start")

    def step(self, action):
        self.said.append(action)
        if action == "dx":
            raise RuntimeError("broken")
        if action == "cx":
            return Turn(seat=5)
        if len(self.said) == 1:
            return Turn(observation=f"{action}|", seat=1, reward=0.5)
        if len(self.said) == 2:
            return Turn(observation=f"{action}|", seat=0)
        return Turn(done=True, payoffs=(3.0, -2.0), reward=0.25)

    def facts(self):
        return {"said": len(self.said)}

    def close(self):
        pass


def played(first, second, prompts=("b=",), group_size=1, **changed):
    options = {"environment": Bids, "max_turns": 4, "max_new_tokens": 3} | changed
    player = MatchPlayer(policies=[first, second], **options)
    batch = make_batch(prompt=encode_texts(prompts))
    return player.play(
        batch, group_size=group_size, decoding=None, generator=torch.Generator(), seed=0
    )


def shown(rows):
    """Tokens as characters, sampled ones in capitals."""
    texts = []
    for row, mask, filled in zip(
        rows["tokens"], rows["response_mask"], rows["attention_mask"], strict=True
    ):
        chars = TOKENIZER.convert_ids_to_tokens(row[filled].tolist())
        texts.append(
            "".join(c.upper() if m else c for c, m in zip(chars, mask[filled], strict=True))
        )
    return texts


def test_each_seat_reads_and_writes_a_transcript_of_its_own():
    first = Told(version=4, **{"b=a": "x", "b=axy|": "by"})
    second = Told(version=7, **{"b=x|": "y"})

    rows = played(first, second)

    # Seat 0: prompt, its role, its move, what seat 1 said, its last move. Seat 1: prompt, what
    # seat 0 said, its move.
    assert shown(rows) == ["b=aXy|BY", "b=x|Y"]
    assert rows["seat"].tolist() == [0, 1]
    assert rows["match_id"].tolist() == [0, 0]
    assert rows["group_id"].tolist() == [0, 1]
    assert rows["trajectory_id"].tolist() == [0, 1]
    # Each row under the weights of who wrote it.
    assert rows["policy_version"].amax(1).tolist() == [4, 7]
    assert rows["facts", "said"].tolist() == [3.0, 3.0]


def test_a_move_is_paid_and_payoffs_go_to_the_last_move_of_each_seat():
    rows = played(Told(**{"b=a": "x", "b=axy|": "by"}), Told(**{"b=x|": "y"}))

    # Seat 0: .5 for its first move, at token 3; 3 + .25 for its last one, at token 7.
    assert rows["turn_reward"][0].tolist() == [0, 0, 0, 0.5, 0, 0, 0, 3.25]
    assert rows["turn_reward"][1].tolist()[:5] == [0, 0, 0, 0, -2.0]


def test_rows_of_a_prompt_and_a_seat_are_one_group():
    first = Told(**{"b=a": "x", "b=axy|": "y", "c=a": "x", "c=axy|": "y"})
    second = Told(**{"b=x|": "y", "c=x|": "y"})

    rows = played(first, second, prompts=("b=", "c="), group_size=2)

    assert rows["seat"].tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert rows["group_id"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert rows["match_id"].tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    assert decode_texts(rows["prompt"]) == ["b="] * 4 + ["c="] * 4
    # All matches of a seat move together.
    assert first.read[0] == ["b=a", "b=a", "c=a", "c=a"]


def test_a_turn_that_met_its_limit_is_an_action():
    rows = played(Told(**{"b=a": "bb~", "b=abby|": "x"}), Told(**{"b=bb|": "y"}), max_turns=4)

    assert shown(rows) == ["b=aBBy|X", "b=bb|Y"]
    assert rows["truncated"].tolist() == [False, False]


def test_a_seat_that_never_moved_has_no_row():
    class Alone(Bids):
        def step(self, action):
            return Turn(done=True, payoffs=(1.0, -1.0))

    rows = played(Told(**{"b=a": "x"}), Told(), environment=Alone)

    assert shown(rows) == ["b=aX"]
    assert rows["turn_reward"].sum().item() == 1.0


def test_what_fails_costs_the_whole_match():
    rows = played(Told(**{"b=a": "dx"}), Told())

    assert rows["seat"].tolist() == [0, 1]
    assert all("broken" in text for text in decode_texts(rows["episode_error"]))


def test_a_seat_that_nobody_has_is_told():
    rows = played(Told(**{"b=a": "cx"}), Told())

    told = "seat is 5: the players have seats 0 to 1"
    assert decode_texts(rows["episode_error"]) == [told, told]


def test_turns_of_all_seats_count():
    rows = played(Told(**{"b=a": "x"}), Told(**{"b=x|": "y"}), max_turns=2)

    assert shown(rows) == ["b=aX", "b=x|Y"]
    # The match had not ended for seat 1 either.
    assert rows["truncated"].tolist() == [True, True]


def test_a_context_that_is_full_cuts_the_match_for_all_seats():
    first, second = Told(**{"b=a": "x", "b=axy|": "x"}), Told(**{"b=x|": "y"})
    # Room for "b=x|" and a move, not for "b=axy|" and one.
    for policy in (first, second):
        policy.context_length = 6

    rows = played(first, second)

    assert shown(rows) == ["b=aX", "b=x|Y"]
    assert rows["truncated"].tolist() == [True, True]


def test_an_observation_that_cannot_be_written_costs_the_whole_match():
    class Odd(Bids):
        def step(self, action):
            said = super().step(action)
            return said if len(self.said) < 2 else Turn(observation="%", seat=0)

    rows = played(Told(**{"b=a": "x"}), Told(**{"b=x|": "y"}), environment=Odd)

    told = decode_texts(rows["episode_error"])
    assert rows["seat"].tolist() == [0, 1]
    assert told[0].startswith("observation: ")
    assert told[1] == told[0]


def test_a_game_needs_a_policy_for_each_seat():
    with pytest.raises(ConfigError, match="has 1 entries: a game needs one for each"):
        MatchPlayer(policies=[Told()], environment=Bids, max_turns=1, max_new_tokens=1)


def test_seats_share_a_tokenizer():
    other = Told()
    other.tokenizer = character_tokenizer(characters="ab")

    with pytest.raises(ConfigError, match="seat 1 has another tokenizer"):
        MatchPlayer(policies=[Told(), other], environment=Bids, max_turns=1, max_new_tokens=1)


def test_payoffs_are_one_for_each_seat():
    class Short(Bids):
        def step(self, action):
            return Turn(done=True, payoffs=(1.0,))

    player = MatchPlayer(
        policies=[Told(**{"b=a": "x"}), Told()], environment=Short, max_turns=1, max_new_tokens=1
    )
    batch = make_batch(prompt=["b="])
    rows = player.play(batch, group_size=1, decoding=None, generator=torch.Generator(), seed=0)

    assert "payoffs has 1 numbers" in decode_texts(rows["episode_error"])[0]


@pytest.mark.parametrize(
    ("part", "numbers"), [(MatchPlayer, {"max_turns": 8, "observation_tokens": 256})]
)
def test_numbers_that_nobody_gives(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers
