"""A judge that is taught by lessons reads its questions as the lessons put them."""

import pytest

from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.plan import Plan, below
from rlcomp.config.resolve import plan_of


@pytest.mark.parametrize("recipe", ["self_rewarding", "constitutional"])
def test_a_taught_judge_reads_questions_in_the_format_of_its_lessons(recipe):
    plan = plan_of(compose_config([f"recipe={recipe}", "tokenizer=byte"]))
    wanted = [plan.nodes[name] for name in ("pairing", "demonstrations")]
    nodes = [each for node in wanted for each in (node, *below(node))]
    builder = Builder(Plan(plan.tree, {node.path: node for node in nodes}, {}), 0)
    template = "{% for message in messages %}<{{ message['content'] }}>{% endfor %}"
    builder.build(plan.nodes["tokenizer"]).chat_template = template

    lessons, judge = (builder.build(node) for node in reversed(wanted))

    assert judge.judge.prompt is lessons.prompt
