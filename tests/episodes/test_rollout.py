import pytest
import torch

from rlcomp.engine.session import TurnSample
from rlcomp.episodes.host import Start
from rlcomp.episodes.in_process import InProcessHosts
from rlcomp.episodes.rollout import EpisodeLimits, Rollout
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.text.prompt import PlainDialogue
from rlcomp.text.token_bytes import token_bytes
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abcdefgh<>|?")
TABLE = token_bytes(TOKENIZER)
EOS = TOKENIZER.eos_token_id


def ids(text):
    return [EOS if char == "." else TOKENIZER.get_vocab()[char] for char in text]


class Scripted:
    """A session that says what it is told to, turn by turn; ``.`` is EOS, ``~`` a cut."""

    def __init__(self, prompt, *rows):
        self.contexts = [ids(prompt) for _ in rows]
        self.rows = [list(row) for row in rows]
        self.asked, self.closed = [], []
        self.heads = [PlainDialogue(context) for context in self.contexts]

    def opened(self, contexts):
        self.contexts = [list(context) for context in contexts]
        return self

    def extend(self, row, tokens):
        self.contexts[row] += tokens

    def generate(self, rows, *, limits, texts=()):
        self.asked.append((list(rows), list(limits)))
        said = []
        for row in rows:
            text = self.rows[row].pop(0)
            tokens = ids(text.rstrip("~"))
            self.contexts[row] += tokens
            said.append(TurnSample(tokens, [-1.0] * len(tokens), text.endswith("~")))
        return said

    def close(self, rows):
        self.closed += rows


class Echo:
    """Says what it heard, each turn worth its length, until it hears ``done``."""

    stops = (">",)

    def __init__(self, observation="{}|", closing="", done="d>"):
        self.observation, self.closing, self.done = observation, closing, done
        self.heard = []

    def reset(self, example, seed):
        self.seed = seed
        return Turn(observation=example.columns.get("first", ""), anchor="start")

    def step(self, action):
        self.heard.append(action)
        if action == "f>":
            raise RuntimeError("it broke")
        if action == self.done:
            return Turn(reward=10.0, done=True)
        told = self.observation.format(action.strip("<>"))
        return Turn(
            observation=told, closing=self.closing, reward=float(len(action)), anchor=action
        )

    def facts(self):
        return {"heard": len(self.heard)}

    def close(self):
        pass


def rolled(session, make=Echo, first="", turns=4, context=None, observed=8):
    limits = EpisodeLimits(turns, 5, observed, context)
    host = InProcessHosts().host(make)
    starts = [Start(Example("ab", "", "", columns={"first": first}), n) for n in range(9)]
    rollout = Rollout(session.opened, session.heads, host, TOKENIZER, TABLE, limits)
    return rollout.run(starts[: len(session.rows)])


def shown(episode):
    """Tokens as characters, sampled ones in capitals."""
    text = [TABLE[token].decode() or "." for token in episode.ids]
    marks = zip(text, episode.trained, strict=True)
    return "".join(char.upper() if sampled else char for char, sampled in marks)


def test_turns_and_observations_alternate():
    (episode,) = rolled(Scripted("ab", ["<c>", "e>", "d>"]))

    # Prompt; a turn; what was told; a turn; what was told; the turn that ends it.
    assert shown(episode) == "ab<C>c|E>e|D>"
    assert [(turn.start, turn.end) for turn in episode.turns] == [(2, 5), (7, 9), (11, 13)]
    assert [turn.reward for turn in episode.turns] == [3.0, 2.0, 10.0]
    assert [turn.anchor for turn in episode.turns] == ["start", "<c>", "e>"]
    assert "".join(episode.texts) == "<c>c|e>e|d>"
    assert (episode.truncated, episode.broken, episode.facts) == (False, "", {"heard": 3.0})


def test_what_the_environment_says_first_stands_behind_the_prompt():
    (episode,) = rolled(Scripted("ab", ["d>"]), first="gg")

    assert shown(episode) == "abggD>"


def test_a_turn_that_was_cut_ends_the_episode_and_is_not_acted_on():
    cut, whole = rolled(Scripted("ab", ["<c~"], ["c>", "d>"]))

    assert (shown(cut), cut.truncated, cut.facts["heard"]) == ("ab<C", True, 0.0)
    assert (shown(whole), whole.truncated) == ("abC>c|D>", False)


def test_the_last_turn_is_not_answered():
    (episode,) = rolled(Scripted("ab", ["c>", "e>", "d>"]), turns=2)

    # The last token of a row is one that the policy sampled.
    assert shown(episode) == "abC>c|E>"
    assert (episode.truncated, episode.facts["heard"]) == (True, 2.0)
    assert [turn.reward for turn in episode.turns] == [2.0, 2.0]


def test_an_observation_that_leaves_no_room_is_not_appended():
    session = Scripted("ab", ["c>", "e>"])
    # ab C> c| takes 6: the second turn may take one token more of 7, and there is no third.
    (episode,) = rolled(session, context=7, make=lambda: Echo(done=""))

    assert session.asked == [([0], [5]), ([0], [1])]
    assert (shown(episode), episode.truncated) == ("abC>c|E>", True)


def test_an_observation_that_just_fills_the_context_is_not_appended():
    (episode,) = rolled(Scripted("ab", ["c>", "d>"]), context=6)

    assert (shown(episode), episode.truncated) == ("abC>", True)


def test_a_long_observation_is_cut_and_its_closing_text_is_kept():
    def make():
        return Echo(observation="eeee{}", closing="|?")

    (episode,) = rolled(Scripted("ab", ["c>", "d>"]), make=make, observed=3)

    assert shown(episode) == "abC>eee|?D>"
    assert "".join(episode.texts) == "c>eee|?d>"


def test_a_huge_observation_costs_no_more_than_what_is_kept(monkeypatch):
    encoded = []
    plain = Rollout._encode_text
    monkeypatch.setattr(
        Rollout, "_encode_text", lambda self, t: encoded.append(len(t)) or plain(self, t)
    )

    (episode,) = rolled(
        Scripted("ab", ["c>", "d>"]), make=lambda: Echo(observation="e" * 1_000_000), observed=3
    )

    assert shown(episode) == "abC>eeeD>"
    assert max(encoded) <= 3 * 16


def test_an_environment_that_fails_costs_its_own_episode():
    broken, whole = rolled(Scripted("ab", ["c>", "f>"], ["c>", "d>"]))

    assert broken.broken == "RuntimeError: it broke"
    assert (shown(broken), broken.truncated) == ("abC>c|F>", False)
    assert (shown(whole), whole.broken) == ("abC>c|D>", "")


@pytest.mark.parametrize("fails", ["__init__", "reset"])
def test_one_that_cannot_begin_has_no_turns(fails):
    class Bad(Echo):
        made = 0

    def raising(self, *_, **__):
        raise OSError("no such world")

    def make():
        Bad.made += 1
        if fails == "__init__" and Bad.made == 2:  # the first one is asked for its stop texts
            raise OSError("no such world")
        made = Bad()
        if fails == "reset" and Bad.made == 2:
            made.reset = lambda *_: raising(made)
        return made

    bad, good = rolled(Scripted("ab", [], ["d>"]), make=make)

    assert (bad.broken, bad.turns, shown(bad)) == ("OSError: no such world", [], "ab")
    assert shown(good) == "abD>"


def test_an_observation_that_the_tokenizer_cannot_write_costs_its_own_episode():
    class Accents(Echo):
        def step(self, action):
            return Turn(observation="é") if action == "e>" else super().step(action)

    odd, whole = rolled(Scripted("ab", ["e>"], ["d>"]), make=Accents)

    assert "the tokenizer has no token for 'é'" in odd.broken
    assert (shown(odd), whole.broken) == ("abE>", "")


def test_a_reward_of_reset_that_no_turn_has_earned_is_not_lost_in_silence():
    class Pays(Echo):
        def reset(self, example, seed):
            return Turn(reward=2.0)

    (episode,) = rolled(Scripted("ab", []), make=Pays)

    assert episode.broken == "reset returned reward 2.0, but no action precedes it"


def test_facts_that_cannot_be_told_make_an_episode_invalid_but_hide_no_earlier_failure():
    class Silent(Echo):
        def facts(self):
            raise KeyError("hits")

    broken, silent = rolled(Scripted("ab", ["f>"], ["d>"]), make=Silent)

    assert (broken.broken, silent.broken) == ("RuntimeError: it broke", "KeyError: 'hits'")


def test_a_tool_gets_the_text_up_to_the_stop():
    heard = []

    class Listening(Echo):
        stops = ("e", ">")

        def step(self, action):
            heard.append(action)
            return Turn(done=True)

    (episode,) = rolled(Scripted("ab", ["c>e"]), make=Listening)

    # A token may run past the stop text: it stays as it was sampled.
    assert heard == ["c>"]
    assert shown(episode) == "abC>E"


def test_what_is_over_is_closed_in_the_session():
    session = Scripted("ab", ["c>", "d>"], ["d>"], ["c~"])
    rolled(session)

    assert sorted(session.closed) == [0, 1, 2]
    assert [rows for rows, _ in session.asked] == [[0, 1, 2], [0]]


def test_environments_are_closed_though_the_policy_fails():
    closed = []

    class Closing(Echo):
        def close(self):
            closed.append(self)

    with pytest.raises(IndexError):
        rolled(Scripted("ab", ["c>"]), make=Closing)

    assert len(closed) == 2  # that of the stop texts, and that of the episode


def test_special_tokens_in_an_observation_are_plain_text():
    tokenizer = character_tokenizer(characters="ab<>eos/|")
    assert tokenizer.eos_token == "<eos>"
    limits = EpisodeLimits(2, 5, 20, None)
    make = InProcessHosts().host(lambda: Echo(observation="<eos>"))
    rollout = Rollout(None, [], make, tokenizer, token_bytes(tokenizer), limits)

    found, text = rollout._encode_observation(Turn(observation="<eos>"))

    assert tokenizer.eos_token_id not in found
    assert (len(found), text) == (5, "<eos>")
    assert torch.tensor(found).unique().numel() == 5


def test_a_policy_whose_context_is_not_what_the_episode_holds_is_found():
    class Forgets(Scripted):
        def extend(self, row, tokens):
            self.contexts[row] += tokens[1:]

    with pytest.raises(AssertionError, match="a context was rewritten"):
        rolled(Forgets("ab", ["c>", "d>"]))
