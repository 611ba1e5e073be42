"""A reward of one's own scores a few made-up responses before the run, and forgets them."""

import random

import numpy as np
import pytest
import torch

from components.reward.function import FunctionReward
from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import ConfigErrors, RlcompWarning
from rlcomp.metrics import recording
from rlcomp.run.trials import try_rewards

MODULE = """
import random, threading
import numpy as np
import torch

def few(prompts, completions): return [1.0]
def text(response): return "good"
def parts(response): return {"a": 1.0}
def raises(response): raise ValueError("no judge")
def all_raise(completions): raise ValueError("no judges")
def unjudged(response): return None
def no_else(response, answer):
    if answer in response:
        return 1.0
def on_some(response):
    if response:
        raise ValueError("not this one")
    return 0.5
def draws(response): return random.random() + np.random.rand() + torch.rand(1).item()
def of_tokens(completion_ids): raise ValueError("not called")

class Counter:
    def __init__(self): self.calls = []
    def __call__(self, response):
        self.calls.append(response)
        return 1.0

class Locked(Counter):
    def __init__(self): self.calls, self.lock = [], threading.Lock()
"""


@pytest.fixture
def tried(monkeypatch, tmp_path):
    (tmp_path / "tried_first.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)

    def run(name, *overrides, calls="in_process", replaced=None):
        words = ["reward=function", f"reward.function=tried_first.{name}", f"reward_pool={calls}"]
        plan = plan_of(compose_config([*words, *overrides]))
        builder = Builder(plan, 0)
        builder.without_models()
        if replaced is not None:
            builder.built["reward"] = replaced
        try_rewards(plan, builder.built)

    return run


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["few"], r"few, tried before the run: .* returned 1 scores for 4 rows"),
        (["text"], r"text, tried before the run: .* with 'good', a str: must be a number"),
        (["parts", "reward.weights={b: 2}"], r"parts, .* weights or correct_by names 'b', .* a\)"),
        (["parts", "reward.correct_by=c"], r"parts, .* weights or correct_by names 'c', .* a\)"),
        (["raises"], r"raises, .* every row failed, the first by ValueError: no judge \("),
        (["all_raise"], r"all_raise, .* every row failed, the first by ValueError: no judges"),
    ],
)
def test_a_function_that_cannot_score_is_told_with_its_name_once(tried, words, told):
    with pytest.raises(ConfigErrors, match=rf"^reward\.function tried_first\.{told}") as raised:
        tried(*words)

    assert len(raised.value.messages) == 1  # of the stages and of the evaluator


@pytest.mark.parametrize(("name", "many"), [("unjudged", 4), ("no_else", 2)])
def test_rows_that_are_not_judged_are_told_with_the_function_and_its_line(tried, name, many):
    with pytest.warns(RlcompWarning) as told:
        tried(name)

    (warned,) = {str(one.message) for one in told}
    assert warned.startswith(f"tried_first.{name} (")
    assert "tried_first.py:" in warned
    assert "returned None or NaN, so that the row cannot be judged; return 0.0 if " in warned
    assert f"the response is wrong: {many} of 4 rows tried before" in warned


@pytest.mark.parametrize("name", ["on_some", "parts", "of_tokens"])
def test_rows_that_fail_or_are_not_judged_stop_nothing(tried, name):
    assert tried(name) is None


def test_a_run_that_counts_invalid_rows_may_have_only_those(tried):
    assert tried("raises", "reward_check=count") is None
    with pytest.raises(ConfigErrors, match="returned 1 scores"):
        tried("few", "reward_check=count")


def test_it_goes_through_workers_that_end_with_it(tried, recwarn):
    with pytest.raises(ConfigErrors, match="every row failed, the first by ValueError: no judge"):
        tried("raises", calls="workers")

    assert not recwarn.list


def test_it_leaves_no_trace_in_random_numbers_or_metrics(tried):
    def states():
        return torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()

    before = states()
    with recording() as ledger:
        tried("draws")

    assert states() == before
    assert ledger.means() == {}


def test_a_function_in_the_process_is_not_tried(tried):
    tried("parts")
    from tried_first import Counter

    counter = Counter()
    tried("parts", replaced=FunctionReward(function=counter))
    tried("parts", replaced=FunctionReward(function=lambda prompts: 1 / 0))

    assert counter.calls == []


def test_a_reward_of_stages_and_of_an_evaluator_is_tried_once(tried, monkeypatch):
    times = []
    monkeypatch.setattr(FunctionReward, "trial", lambda self, batch: times.append(len(batch)))

    tried("parts")

    assert times == [4]


def test_what_is_no_function_or_has_no_task_is_not_tried(tried):
    def never(response):
        raise AssertionError

    assert tried("parts", replaced=object()) is None
    plan = plan_of(compose_config(["reward=function", "reward.function=tried_first.parts"]))
    assert try_rewards(plan, {"reward": FunctionReward(function=never), "task": object()}) is None
