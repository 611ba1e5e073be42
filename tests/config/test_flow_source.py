"""What the check of a flow knows of a node: its declaration, and those of the parts it runs."""

import pytest

from rlcomp.config import flow_source as module
from rlcomp.config.declarations import Declaration
from rlcomp.config.finding import messages
from rlcomp.config.flow import Flow
from rlcomp.config.flow_source import check_flow, flow_of, run_children, stage_of
from rlcomp.config.plan import PhasePlan, Plan
from rlcomp.config.reader import BROKEN, Node
from rlcomp.errors import ConfigError


@pytest.fixture
def declared(monkeypatch):
    """Declarations by target; a call adds one, and gives a node of it."""
    known = {}

    def declare(target):
        if target not in known:
            raise ConfigError(f"no {target}")
        return known[target]

    monkeypatch.setattr("rlcomp.config.declarations.read_declaration", declare)
    monkeypatch.setattr(module, "prompt_keys", lambda: frozenset({"answer"}))

    def node(path, *, arguments=None, keys=None, **settings):
        known[path] = Declaration(path, opaque=settings.pop("opaque", False), **settings)
        return Node(path, path, arguments or {}, keys or {})

    return node


def keys(text):
    return frozenset(text.split())


def test_a_node_reads_and_writes_what_it_declares_under_the_names_it_was_given(declared):
    node = declared("a", reads=("x", "y"), writes=("z",), keys={"x": "own", "z": "out"})

    assert flow_of(node) == Flow(reads=keys("own y"), writes=keys("out"))


@pytest.mark.parametrize(
    ("arguments", "written"),
    [({"full": True}, "a own"), ({"full": False}, "a"), ({"full": 1}, "a"), ({}, "a")],
)
def test_a_key_of_an_argument_is_written_only_if_the_argument_is_true(declared, arguments, written):
    settings = {"writes": ("a",), "writes_if": {"full": ("b",)}}
    node = declared("n", arguments=arguments, keys={"b": "own"}, **settings)

    assert flow_of(node).writes == keys(written)


def test_parts_that_a_node_runs_are_part_of_its_flow(declared):
    first = declared("first", reads=("a",), writes=("b",))
    second = declared("second", reads=("b", "c", "given"), writes=("d",))
    unused = declared("unused", reads=("never",))
    inside = {"one": first, "more": [second], "other": unused}

    whole = declared("w", reads=("x",), writes=("z",), runs=("one", "more"), arguments=inside)
    assert run_children(whole) == [first, second]
    assert flow_of(whole) == Flow(reads=keys("x a c given"), writes=keys("z b d"))
    hands = declared("h", runs=("more", "one"), supplies=("given",), arguments=inside)
    assert run_children(hands) == [second, first]
    assert flow_of(hands) == Flow(reads=keys("a b c"), writes=keys("b d"))


def test_what_happens_inside_a_contained_node_stays_there(declared):
    fresh = declared("fresh", reads=("a",), writes=("b",), fresh=True, opaque=True)
    arguments = {"one": fresh}

    opened = flow_of(declared("o", runs=("one",), arguments=arguments))
    closed = flow_of(declared("c", runs=("one",), contained=True, arguments=arguments))

    assert (opened.writes, opened.fresh, opened.opaque) == (keys("b"), True, True)
    assert (closed.writes, closed.fresh, closed.opaque) == (keys(""), False, False)
    assert opened.reads == closed.reads == keys("a")


def test_a_fresh_node_hands_on_what_it_may_read_and_writes_and_what_belongs_to_the_prompt(declared):
    handing = declared("h", optional=("x", "y"), writes=("x", "z"), fresh=True)
    assert flow_of(handing) == Flow(writes=keys("z"), fresh=True, carries=keys("x"))
    plain = declared("p", optional=("x",), writes=("x",))
    assert flow_of(plain) == Flow(writes=keys("x"))
    keeping = declared("k", writes=("z",), fresh=True, keeps_prompt=True, keys={"answer": "own"})
    assert flow_of(keeping) == Flow(writes=keys("z"), fresh=True, carries=keys("own"))
    around = declared("a", runs=("one",), arguments={"one": keeping})
    assert flow_of(around).carries == keys("own")
    inside = declared("i", runs=("one",), contained=True, arguments={"one": keeping})
    assert flow_of(inside).carries == keys("")


def test_a_stage_says_how_large_its_groups_are_and_must_be(declared):
    def stage(**settings):
        return stage_of(declared("a", **settings))

    assert stage(arguments={"group_size": 4}).group_size == 4
    assert stage(arguments={"group_size": "x"}).group_size is None
    assert stage().min_group_size == 1
    assert stage(min_group_size=2).min_group_size == 2
    for given, least in ((5, 5), (1, 2), ("x", 2)):
        found = stage(min_group_size=2, min_group_size_from="k", arguments={"k": given})
        assert found.min_group_size == least
    assert stage(must_reach=("x", "y|z"), keys={"x": "own"}).must_reach == keys("own y|z")


def test_a_stage_reads_what_its_parts_read_where_it_runs_them(declared):
    part = declared("part", reads=("a",), optional=("b", "given"))
    other = declared("other", reads=("c",))
    arguments = {"one": part, "two": other}

    known = declared("k", reads=("x",), runs=("one",), supplies=("given",), arguments=arguments)
    assert stage_of(known).reads == keys("x a b")
    assert [each.path for each in stage_of(known).parts] == ["part"]
    assert stage_of(known).parts[0].reads == keys("a b")
    opaque = declared("o", opaque=True, arguments=arguments)
    assert stage_of(opaque).reads == keys("a b given c")
    closed = declared("c", runs=("one",), contained=True, arguments=arguments)
    assert stage_of(closed).parts == []
    assert stage_of(closed).reads == keys("a b given")


@pytest.mark.parametrize(
    ("arguments", "given", "marks"),
    [
        ({}, {"exclusive": "m"}, {"m": {"a"}}),
        ({}, {}, {}),
        ({"on": True}, {"exclusive": "m", "exclusive_if": "on"}, {"m": {"a.on=true"}}),
        ({"on": False}, {"exclusive": "m", "exclusive_if": "on"}, {}),
        ({"on": 1}, {"exclusive": "m", "exclusive_if": "on"}, {}),
        ({}, {"exclusive": "m", "exclusive_if": "on"}, {}),
        ({}, {"exclusive": "m", "keys": {"m": "own"}}, {}),
    ],
)
def test_a_mark_is_of_whoever_counts(arguments, given, marks, declared):
    node = declared("a", arguments=arguments, **given)

    assert stage_of(node).marks == marks
    outer = declared("outer", exclusive="m", arguments={"one": node})
    assert stage_of(outer).marks["m"] == marks.get("m", set()) | {"outer"}


def phase(*stages, every=None):
    return PhasePlan(steps=1, stages=[*stages], every=every or {})


def rows(*nodes):
    return module._check_rows([*nodes])


@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        ([{"batch_size": 4}, {"num_minibatches": 4}], 0),
        ([{"batch_size": 4}, {"num_minibatches": 5}], 1),
        ([{"batch_size": 1}, {"num_minibatches": 2}], 1),
        ([{"batch_size": 4}, {"group_size": 2}, {"num_minibatches": 8}], 0),
        ([{"batch_size": 4}, {"group_size": 2}, {"num_minibatches": 9}], 1),
        ([{"num_minibatches": 9}], 0),  # how many rows there are is not known
        ([{"batch_size": "x"}, {"num_minibatches": 9}], 0),
        ([{"batch_size": 4}, {"num_minibatches": "x"}], 0),
        ([{"rows": 6, "group_size": 3}, {"num_minibatches": 6}], 0),
        ([{"rows": 6, "group_size": 3}, {"num_minibatches": 7}], 1),
        ([{"rows": 7, "group_size": 3}], 1),
        ([{"rows": 7}], 0),
        ([{"batch_size": 2**24}], 0),
        ([{"batch_size": 2**24 + 1}], 1),
        ([{"batch_size": 2**23}, {"group_size": 3}], 1),
        # What is too large is told once, and nothing of what follows from it.
        ([{"batch_size": 2**25}, {"num_minibatches": 2**26}], 1),
        ([{"batch_size": 4, "group_size": 2}, {"num_minibatches": 9}, {"num_minibatches": 10}], 2),
    ],
)
def test_the_rows_of_a_batch_can_be_shared_out(arguments, faults):
    nodes = [Node(f"n{number}", "t", each) for number, each in enumerate(arguments)]

    assert len(rows(*nodes)) == faults


def test_rows_are_looked_for_inside_of_a_stage_too():
    inner = Node("inner", "t", {"batch_size": 4, "group_size": 3})

    assert rows(Node("a", "t", {"part": inner}), Node("b", "t", {"num_minibatches": 12})) == []
    (told,) = rows(Node("a", "t", {"part": inner}), Node("b", "t", {"num_minibatches": 13}))
    assert told.startswith("b.num_minibatches is 13")
    (told,) = rows(Node("a", "t", {"rows": 7, "group_size": 3}))
    assert "a.rows=9" in told


def plan(*stages, every=None, nodes=()):
    return Plan(
        tree={},
        nodes={node.path: node for node in [*stages, *nodes] if isinstance(node, Node)},
        phases={"rl": phase(*stages, every=every)},
    )


def test_a_stage_that_cannot_run_is_told_alone(declared):
    part = declared("checkpoint", runnable=False, reads=("gone",))
    other = declared("other", runnable=False)

    told = messages(check_flow(plan(part, other)))

    assert [each.split(":")[0] for each in told] == ["phases.rl.stages"] * 2
    assert ["every.checkpoint" in each for each in told] == [True, False]


def test_what_is_broken_is_told_elsewhere(declared):
    missing = declared("missing", reads=("gone",))
    assert messages(check_flow(plan(missing)))

    assert messages(check_flow(plan(missing, BROKEN))) == []
    assert messages(check_flow(plan(missing, every={"e": (1, BROKEN)}))) == []
    assert messages(check_flow(plan(missing, Node("x", "no.target")))) == []
    assert messages(check_flow(plan(missing, every={"e": (1, Node("x", "no.target"))}))) == []
    whole = declared("whole", arguments={"part": Node("whole.part", "no.target")})
    assert messages(check_flow(plan(missing, whole))) == []


def test_a_node_beside_the_list_is_a_remedy_and_no_fault(declared):
    missing = declared("missing", reads=("advantage",))
    writes = declared("writes", writes=("advantage",))
    inner = declared("a.inner", writes=("advantage",))

    (told,) = messages(check_flow(plan(missing, nodes=[writes, Node("odd", "no.target")])))
    assert "writes" in told
    (told,) = messages(check_flow(plan(missing, nodes=[inner])))
    assert "a.inner" not in told
