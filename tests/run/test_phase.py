import pytest
from torch import nn

from rlcomp.errors import ConfigError
from rlcomp.run.phase import Phase
from rlcomp.run.stages import Nothing


def test_a_phase_may_have_no_steps_and_no_fewer():
    assert Phase(0, []).steps == 0
    with pytest.raises(ConfigError, match="steps=-1: must be at least 0"):
        Phase(-1, [])


@pytest.mark.parametrize("entry", [3, (3,), (3, nn.Identity(), 1), (0, nn.Identity())])
def test_what_runs_beside_has_a_period_and_a_stage(entry):
    with pytest.raises(ConfigError, match=r"every 'x' is .*: must be \(period in steps, stage\)"):
        Phase(1, [], {"x": entry})


def test_a_stage_is_a_module():
    with pytest.raises(ConfigError, match="a stage is a str: must be a TensorDict module"):
        Phase(1, [], later={2: ["reward"]})


def test_lists_take_the_place_of_one_another_from_their_step_on():
    first, second, third, beside = (Nothing() for _ in range(4))
    phase = Phase(9, [first], {"x": (4, beside)}, {7: [third], 3: [second, first]})

    assert [phase.at(step) for step in (1, 2, 3, 6, 7, 9)] == [
        [first],
        [first],
        [second, first],
        [second, first],
        [third],
        [third],
    ]
    assert phase.lists() == [[first], [second, first], [third]]
    assert phase.all_stages() == [first, second, third, beside]


def test_what_runs_beside_is_due_each_period_and_at_the_end():
    often, seldom = Nothing(), Nothing()
    phase = Phase(5, [], {"often": (2, often), "seldom": (9, seldom)})

    due = {step: [name for name, _ in phase.due(step)] for step in range(1, 6)}
    assert due == {1: [], 2: ["often"], 3: [], 4: ["often"], 5: ["often", "seldom"]}
