"""What no phase uses is told to be left out where it cannot be built."""

import pytest

from rlcomp.errors import ConfigError, DataError
from rlcomp.wiring.compose import compose_config
from rlcomp.wiring.resolve import plan_of
from rlcomp.wiring.unused import is_unused, leave_out_told


@pytest.fixture(scope="module")
def without_warm_start():
    return plan_of(compose_config(["~phases.warm_start"]))


def test_the_sampler_of_a_phase_that_is_gone_is_unused(without_warm_start):
    nodes = without_warm_start.nodes.values()

    unused = {node.path for node in nodes if is_unused(without_warm_start, node)}
    assert unused == {"demonstrations"}


def test_a_refusal_of_an_unused_node_says_how_to_leave_it_out(without_warm_start):
    nodes = without_warm_start.nodes

    with (
        pytest.raises(DataError) as told,
        leave_out_told(without_warm_start, nodes["demonstrations"]),
    ):
        raise DataError("demonstrations: too few; set demonstrations.batch_size=5")
    assert str(told.value) == (
        "no phase of this run uses demonstrations: leave it out, '~demonstrations' "
        "(demonstrations: too few)"
    )
    with (
        pytest.raises(ConfigError, match=r"^prompts: too few; set"),
        leave_out_told(without_warm_start, nodes["prompts"]),
    ):
        raise ConfigError("prompts: too few; set prompts.batch_size=5")
