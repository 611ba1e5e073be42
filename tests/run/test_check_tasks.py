"""Early checks of tasks: columns, and the length of answers."""

import json
import warnings

import pytest

from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import CheckpointError, ConfigErrors, RlcompWarning
from rlcomp.interfaces.task import Example
from rlcomp.run.check_tasks import check_columns, warn_unreachable
from rlcomp.run.launch import launch


@pytest.fixture
def checked(monkeypatch, tmp_path):
    (tmp_path / "my_scores.py").write_text(
        "def plain(response, answer): return 1.0\n"
        "def tested(response, unit_tests): return 1.0\n"
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None): return 1.0\n"
        "def renamed(label): return 1.0\n"
        "def perhaps(response, unit_tests=None): return 1.0\n"
    )
    rows = [{"question": f"p{n}", "answer": "1", **extra} for n, extra in enumerate(ROWS)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.syspath_prepend(tmp_path)

    def check(*overrides):
        config = compose_config(("reward=function", *overrides))
        plan = plan_of(config)
        builder = Builder(plan, 0)
        builder.without_models()
        assert "policy" not in builder.built
        check_columns(plan, builder.built)

    return check


# A column that is null is as good as missing.
ROWS = [{"unit_tests": None, "unit_test": 1}, {"unit_tests": ["x"]}, *({} for _ in range(250))]
FILE = ["task=file", "tokenizer=byte", "prompts.batch_size=2", "demonstrations.batch_size=2"]


def test_a_column_that_the_task_lacks_is_named_before_a_model_is_built(checked):
    with pytest.raises(ConfigErrors) as told:
        checked("reward.function=my_scores.tested")

    (message,) = told.value.messages  # of training and of the evaluator, once
    assert message == (
        "reward: my_scores.tested needs 'unit_tests', of which none of the first examples of the "
        "task has a column (known: answer, prompt, response); give unit_tests a default, or drop it"
    )


def test_parameters_of_other_houses_are_told_in_one_message(checked):
    with pytest.raises(ConfigErrors) as told:
        checked("reward.function=my_scores.compute_score")
    with pytest.raises(ConfigErrors) as renamed:
        checked("reward.function=my_scores.renamed")

    (message,) = told.value.messages
    assert message.startswith(
        "reward: my_scores.compute_score needs 'data_source', 'ground_truth', 'solution_str', of "
    )
    assert message.endswith(
        "; rename the arguments: ground_truth is answer here; solution_str is response here; give "
        "data_source a default, or drop it: def compute_score(response, answer, data_source=None, "
        "extra_info=None):"
    )
    assert renamed.value.messages[0].endswith(
        "a column (known: answer, prompt, response); rename the arguments: label is answer here: "
        "def renamed(answer):"
    )


@pytest.mark.parametrize(
    ("reward", "columns"),
    [
        ("ifeval", ["instruction_id_list", "kwargs"]),
        ("tool_calls", ["ground_truth"]),
        ("constraints", ["constraints", "variables"]),
        ("gui_action", ["true_action"]),
        ("box_giou", ["true_box"]),
        ("detections", ["true_boxes"]),
        ("key_frames", ["true_frames"]),
    ],
)
def test_a_verifier_of_columns_is_refused_without_them(checked, reward, columns):
    with pytest.raises(ConfigErrors) as told:
        checked(f"reward={reward}")

    for column, message in zip(columns, told.value.messages, strict=True):
        assert f"needs '{column}', a column that none of the first examples" in message
        assert message.endswith("; write it into the task's data")


def test_a_column_that_it_can_do_without_may_be_missing(checked):
    checked("reward.function=my_scores.perhaps")


def test_a_column_that_some_examples_have_is_there(checked, tmp_path):
    checked("reward.function=my_scores.tested", *FILE, f"task.path={tmp_path}/rows.jsonl")


def test_a_column_that_no_example_has_is_told_with_the_nearest(checked, tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text(file.read_text().replace('"unit_tests": ["x"]', '"unit": 1'))

    with pytest.raises(ConfigErrors, match="did you mean 'unit_test'"):
        checked("reward.function=my_scores.tested", *FILE, f"task.path={file}")


def test_a_reward_inside_another_is_asked_too(checked):
    inner = "{_target_: components.reward.function.FunctionReward, function: my_scores.tested}"
    with pytest.raises(ConfigErrors, match=r"reward: my_scores.tested needs 'unit_tests'"):
        checked(
            "reward=weighted_sum", f"reward.parts={{own: {inner}}}", "reward.weights={own: 1.0}"
        )


def test_the_column_that_names_the_domain_is_asked_for(checked):
    routes = "reward.routes={sums: {_target_: components.reward.answer.ExactMatch}}"

    with pytest.raises(
        ConfigErrors, match=r"reward: RewardByColumn needs 'verify_with'.*set reward\.column"
    ):
        checked("reward=by_column", routes)


def test_an_evaluator_is_asked_of_its_own_task(checked, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text("".join(f'{{"question": "p{n}", "answer": "1"}}\n' for n in range(4)))
    own = f"{{_target_: components.task.file.FileTask, path: {other}, held_out: 0.5}}"

    with pytest.raises(ConfigErrors, match="needs 'unit_tests'"):
        checked(
            "reward.function=my_scores.tested",
            *FILE,
            f"task.path={tmp_path}/rows.jsonl",
            f"evaluation.task={own}",
        )


def test_a_run_without_rewards_is_let_through(checked, tmp_path):
    checked(
        "reward.function=my_scores.tested", "~phases.rl", "phases.warm_start.every.evaluation=null"
    )


def test_the_pool_is_one_node(checked):
    plan = plan_of(compose_config(("reward=function", "reward.function=my_scores.plain")))
    builder = Builder(plan, 0)
    built = builder.without_models()

    assert built["reward"].calls is built["reward_pool"]
    assert plan.nodes["evaluation"].arguments["reward"] is plan.nodes["reward"]


def test_a_class_is_handed_over_as_it_stands(monkeypatch, tmp_path):
    (tmp_path / "my_judge.py").write_text(
        "class Judge:\n"
        "    def __init__(self, *, threshold):\n"
        "        raise AssertionError('made in the trainer')\n"
        "    def __call__(self, response): return 1.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    given = "reward.function={_target_: my_judge.Judge, threshold: 3}"
    builder = Builder(plan_of(compose_config(("reward=function", given))), 0)

    function = builder.without_models()["reward"].function

    assert (function.target, function.arguments) == ("my_judge.Judge", {"threshold": 3})
    assert "reward.function" not in builder.built


def test_a_judge_of_thoughts_is_asked_as_well(checked, tmp_path):
    inner = "{_target_: components.reward.function.FunctionReward, function: my_scores.tested}"
    with pytest.raises(
        ConfigErrors, match=r"evaluation.reasoning: my_scores.tested needs 'unit_tests'"
    ):
        checked(
            "evaluator@evaluation=coverage",
            "reward.function=my_scores.plain",
            f"evaluation.reasoning={inner}",
        )


def test_a_signature_is_told_before_the_sizes_of_other_parts(checked, tmp_path):
    config = compose_config(
        [
            "reward=function",
            "reward.function=my_scores.renamed",
            "task.length=2",
            "prompts.batch_size=200",
            f"directory={tmp_path}/run",
        ]
    )

    with pytest.raises(ConfigErrors, match="label is answer here"):
        launch(config, plan_of(config))


class Task:
    def __init__(self, *answers):
        self.answers = answers

    def __len__(self):
        return len(self.answers)

    def example(self, index):
        return Example("1+1", self.answers[index], "2")


class Characters:
    def encode(self, text, add_special_tokens):
        assert not add_special_tokens
        return [*text]


def told(answers, *words):
    plan = plan_of(compose_config(["max_new_tokens=4", *words]))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warn_unreachable(plan, {"task": Task(*answers), "tokenizer": Characters()})
    assert all(one.category is RlcompWarning for one in seen)
    return [str(one.message) for one in seen]


def test_answers_that_no_response_can_be_are_told_once():
    (one,) = told(["so it is\n#### 72", "12345", "12"])

    assert one.startswith("task: 2 of its first 3 answers are longer than max_new_tokens=4, and re")
    assert one.endswith("): set reward=last_number, or max_new_tokens=17")
    (other,) = told(["so it is\n#### 72"])
    assert r'set "task.answer_pattern=' + r"'####\s*(.+?)\s*$'" + '" or reward=last_n' in other


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (["1234", "12"], []),
        (["12345", "1", "2"], []),
        (["12345"], ["reward=last_number"]),
        (["12345"], ["rollout.max_new_tokens=9"]),
        (["12345"], ["reward=boxed"]),
    ],
)
def test_nothing_is_told_where_most_can_be_right(answers, words):
    assert told(answers, *words) == []


def test_a_run_at_its_end_is_not_continued_elsewhere(play, tmp_path):
    play(tmp_path / "a")

    with pytest.raises(CheckpointError, match=r"at its end \(phases.rl.steps=3\).*steps=6 goes on"):
        play(tmp_path / "b", f"resume={tmp_path / 'a'}")
    play(tmp_path / "c", f"resume={tmp_path / 'a'}", "phases.rl.steps=4")
