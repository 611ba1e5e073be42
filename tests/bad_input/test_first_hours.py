"""What somebody types in the first hours, and the line or setting that is told."""

import pytest

from rlcomp.config.resolve import compose_or_explain, plan_of
from rlcomp.errors import ConfigError, ConfigErrors


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["reward=function", "reward.function=judge.Judge", "reward.function.longest=6"],
            "the whole line: rlcomp reward=function "
            "'reward.function={_target_: judge.Judge, longest: 6}'",
        ),
        (
            ["recipe=grpo", "eval_strategy=steps", "eval_steps=10"],
            "whole line: rlcomp recipe=grpo phases.rl.every.evaluation=10",
        ),
        (
            ["recipe=grpo", "num_train_epochs=3", "group_size=4", "learning_rate=1e-6"],
            "without num_train_epochs: rlcomp recipe=grpo group_size=4 learner.optimizer.lr=1e-6",
        ),
        (["wandb=true"], "it is an option, tracker=wandb"),
        (["recipe=GRPO"], "did you mean 'grpo'?"),
        (["recipe=dr-grpo"], "did you mean 'dr_grpo'?"),
        (["precision=bf16"], "here it is engine=bfloat16"),
        (["reward=accuracy"], "here: reward=exact_match (or last_number"),
        (["reward=reward_model"], "here: reward=learned reward.path=DIR"),
        (["rollout.max_turns=3"], "here it is player.max_turns, and recipe=grpo has no player"),
        (["collector@rollout=episodes"], "rollout.player: no node 'player': recipe=agent has one"),
    ],
)
def test_a_setting_of_another_part(words, told):
    with pytest.raises((ConfigError, ConfigErrors)) as raised:
        plan_of(compose_or_explain(words))

    assert told in str(raised.value)


def test_the_line_that_was_told_composes():
    told = "reward.function={_target_: judge.Judge, longest: 6}"

    config = compose_or_explain(["reward=function", told])

    assert config.reward.function.longest == 6


def test_a_function_is_a_tool_without_its_arguments(tmp_path, monkeypatch):
    (tmp_path / "sums.py").write_text("def add(a: int, b: int) -> int:\n    return a + b\n")
    monkeypatch.syspath_prepend(tmp_path)

    plan_of(compose_or_explain(["recipe=search_r1", "+environment.tools.add._target_=sums.add"]))
