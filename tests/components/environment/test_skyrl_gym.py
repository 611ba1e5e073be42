import sys

import pytest

from components.environment.text_games import SkyRLGym
from rlcomp.errors import DataError, MissingExtra
from rlcomp.interfaces.environment import Environment, Turn
from rlcomp.interfaces.task import Example

SUM = Example("2+2", "4", "")


class Search:
    """As a BaseTextEnv: looks up what stands after ``find``."""

    def __init__(self, env_config, extras):
        self.words = env_config.words
        self.gold = extras["reward_spec"]["ground_truth"]
        self.most = extras.get("max_turns", 3)
        self.turns = 0

    def init(self, prompt):
        return [*prompt, {"role": "user", "content": f"{self.most} turns"}], {}

    def step(self, action):
        self.turns += 1
        done = not action.startswith("find ") or self.turns == self.most
        found = [] if done else [{"role": "user", "content": self.words[action[5:]]}] * 2
        return {
            "observations": found,
            "reward": float(action == self.gold),
            "done": done,
            "metadata": {"tool": "find"},
        }

    def get_metrics(self):
        return {"turns": self.turns, "found": True, "last": "x"}

    def close(self):
        self.turns = -1


def test_contents_of_messages_are_read_and_columns_are_its_extras(importable):
    name = importable(Search)
    made = SkyRLGym(name=name, settings={"words": {"a": "ape"}}, wording="{observation}|")
    assert isinstance(made, Environment)
    assert made.facts() == {"unread": 0.0}

    told = made.reset(Example("p", "4", "", columns={"max_turns": 9}), 0)
    assert told == Turn(observation="9 turns", closing="|")
    assert made.step("find a") == Turn(observation="ape\nape", closing="|")
    assert made.step("4") == Turn(reward=1.0, done=True)
    assert made.facts() == {"unread": 0.0, "turns": 2.0, "found": 1.0}
    made.close()
    assert made.peer.turns == -1


def test_a_column_reward_spec_stands_in_the_place_of_the_answer(importable):
    made = SkyRLGym(name=importable(Search), settings={"words": {}})
    made.reset(Example("p", "4", "", columns={"reward_spec": {"ground_truth": "5"}}), 0)

    assert made.step("5").reward == 1.0


class Rewrites(Search):
    def init(self, prompt):
        return [{"role": "system", "content": "Hm."}, *prompt], {}


def test_a_prompt_that_is_rewritten_is_refused(importable):
    made = SkyRLGym(name=importable(Rewrites), settings={"words": {}})

    with pytest.raises(DataError, match="rewrites the prompt"):
        made.reset(SUM, 0)


def test_the_real_gsm8k_of_several_turns():
    # 0.2 for the form, over 2 turns, until the answer is right.
    made = SkyRLGym(name="gsm8k_multi_turn")

    assert made.reset(Example("2+2", "4", "", columns={"max_turns": 2}), 0) == Turn()
    told = made.step("#### 5")
    assert (told.reward, told.done) == (0.1, False)
    assert "'#### ANSWER'" in told.observation
    assert made.step("#### 4") == Turn(reward=1.0, done=True)
    assert made.facts() == {"unread": 0.0, "steps": 2.0}
    made.close()


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "skyrl_gym", None)

    with pytest.raises(MissingExtra, match=r"rlcomp\[games\]"):
        SkyRLGym(name="gsm8k")
