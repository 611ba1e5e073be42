"""Equations with their numbers, of parts that are made up."""

import pytest

from rlcomp.config.declarations import Declaration
from rlcomp.config.equation import equations, fill_equation
from rlcomp.config.plan import Plan
from rlcomp.config.reader import Node


@pytest.mark.parametrize(
    ("equation", "arguments", "shown"),
    [
        ("a {x} b {x}", {"x": 3}, "a 3 b 3"),
        ("{x} {y}", {"x": None}, "inf inf"),
        ("{x|none at all}", {"x": None}, "none at all"),
        ("{x|none}", {"x": 0}, "0"),
        ("{x|}", {}, "inf"),
        ("{x:formula}", {"x": "k2"}, "d_t^2 / 2"),
        ("{x:formula}", {"x": "mine"}, "mine"),
        ("{x}", {"x": "k2"}, "k2"),
        ("{x}", {"x": Node("p", "a.b.Clip")}, "Clip"),
        (
            "{x}",
            {"x": Node("p", "Clip", {"low": 0.5, "of": Node("q", "a.Of"), "names": ["n"]})},
            "Clip(low=0.5, of=Of)",
        ),
    ],
)
def test_places_are_filled_with_arguments(equation, arguments, shown):
    assert fill_equation(equation, Node("p", "T", arguments)) == shown


class Phase:
    """Stages in order."""

    def __init__(self, *stages):
        self.stages = stages

    def listed_stages(self):
        return self.stages


LOSS = Node("losses.policy", "a.Policy", {"region": Node("losses.policy.region", "a.Clip")})
LEARNER = Node("learner", "a.Learner", {"losses": {"policy": LOSS}})
REWARD = Node("reward", "a.Paid", {"beta": 2})


@pytest.fixture(autouse=True)
def declared(monkeypatch):
    parts = {
        "a.Policy": Declaration("a.Policy", equation="mean", runs=("region",)),
        "a.Clip": Declaration("a.Clip"),
        "a.Learner": Declaration("a.Learner"),
        "a.Paid": Declaration("a.Paid", equation="r - {beta} kl"),
    }
    monkeypatch.setattr("rlcomp.config.declarations.read_declaration", parts.__getitem__)


def test_a_phase_tells_its_stages_once_and_parts_below_their_loss():
    plan = Plan({}, {}, {"one": Phase(REWARD, LEARNER, REWARD, "no node")})

    reward, loss, region = equations(plan)

    assert reward == f"{'reward':22}  r - 2 kl"
    assert loss == f"{'losses.policy':22}  mean"
    assert region == f"{'  losses.policy.region':22}  Clip: states no equation"


def test_several_phases_have_a_head_each_where_they_tell_anything():
    assert equations(
        Plan({}, {}, {"one": Phase(REWARD), "two": Phase(), "three": Phase(REWARD)})
    ) == [
        "phase one:",
        "reward  r - 2 kl",
        "phase three:",
        "reward  r - 2 kl",
    ]
    assert equations(Plan({}, {}, {})) == []
    assert equations(Plan({}, {}, {"one": Phase()})) == []
