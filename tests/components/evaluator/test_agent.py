import pytest
import torch
from tensordict import TensorDict

from components.evaluator.agent import AgentAccuracy
from components.reward.answer import ExactMatch
from components.worlds.lookup.environment import LookupTool
from components.worlds.lookup.task import Lookup
from rlcomp.episodes.player import Player
from rlcomp.interfaces.environment import Turn
from rlcomp.metrics import recording
from rlcomp.testing import tiny_policy

CHARACTERS = "abcdefghijklmnop0123456789=<>|?"


class Knows:
    """Policy with the solution in its rows; ``odd`` rows hold an answer alone."""

    def __init__(self, policy):
        self.policy = policy

    def session(self, prompts, *, decoding, generator):
        whole = self.policy.session(prompts, decoding=decoding, generator=generator)
        tokenizer, greedy = self.policy.tokenizer, decoding is not None
        said = whole.generate

        def generate(rows, *, limits, texts):
            turns = []
            for row, turn in zip(rows, said(rows, limits=limits, texts=texts), strict=True):
                text = tokenizer.decode(whole.contexts[row][: -len(turn.tokens)])
                start = whole.contexts[row][: -len(turn.tokens)]
                ids = tokenizer(self.next(text, greedy or row % 2 == 0))["input_ids"]
                if not text.count("|") < int(text[1]) or not (greedy or row % 2 == 0):
                    ids = [*ids, tokenizer.eos_token_id]
                whole.contexts[row] = [*start, *ids]
                turns.append(type(turn)(ids, [0.0] * len(ids), False))
            return turns

        whole.generate = generate
        return whole

    def next(self, text, able):
        told = text[text.index("=") + 1 :].split("|")
        letter = told[-2][-1] if len(told) > 1 else text[0]
        if not able:
            return "?"
        return f"<{letter}>" if len(told) - 1 < int(text[1]) else letter

    def __getattr__(self, name):
        return getattr(self.policy, name)


def evaluator(policy, environment=LookupTool, **changed):
    torch.manual_seed(0)
    return AgentAccuracy(
        player=Player(policy=policy, environment=environment, max_turns=6, max_new_tokens=5),
        task=Lookup(),
        reward=ExactMatch(),
        num_prompts=6,
        samples_per_prompt=2,
        **changed,
    )


def measured(component):
    with recording() as ledger:
        component(TensorDict({}, batch_size=[]))
    return ledger.means(), ledger.samples


def policy():
    return Knows(tiny_policy(CHARACTERS, context_length=64))


def test_episodes_are_judged_by_their_last_turn():
    found, samples = measured(evaluator(policy()))

    # Greedily every prompt is solved; of two sampled rows the even one.
    assert found["evaluation/greedy"] == 1.0
    assert found["evaluation/sampled"] == 0.5
    assert found["evaluation/pass@2"] == 1.0
    assert len(samples) == 6
    assert all(sample["response"] == sample["answer"] for sample in samples)


def test_turns_of_the_sampled_episodes_are_recorded():
    accuracy = evaluator(policy())
    found, _ = measured(accuracy)

    hops = [int(example.prompt[1]) for example in accuracy.examples]
    # One question a hop and the answer; those that only answer take one turn.
    assert found["evaluation/turns"] == pytest.approx(sum((n + 1) + 1 for n in hops) / 12)


def test_episodes_whose_environment_failed_are_left_out():
    class Fails(LookupTool):
        def step(self, action):
            if action == "?":
                raise OSError("gone")
            return super().step(action)

    accuracy = evaluator(policy(), environment=Fails)
    found, _ = measured(accuracy)

    assert found["evaluation/sampled"] == 1.0
    # Of the 12 sampled ones half, of the 6 greedy ones none.
    assert found["evaluation/invalid_fraction"] == pytest.approx(6 / 18)
    hops = [int(example.prompt[1]) for example in accuracy.examples]
    assert found["evaluation/turns"] == pytest.approx(sum(n + 1 for n in hops) / 6)


def test_the_same_episodes_at_every_evaluation():
    accuracy = evaluator(tiny_policy(CHARACTERS, context_length=64))

    assert measured(accuracy) == measured(accuracy)


def test_an_environment_that_ends_at_once_leaves_nothing_to_judge_as_right():
    class Over(LookupTool):
        def reset(self, example, seed):
            return Turn(done=True)

    found, _ = measured(evaluator(policy(), environment=Over))

    assert (found["evaluation/greedy"], found["evaluation/turns"]) == (0.0, 0.0)
