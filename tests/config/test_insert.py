"""Stages inserted by name. The lists on the right are written down by hand."""

import pytest
from omegaconf import OmegaConf

from rlcomp.config.compose import compose_config
from rlcomp.config.finding import messages
from rlcomp.config.flow_source import check_flow
from rlcomp.config.insert import StepRange, step_range
from rlcomp.config.plan import read
from rlcomp.config.reader import Reader

NOTHING = {"_target_": "rlcomp.run.stages.Nothing"}
GROUP = {"_target_": "rlcomp.run.stages.Sequence", "stages": ["own"]}


def planned(insert, stages="abcd", **settings):
    names = {name: NOTHING for name in (*"abcdxyz", "own")}
    phase = {"steps": 1, "stages": [*stages], "insert": insert, **settings}
    config = {**names, "group": GROUP, "second": {**GROUP, "stages": []}}
    return read(OmegaConf.create({**config, "phases": {"main": phase}}))


def paths(stages):
    return " ".join(stage.path for stage in stages)


def order(insert, **settings):
    plan, errors = planned(insert, **settings)
    assert errors == []
    return paths(plan.phases["main"].stages)


def errors(insert, **settings):
    return planned(insert, **settings)[1]


@pytest.mark.parametrize(
    ("insert", "expected"),
    [
        ({"x": {"after": "a"}}, "a x b c d"),
        ({"x": {"before": "a"}}, "x a b c d"),
        ({"x": {"after": "d"}}, "a b c d x"),
        # Several at one anchor keep the order they are written in.
        ({"x": {"after": "b"}, "y": {"after": "b"}}, "a b x y c d"),
        ({"x": {"before": "b"}, "y": {"before": "b"}}, "a x y b c d"),
        # An anchor may be inserted itself, before or after it is named.
        ({"x": {"after": "y"}, "y": {"after": "a"}}, "a y x b c d"),
        ({"y": {"after": "a"}, "x": {"after": "y"}}, "a y x b c d"),
        ({"z": {"before": "x"}, "x": {"after": "y"}, "y": {"after": "d"}}, "a b c d y z x"),
        # What is taken back.
        ({"x": None, "y": {"after": "a"}}, "a y b c d"),
        (None, "a b c d"),
    ],
)
def test_a_stage_stands_where_it_was_put(insert, expected):
    assert order(insert) == expected


@pytest.mark.parametrize(
    ("insert", "outside", "inside"),
    [
        ({"group": {"around": ["b", "c"]}}, "a group d", "b c own"),
        ({"group": {"around": ["a", "a"]}}, "group b c d", "a own"),
        # Single stages first, whatever the order; what lies in the range lands inside.
        ({"group": {"around": ["b", "c"]}, "x": {"after": "b"}}, "a group d", "b x c own"),
        ({"x": {"before": "b"}, "group": {"around": ["b", "c"]}}, "a x group d", "b c own"),
        ({"group": {"around": ["x", "c"]}, "x": {"after": "a"}}, "a group d", "x b c own"),
        # Beside the stage that stands around others, and beside its own.
        ({"x": {"after": "group"}, "group": {"around": ["b", "c"]}}, "a group x d", "b c own"),
        ({"x": {"before": "own"}, "group": {"around": ["b", "c"]}}, "a group d", "b c x own"),
    ],
)
def test_a_stage_around_others_holds_them_before_its_own(insert, outside, inside):
    plan, found = planned(insert)

    assert found == []
    assert paths(plan.phases["main"].stages) == outside
    assert paths(plan.nodes["group"].arguments["stages"]) == inside


def test_one_may_stand_around_another():
    plan, found = planned(
        {"second": {"around": ["group", "d"]}, "group": {"around": ["b", "c"]}},
    )

    assert found == []
    assert paths(plan.phases["main"].stages) == "a second"
    assert paths(plan.nodes["second"].arguments["stages"]) == "group d"


def test_stages_are_left_out_by_name():
    assert order({"x": {"after": "a"}}, without=["b", "d"]) == "a x c"


ONE_OF = "must be one of {after: stage}, {before: stage}, {around: [first, last]}"


@pytest.mark.parametrize(
    ("insert", "told"),
    [
        (
            {"x": {"after": "aa"}},
            "phases.main.insert.x.after is 'aa': there is no such stage; did you mean 'a'? "
            "(known: a, b, c, d, x)",
        ),
        # One message, though y stands beside x.
        (
            {"x": {"after": "e"}, "y": {"after": "x"}},
            "phases.main.insert.x.after is 'e': there is no such stage (known: a, b, c, d, x, …)",
        ),
        ({"x": "a"}, f"phases.main.insert.x is 'a': {ONE_OF}"),
        ({"x": {"behind": "a"}}, f"phases.main.insert.x is {{'behind': 'a'}}: {ONE_OF}"),
        (
            {"x": {"after": "a", "before": "c"}},
            f"phases.main.insert.x is {{'after': 'a', 'before': 'c'}}: {ONE_OF}",
        ),
        ({"x": {"after": 3}}, "phases.main.insert.x.after is 3: must be the name of a stage"),
        (
            {"g": {"around": ["a", 3]}},
            "phases.main.insert.g.around is ['a', 3]: must be [first, last], two names of stages",
        ),
        (
            {"group": {"around": ["a"]}},
            "phases.main.insert.group.around is ['a']: must be [first, last], two names of stages",
        ),
        (
            {"group": {"around": ["c", "b"]}},
            "phases.main.insert.group.around: 'c' comes after 'b'",
        ),
        (
            {"group": {"around": ["a", "b"]}, "second": {"around": ["b", "c"]}},
            "phases.main.insert.second.around is 'b': it is inside 'group'",
        ),
        (
            {"x": {"after": "y"}, "z": {"after": "x"}, "y": {"after": "z"}},
            "phases.main.insert is circular: x -> y -> z -> x",
        ),
        ({"x": {"after": "x"}}, "phases.main.insert is circular: x -> x"),
        (
            {"b": {"after": "c"}},
            "phases.main.insert.b: 'b' is among the stages already; insert another node",
        ),
        ([], "phases.main.insert is []: must be {name: {after: stage}}"),
    ],
)
def test_a_place_that_is_none_is_told_once(insert, told):
    assert errors(insert) == [told]


def test_a_stage_that_is_no_node_is_told():
    (told,) = errors({"xx": {"after": "a"}})

    assert told.startswith("phases.main.insert: no node 'xx'; did you mean 'x'?")


def test_an_anchor_that_stands_twice_is_refused():
    assert errors({"x": {"after": "a"}}, stages="aba") == [
        "phases.main.insert.x.after is 'a': the stage is listed several times"
    ]


def test_what_is_left_out_has_to_be_there():
    (told,) = errors(None, without=["e"])

    assert told == "phases.main.without is 'e': there is no such stage (known: a, b, c, d)"


def test_one_node_cannot_stand_around_stages_of_two_phases():
    phase = {"steps": 1, "stages": ["a"], "insert": {"group": {"around": ["a", "a"]}}}
    nodes = {"a": NOTHING, "own": NOTHING, "group": GROUP}
    _, found = read(OmegaConf.create({**nodes, "phases": {"one": phase, "two": phase}}))

    assert found == [
        "phases.two.insert.group: 'group' is around other stages in phases.one.insert.group; "
        "use another node here"
    ]


EVERY = (
    "prompts conditioning rollout reward reward_check feedback shaping objectives old_log_probs "
    "mismatch reference kl value advantage filter learner value_learner"
)
WARM_UP = (
    "prompts conditioning rollout reward reward_check feedback shaping objectives old_log_probs "
    "mismatch value advantage value_learner"
)
REFILLED = (
    "refill shaping objectives old_log_probs mismatch reference kl value advantage filter learner "
    "value_learner"
)


def recipe(*words):
    plan, found = read(compose_config(words))
    assert found == []
    assert messages(check_flow(plan)) == []
    return plan


def lists(plan):
    return {name: paths(phase.stages) for name, phase in plan.phases.items()}


def test_the_stages_of_the_recipes_are_those_once_written_out():
    start = {"warm_start": "demonstrations sft_learner"}

    assert lists(recipe("recipe=grpo")) == {**start, "rl": EVERY}
    dapo = recipe("recipe=dapo")
    assert lists(dapo) == {**start, "rl": REFILLED}
    within = paths(dapo.nodes["refill"].arguments["stages"])
    assert within == "prompts conditioning rollout reward reward_check feedback varied"
    assert lists(recipe("recipe=ppo")) == {**start, "value_warm_up": WARM_UP, "rl": EVERY}
    assert lists(recipe("recipe=conditioned")) == {
        "warm_start": "demonstrations conditioning conditioned_rows sft_learner",
        "rl": EVERY,
    }


def test_a_shipped_recipe_takes_a_stage_from_the_command_line_inside_its_refill():
    plan = recipe(
        "recipe=dapo",
        "+mine={_target_: rlcomp.run.stages.Nothing}",
        "+phases.rl.insert.mine.after=reward",
    )

    assert lists(plan)["rl"] == REFILLED
    within = paths(plan.nodes["refill"].arguments["stages"])
    assert within == "prompts conditioning rollout reward mine reward_check feedback varied"


def test_an_insertion_is_taken_away_by_name():
    assert lists(recipe("recipe=dapo", "~phases.rl.insert.refill"))["rl"] == EVERY


def in_turn(insert, steps):
    plan, errors = planned(insert, steps=steps)
    assert errors == []
    phase = plan.phases["main"]
    return {1: paths(phase.stages)} | {step: paths(found) for step, found in phase.later.items()}


@pytest.mark.parametrize(
    ("entry", "steps", "expected"),
    [
        # Whole numbers are steps, counted from 1, both included.
        ({"from_step": 4}, 10, {1: "a b c d", 4: "a x b c d"}),
        ({"until_step": 4}, 10, {1: "a x b c d", 5: "a b c d"}),
        ({"from_step": 3, "until_step": 3}, 10, {1: "a b c d", 3: "a x b c d", 4: "a b c d"}),
        ({"from_step": 1}, 10, {1: "a x b c d"}),
        ({"until_step": 10}, 10, {1: "a x b c d"}),
        # Shares of the phase: half of 7 steps are done after 3.5, so from step 4 on.
        ({"from_step": 0.5}, 100, {1: "a b c d", 51: "a x b c d"}),
        ({"until_step": 0.5}, 100, {1: "a x b c d", 51: "a b c d"}),
        ({"from_step": 0.5}, 7, {1: "a b c d", 4: "a x b c d"}),
        # 0.29 * 100 is a little less than 29 in floating point.
        # No share below 1 is cut to all steps, however near it is.
        ({"from_step": 0.9999999999}, 150, {1: "a b c d", 150: "a x b c d"}),
        ({"from_step": 0.29}, 100, {1: "a b c d", 30: "a x b c d"}),
        # A phase too short for both halves keeps one of them: the latter half of one step.
        ({"from_step": 0.5}, 1, {1: "a x b c d"}),
        ({"until_step": 0.5}, 1, {1: "a b c d"}),
    ],
)
def test_a_stage_stands_there_for_some_steps(entry, steps, expected):
    assert in_turn({"x": {"after": "a", **entry}}, steps) == expected


def test_what_a_stage_stands_around_runs_by_itself_in_the_other_steps():
    found, errors = planned({"group": {"around": ["b", "c"], "from_step": 6}}, steps=10)

    phase = found.phases["main"]
    assert errors == []
    assert (paths(phase.stages), paths(phase.later[6])) == ("a b c d", "a group d")
    assert paths(found.nodes["group"].arguments["stages"]) == "b c own"


def test_two_windows_make_up_to_four_lists():
    insert = {
        "x": {"after": "a", "from_step": 3, "until_step": 6},
        "group": {"around": ["x", "b"], "until_step": 4},
        "y": {"after": "d", "from_step": 5},
    }

    # x stands inside the group, which then has one list only.
    assert "is inside 'group': give them to 'group'" in " ".join(planned(insert, steps=9)[1])
    insert["group"]["around"] = ["b", "c"]
    assert in_turn(insert, 9) == {
        1: "a group d",
        3: "a x group d",
        5: "a x b c d y",
        7: "a b c d y",
    }


STEP = "must be a step (1, 2, ...) or a share of the phase between 0 and 1"
NEVER = (
    "but the phase has 10 steps: it would never run; a share of the phase (from_step: 0.5) grows "
    "with it"
)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"from_step": 0}, f".from_step is 0: {STEP}"),
        ({"from_step": 1.0}, f".from_step is 1.0: {STEP}"),
        ({"until_step": True}, f".until_step is True: {STEP}"),
        ({"until_step": "all"}, f".until_step is 'all': {STEP}"),
        ({"from_step": 11}, f" has from_step 11, {NEVER}"),
        ({"from_step": 5, "until_step": 4}, f" has from_step 5, until_step 4, {NEVER}"),
        ({"from_step": 0.5, "until_step": 0.5}, f" has from_step 0.5, until_step 0.5, {NEVER}"),
    ],
)
def test_steps_in_which_it_would_never_run_are_refused(entry, told):
    insert = {"x": {"after": "a", **entry}}

    assert errors(insert, steps=10) == [f"phases.main.insert.x{told}"]


def test_each_of_the_lists_is_checked():
    # The advantage reads what the reward writes, which runs in the first half only.
    words = ["recipe=grpo", "+phases.rl.without=[reward]"]
    entry = "+phases.rl.insert={reward: {after: rollout, until_step: 0.5}}"

    plan, found = read(compose_config([*words, entry]))

    assert found == []
    assert "reads 'reward'" in " ".join(messages(check_flow(plan)))
    assert messages(check_flow(read(compose_config([words[0]]))[0])) == []


def found(first=None, last=None, steps=10):
    reader = Reader(OmegaConf.create({}))
    return step_range(reader, "x", {"from_step": first, "until_step": last}, steps), reader.errors


def test_both_ends_are_in_a_window():
    assert [step for step in range(1, 7) if step in StepRange(3, 5)] == [3, 4, 5]
    assert [step for step in range(1, 5) if step in StepRange(3)] == [3, 4]
    assert StepRange(3, 5).ends() == [3, 6]
    assert StepRange(3).ends() == [3]


@pytest.mark.parametrize(
    ("first", "last", "steps", "meant"),
    [
        (None, None, 10, StepRange(1, None)),
        (4, 7, 10, StepRange(4, 7)),
        (7, 7, 10, StepRange(7, 7)),
        (0.5, None, 100, StepRange(51, None)),
        (None, 0.5, 100, StepRange(1, 50)),
        (0.29, 0.58, 100, StepRange(30, 58)),  # .29 * 100 is 28.999999999999996
        (0.2, 0.7, 9, StepRange(2, 6)),  # 1.8 and 6.3 steps
        (0.99999999, None, 150, StepRange(150, None)),
        (0.0000001, None, 10, StepRange(1, None)),
    ],
)
def test_shares_are_cut_to_whole_steps(first, last, steps, meant):
    assert found(first, last, steps) == (meant, [])


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (0.5, 0.5),
        (0.6, 0.5),
        (7, 6),
        (11, None),
        (None, 0),
        (0.0, 3),
        (1.0, None),
        (1.5, None),
        (True, 3),
    ],
)
def test_what_would_never_run_is_told_with_its_path(first, last):
    made, errors = found(first, last)

    assert made is None
    assert len(errors) == 1
    assert errors[0].startswith("x")


def test_only_what_is_set_is_told():
    assert found(11, None) == (
        None,
        [
            "x has from_step 11, but the phase has 10 steps: it would never run; a share of the "
            "phase (from_step: 0.5) grows with it"
        ],
    )
