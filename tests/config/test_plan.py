"""A config as a plan: which stages each phase runs, and what of it cannot be read."""

import pytest
from omegaconf import OmegaConf

from rlcomp.config.plan import below, children, nodes_in, read
from rlcomp.config.reader import Node

PARTS = {name: {"_target_": f"own.{name}"} for name in ("a", "b", "c")}


def planned(phases, **parts):
    config = {**PARTS, **parts}
    if phases is not None:
        config["phases"] = phases
    return read(OmegaConf.create(config))


def paths(stages):
    return [stage.path for stage in stages]


def test_a_phase_runs_its_stages_so_many_steps():
    plan, errors = planned(
        {"one": {"steps": 2, "stages": ["a", "b"]}, "two": {"steps": 0, "stages": ["c"]}}
    )

    assert errors == []
    assert [*plan.phases] == ["one", "two"]
    assert plan.phases["one"].steps == 2
    assert paths(plan.phases["one"].stages) == ["a", "b"]
    assert plan.phases["two"].steps == 0
    assert (plan.phases["one"].every, plan.phases["one"].on_begin) == ({}, [])
    assert plan.phases["one"].later == {}
    assert sorted(plan.nodes) == ["a", "b", "c"]
    assert [node.target for node in plan.phases["one"].stages] == ["own.a", "own.b"]


def test_what_runs_now_and_then_and_at_the_begin():
    body = {"steps": 2, "stages": ["a"], "every": {"b": 3, "c": None}, "on_begin": ["c"]}
    plan, errors = planned({"one": body})

    assert errors == []
    ((name, (period, node)),) = plan.phases["one"].every.items()
    assert (name, period, node.path) == ("b", 3, "b")
    assert paths(plan.phases["one"].on_begin) == ["c"]


def test_stages_are_left_out_by_name():
    body = {"steps": 1, "stages": ["a", "b", "c"], "without": ["b"]}
    plan, errors = planned({"one": body})

    assert errors == []
    assert paths(plan.phases["one"].stages) == ["a", "c"]
    plan, errors = planned({"one": {**body, "without": None}})
    assert paths(plan.phases["one"].stages) == ["a", "b", "c"]


def test_nodes_inside_of_nodes_are_nodes_of_the_plan():
    inner = {"_target_": "own.inner", "deep": [{"_target_": "own.deep"}]}
    plan, errors = planned(
        {"one": {"steps": 1, "stages": ["x"]}}, x={"_target_": "own.x", "part": inner}
    )

    assert errors == []
    assert {"x", "x.part", "x.part.deep.0"} <= {*plan.nodes}
    assert plan.tree["x"] is plan.nodes["x"]
    assert "phases" not in plan.tree


STAGES = {"steps": 1, "stages": ["a"]}
FAULTS = {
    "no phases": (None, "phases"),
    "phases that are a text": ("x", "phases"),
    "empty": ({}, "phases"),
    "no steps in any": ({"one": {"steps": 0, "stages": ["a"]}}, "phases.one.steps"),
    "a phase that is a number": ({"one": 3}, "phases.one"),
    "an unknown word": ({"one": {**STAGES, "stagez": 1}}, "phases.one.stagez"),
    "neither steps nor stages": ({"one": {"without": ["a"]}, "two": STAGES}, "phases.one"),
    "negative steps": ({"one": {**STAGES, "steps": -1}}, "phases.one.steps"),
    "half a step": ({"one": {**STAGES, "steps": 1.5}}, "phases.one.steps"),
    "no steps": ({"one": {"stages": ["a"]}}, "phases.one.steps"),
    "no stages": ({"one": {"steps": 1}}, "phases.one.stages"),
    "an empty list": ({"one": {**STAGES, "stages": []}}, "phases.one.stages"),
    "stages that are a text": ({"one": {**STAGES, "stages": "a"}}, "phases.one.stages"),
    "without a text": ({"one": {**STAGES, "without": "a"}}, "phases.one.without"),
    "without one that is not there": ({"one": {**STAGES, "without": ["b"]}}, "phases.one.without"),
    "begins with a text": ({"one": {**STAGES, "on_begin": "a"}}, "phases.one.on_begin"),
    "every as a number": ({"one": {**STAGES, "every": 3}}, "phases.one.every"),
    "every no step": ({"one": {**STAGES, "every": {"b": 0}}}, "phases.one.every.b"),
    "every half a step": ({"one": {**STAGES, "every": {"b": 1.5}}}, "phases.one.every.b"),
    "every yes": ({"one": {**STAGES, "every": {"b": True}}}, "phases.one.every.b"),
    "every of nobody": ({"one": {**STAGES, "every": {"z": 1}}}, "phases.one.every"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_be_read_is_told_once_with_its_place(name):
    phases, place = FAULTS[name]

    _, errors = planned(phases)

    (told,) = errors
    assert told.startswith(place) or place in told


def test_a_fault_leaves_the_rest_readable():
    body = {"steps": -1, "stages": ["a", "b"], "without": ["z", "b"], "every": {"b": 0, "c": 2}}

    plan, errors = planned({"one": body, "two": STAGES})

    assert len(errors) == 3
    assert plan.phases["one"].steps == 0
    assert paths(plan.phases["one"].stages) == ["a"]
    assert [*plan.phases["one"].every] == ["c"]
    assert paths(plan.phases["two"].stages) == ["a"]


def test_the_last_phase_is_named_where_none_has_steps():
    _, (told,) = planned({"one": {**STAGES, "steps": 0}, "two": {**STAGES, "steps": 0}})

    assert "phases.two.steps" in told


def test_nodes_of_a_value_are_those_it_holds_directly():
    deep = Node("x.y", "t")
    inner = Node("x", "t", {"y": deep})
    outer = Node("n", "t", {"one": inner, "more": [{"k": (inner, deep)}, 3, "a"]})

    assert [*nodes_in(3)] == []
    assert [*nodes_in([inner, {"a": (deep,)}])] == [inner, deep]
    assert children(outer) == [inner, deep]
    assert below(outer) == [inner, deep]
    assert below(Node("n", "t", {"one": inner})) == [inner, deep]
    assert children(Node("n", "t", {"one": inner})) == [inner]


def test_a_run_needs_what_its_phases_and_the_run_itself_name_with_their_parts():
    phases = {"one": {"steps": 1, "stages": ["a"], "every": {"b": 2, "c": None}}}
    held = {"_target_": "own.held", "inner": {"_target_": "own.inner"}}
    plan, errors = planned(
        phases,
        a={"_target_": "own.a", "held": "${held}"},
        held=held,
        alone={"_target_": "own.alone", "inner": {"_target_": "own.part"}},
        tracker={"_target_": "own.tracker", "inner": {"_target_": "own.part"}},
    )

    reached = plan.reached()

    assert errors == []
    assert [*reached.nodes] == ["a", "held", "held.inner", "b", "tracker", "tracker.inner"]
    assert {"c", "alone", "alone.inner"} == plan.nodes.keys() - reached.nodes.keys()
    assert reached.phases == plan.phases
