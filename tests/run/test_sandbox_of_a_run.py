"""The sandbox as a resource of a run: one node, started by who uses it, closed at the end."""

import pytest

from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import ConfigError, ConfigErrors
from rlcomp.files.json_lines import read_lines
from rlcomp.run.check_tasks import check_columns
from rlcomp.run.launch import launch
from rlcomp.sandbox import tier
from rlcomp.sandbox.job import StdioJob
from rlcomp.sandbox.sandbox import Sandbox
from rlcomp.workers.pool import closing

SMALL = (
    "recipe=rlvr_code",
    "phases.warm_start.steps=2",
    "phases.warm_start.every.evaluation=null",
    "phases.rl.steps=2",
    "phases.rl.every.evaluation=1",
    "demonstrations.batch_size=4",
    "prompts.batch_size=2",
    "group_size=2",
    "evaluation.num_prompts=2",
    "sandbox.workers=1",
)


def built(*overrides):
    """The cheap nodes of a config: what is built before a model is."""
    plan = plan_of(compose_config(overrides))
    builder = Builder(plan, 0)
    builder.without_models()
    assert "policy" not in builder.built
    check_columns(plan, builder.built)
    return builder.built, plan


def test_training_and_evaluators_share_one(sandbox):
    nodes, plan = built("recipe=rlvr_code")

    assert nodes["reward"].sandbox is nodes["sandbox"]
    assert plan.nodes["evaluation"].arguments["reward"] is plan.nodes["reward"]
    assert (nodes["sandbox"].workers, nodes["sandbox"].min_tier) == (None, "strict")


@pytest.mark.parametrize("tier", ["bwrap", "portable"])
def test_weaker_walls_are_chosen_by_their_word(tier):
    assert built(f"sandbox={tier}")[0]["sandbox"].min_tier == tier


def test_a_server_is_chosen_by_its_word_and_asked_nothing_before_it_is_used():
    node = built("sandbox=remote", "sandbox.url=http://127.0.0.1:9")[0]["sandbox"]

    assert (node.url, node.workers) == ("http://127.0.0.1:9", 8)


def test_unit_tests_on_a_server_are_refused_before_a_model_is_built():
    with pytest.raises(ConfigError, match=r"^reward: sandbox=remote runs no unit tests"):
        built(
            "recipe=rlvr_code",
            "reward=code_tests",
            "sandbox=remote",
            "sandbox.url=http://127.0.0.1:9",
        )


def test_a_run_that_does_not_use_it_asks_nothing_of_the_machine(monkeypatch):
    monkeypatch.setattr(tier, "find_missing", lambda asked: pytest.fail("probed"))

    assert "tier" not in vars(built("recipe=grpo")[0]["sandbox"])


def test_a_machine_without_is_refused_before_a_model_is_built(monkeypatch):
    monkeypatch.setattr(
        tier, "find_missing", lambda asked: "" if asked == "portable" else "namespaces"
    )

    with pytest.raises(ConfigError) as told:
        built("recipe=rlvr_code")

    assert str(told.value).startswith(
        "reward: sandbox.min_tier=strict: the strongest tier here is portable (strict lacks: "
        "namespaces; bwrap lacks: namespaces). Allow unprivileged user namespaces"
    )
    assert "or sandbox.min_tier=portable if" in str(told.value)


@pytest.mark.parametrize(
    ("reward", "columns"),
    [
        ("code_tests", ["test_imports", "test_list"]),
        ("code_tests_humaneval", ["entry_point", "test"]),
        ("code_stdio", ["input_output"]),
        ("code_calls", ["entry_point", "inputs", "outputs"]),
        ("code_expression", ["inputs", "outputs"]),
    ],
)
def test_data_without_the_columns_are_refused(reward, columns, sandbox):
    with pytest.raises(ConfigErrors) as told:
        built(f"reward={reward}")

    said = [message.partition(" needs '")[2].partition("'")[0] for message in told.value.messages]
    assert said == columns
    assert "or name another one in the reward's config" in told.value.messages[0]


def test_a_run_tells_its_walls_and_leaves_no_process(tmp_path, processes, sandbox):
    idle = processes()
    config = compose_config([*SMALL, f"directory={tmp_path}"])

    launch(config, plan_of(config))

    steps = [row for row in read_lines(tmp_path / "metrics.jsonl") if row["phase"] == "rl"]
    assert [row["sandbox/strict"] for row in steps] == [1.0, 1.0]
    assert all(1 <= row["sandbox/jobs"] <= 4 + 4 for row in steps)
    assert set(processes()) <= set(idle)


def test_it_is_closed_after_an_exception(processes, sandbox):
    idle = processes()
    own = Sandbox(workers=1)

    def fail():
        with closing([object(), own]):
            own.map([StdioJob("print(1)")])
            assert len(processes()) > len(idle)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert set(processes()) <= set(idle)
