"""A user's own package: a task whose examples carry unit tests, and a reward that runs them.

Nothing of rlcomp knows the columns of this task; they pass whatever stands between both files.
"""

import json
import sys

import pytest

# A program is a digit d that is added to a number; a test is a number and the largest last digit
# that is right. Prompt n has 1 to 3 tests; every other one has a hint.
PACKAGE = {
    "__init__.py": "",
    "programs.py": '''
"""Task: programs with unit tests."""
from rlcomp.arguments import Checked, PositiveInt
from rlcomp.interfaces.task import Example


def unit_tests(number):
    return [[number + place, 4 + place] for place in range(number % 3 + 1)]


class Programs(metaclass=Checked):
    def __init__(self, *, size: PositiveInt = 60):
        self.size = size
        self.held_out = 0.2

    def __len__(self):
        return self.size

    def example(self, index):
        columns = {"unit_tests": unit_tests(index)} | ({"hint": "add"} if index % 2 else {})
        return Example(f"{index}>", "", str(index % 10), columns=columns)
''',
    "passed.py": '''
"""Reward: the share of the unit tests that the first digit of the response passes."""


def passed(response, unit_tests, hint="none", *, shift):
    if not response[:1].isdigit():
        return 0.0
    digit = int(response[0]) + shift
    right = [(number + digit) % 10 <= largest for number, largest in unit_tests]
    return sum(right) / len(right) + (1.0 if hint == "add" else 0.0)
''',
}
YAML = {
    "task/programs.yaml": "_target_: own_coding.programs.Programs\nsize: 60\n",
    "reward/passed.yaml": """
_target_: components.reward.function.FunctionReward
function: {_target_: own_coding.passed.passed, _partial_: true, shift: 0}
name: passed
correct_by: passed
""",
}
TINY = [
    "task=programs",
    "reward=passed",
    "phases.warm_start.steps=1",
    "phases.rl.steps=3",
    "prompts.batch_size=6",
    "evaluation.num_prompts=8",
    "demonstrations.batch_size=8",
    "learner.num_minibatches=2",
    "model.hidden_size=16",
    "model.intermediate_size=16",
    "phases.rl.every.evaluation=3",
    "+evaluator@rollouts=rollouts",
    "+phases.rl.every.rollouts=1",
    "rollouts.num_groups=6",
]
# The plain collector repeats prompts, the delayed one stores them, the greedy one joins answers to
# the same prompts, a refill joins rounds of other prompts, a filter picks rows.
RUNS = {
    "group": ["rollout.group_size=4"],
    "delayed": ["collector@rollout=delayed", "rollout.collector.group_size=4"],
    "greedy_baseline": ["recipe=remax", "rollout.group_size=2", "learner.num_minibatches=1"],
    "refill": ["rollout.group_size=4", "dynamic_sampling=refill", "refill.rows=24"],
    "filter": ["rollout.group_size=4", "filter=zero_variance"],
    "curriculum": ["rollout.group_size=4", "curriculum=pass_rate"],
}


@pytest.fixture
def own_package(tmp_path, monkeypatch):
    """A user's folder: a package, and a config directory with an option for each of its parts."""
    for name, text in PACKAGE.items():
        (tmp_path / "own_coding").mkdir(exist_ok=True)
        (tmp_path / "own_coding" / name).write_text(text)
    for name, text in YAML.items():
        (tmp_path / "conf" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "conf" / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "own_coding"]:
        del sys.modules[name]


def expected(prompt, response):
    """The reward by what the prompt says alone: number n has n % 3 + 1 tests, odd ones a hint."""
    number = int(prompt.removesuffix(">"))
    if not response[:1].isdigit():
        return 0.0
    tests = [(number + place, 4 + place) for place in range(number % 3 + 1)]
    right = [(tested + int(response[0])) % 10 <= largest for tested, largest in tests]
    return sum(right) / len(right) + number % 2


@pytest.mark.slow
@pytest.mark.parametrize("way", RUNS)
def test_unit_tests_reach_the_reward_on_every_way_through_a_run(rlcomp, own_package, way):
    run = own_package / "run"

    code = rlcomp("-cd", "conf", *TINY, *RUNS[way], f"directory={run}")

    assert code == 0
    samples = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    answers = [sample for sample in samples if "reward" in sample]
    assert len({answer["reward"] for answer in answers}) > 2
    for answer in answers:
        right = expected(answer["prompt"], answer["response"])
        assert answer["reward"] == float(f"{right:.4g}"), "samples hold four digits"


def test_the_evaluator_and_the_report_read_such_a_run(rlcomp, own_package, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    from rlcomp.cli.report import main

    run = own_package / "run"
    rlcomp("-cd", "conf", *TINY, *RUNS["group"], f"directory={run}")
    samples = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    evaluated = [sample for sample in samples if "reward" not in sample]

    assert evaluated
    for sample in evaluated:
        assert sample["correct"] == (expected(sample["prompt"], sample["response"]) >= 1)
    monkeypatch.setattr("sys.argv", ["rlcomp-report", str(run)])
    main()
    assert "report.html" in capsys.readouterr().out
    assert (run / "report.html").is_file()


def test_a_column_that_the_task_does_not_give_is_named(rlcomp, own_package, capsys):
    tiny = [word for word in TINY if not word.startswith("task=")]
    code = rlcomp("-cd", "conf", *tiny, *RUNS["group"], "task=sorting", "directory=run")

    assert code == 2
    said = capsys.readouterr().err
    assert "needs 'unit_tests'" in said
    assert "answer, prompt, response" in said
