"""What ``measure=...`` asks is judged by the verifier, not by a reward that is none."""

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of

WORDS = [
    "measure=[coverage,perplexity,other_task,forgetting,budget]",
    "+task@other_task.task=sorting",
    "+task@forgetting.task=sorting",
    "budget.budgets=[2]",
]


@pytest.mark.parametrize(
    ("recipe", "verifier"),
    [("ttrl", "verifier"), ("shuffled_rewards", "true_reward"), ("grpo", "reward")],
)
def test_a_measure_has_the_verifier_of_the_evaluation(recipe, verifier):
    plan = plan_of(compose_config([f"recipe={recipe}", *WORDS]))

    nodes = ["evaluation", "coverage", "coverage_training", "perplexity", "other_task"]
    nodes += ["forgetting", "budget"]
    judges = {name: plan.nodes[name].arguments["reward"].path for name in nodes}
    assert judges == dict.fromkeys(nodes, verifier)
