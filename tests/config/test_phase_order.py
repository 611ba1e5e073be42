"""The order of phases, and what one takes over from another. The expectations are by hand."""

import pytest
from omegaconf import OmegaConf

from rlcomp.config.checks.phases import check_prerequisites
from rlcomp.config.finding import messages
from rlcomp.config.phase_order import order_phases
from rlcomp.config.plan import read
from rlcomp.errors import ConfigError

NOTHING = {"_target_": "rlcomp.run.stages.Nothing"}


def order(**phases):
    return [*order_phases(OmegaConf.create({"phases": phases})).phases]


def body(name, **phases):
    return OmegaConf.to_container(order_phases(OmegaConf.create({"phases": phases})).phases[name])


def refusal(**phases):
    with pytest.raises(ConfigError) as told:
        order_phases(OmegaConf.create({"phases": phases}))
    return str(told.value)


def test_without_a_word_of_order_a_config_is_as_it_was():
    config = OmegaConf.create({"phases": {"b": {"steps": 1}, "a": {"steps": 2}}})
    assert order_phases(config) is config


def test_a_phase_waits_for_those_it_comes_after_and_the_rest_stay_in_place():
    # rl is inherited, so it stands before what a recipe adds.
    assert order(sft={}, rl={"after": "reward_model"}, reward_model={}) == [
        "sft",
        "reward_model",
        "rl",
    ]
    assert order(a={"after": ["c", "d"]}, b={}, c={"after": "d"}, d={}) == ["b", "d", "c", "a"]
    assert order(a={"after": None}, b={"after": []}) == ["a", "b"]


def test_a_phase_that_is_null_is_left_out():
    assert order(a={"steps": 1}, b=None, c={"steps": 2}) == ["a", "c"]
    assert "phases.a.after is 'b': there is no such phase" in refusal(a={"after": "b"}, b=None)


def test_a_phase_takes_over_what_the_other_does_and_keeps_its_own_word():
    found = body(
        "again",
        rl={
            "steps": 9,
            "stages": ["a", "b"],
            "every": {"evaluation": 3, "checkpoint": 4},
            "after": "first",
            "on_begin": ["snapshot"],
        },
        first={"steps": 1},
        again={"like": "rl", "steps": 2, "every": {"evaluation": 1}, "without": ["a"]},
    )
    assert found == {
        "steps": 2,
        "stages": ["a", "b"],
        "every": {"evaluation": 1, "checkpoint": 4},
        "without": ["a"],
    }


def test_a_list_takes_the_place_of_a_list():
    found = body("b", a={"stages": ["x", "y"]}, b={"like": "a", "stages": ["z"]})
    assert found == {"stages": ["z"]}


def test_a_phase_may_be_like_one_that_is_like_another():
    found = body(
        "c", c={"like": "b", "on_begin": ["z"]}, b={"like": "a", "on_begin": ["y"]}, a={"steps": 4}
    )
    assert found == {"steps": 4, "on_begin": ["z"]}


def test_interpolations_and_missing_values_stay_as_they_are_written():
    config = OmegaConf.create(
        {"n": 7, "phases": {"a": {"steps": "${n}"}, "b": {"like": "a", "stages": "???"}}}
    )
    found = order_phases(config)
    assert found.phases.b.steps == 7
    assert OmegaConf.is_missing(found.phases.b, "stages")
    found.n = 8
    assert found.phases.b.steps == 8
    assert config.phases.b == {"like": "a", "stages": "???"}


@pytest.mark.parametrize(
    ("phases", "told"),
    [
        ({"a": {"like": "aa"}}, "phases.a.like is 'aa': there is no such phase; did you mean 'a'?"),
        ({"a": {"like": "a"}}, r"phases.a.like is 'a': circular (a -> a); take one out"),
        (
            {"a": {"like": "b"}, "b": {"like": "a"}},
            "phases.b.like is 'a': circular (a -> b -> a); take one out",
        ),
        ({"a": {"after": "x"}}, "name another, or leave it out, '~phases.a.after'"),
        ({"a": {"after": ["x"]}}, "phases.a.after is 'x': there is no such phase"),
        (
            {"c": {}, "a": {"after": "b"}, "b": {"after": "a"}},
            "phases.a.after: a, b wait for one another; take one 'after' out, such as "
            "'~phases.a.after'",
        ),
    ],
)
def test_what_cannot_be_is_told_with_its_path(phases, told):
    assert told in refusal(**phases)


def test_a_config_that_cannot_be_ordered_has_that_one_mistake():
    plan, errors = read(OmegaConf.create({"phases": {"a": {"after": "x", "steps": 1}}}))
    assert plan.phases == {}
    assert len(errors) == 1
    assert errors[0].startswith("phases.a.after is 'x'")


SNAPSHOT = {"_target_": "components.action.Snapshot", "policy": None}
RESTORE = {"_target_": "components.action.Restore", "snapshot": "${taken}"}


def begun(**phases):
    plain = {"steps": 1, "stages": ["nothing"]}
    whole = {name: {**plain, **more} for name, more in phases.items()}
    nodes = {"nothing": NOTHING, "taken": SNAPSHOT, "back": RESTORE}
    plan, errors = read(OmegaConf.create({**nodes, "phases": whole}))
    return errors or messages(check_prerequisites(plan))


def test_a_snapshot_comes_before_it_is_restored():
    assert begun(a={"on_begin": ["taken"]}, b={"on_begin": ["back"]}) == []
    assert begun(a={"on_begin": ["taken", "back"]}) == []
    assert begun(a={"on_begin": ["back", "taken"]}) == [
        "phases.a.on_begin: back (Restore) needs taken, but no earlier phase runs it; give "
        "taken a phase, and set phases.a.after=..."
    ]
    assert len(begun(a={"on_begin": ["back"]}, b={"on_begin": ["taken"]})) == 1
    assert begun(a={"on_begin": ["back"], "after": "b"}, b={"on_begin": ["taken"]}) == []


def test_what_is_done_at_the_begin_has_to_be_able_to():
    config = {"x": {"_target_": "builtins.dict"}, "nothing": NOTHING}
    config["y"] = {"_target_": "rlcomp.model.optimizer.Constant"}
    config["y"] = {"_target_": "rlcomp.data.sampling.ShuffledEpochs"}
    phase = {"steps": 1, "stages": ["nothing"], "on_begin": ["y", "nothing"]}
    plan, errors = read(OmegaConf.create({**config, "phases": {"a": phase}}))
    assert errors == []
    told = messages(check_prerequisites(plan))
    assert len(told) == 1
    assert told[0].startswith("phases.a.on_begin: y (ShuffledEpochs) does nothing when a phase beg")


def test_what_is_named_has_to_be_there():
    phase = {"steps": 1, "stages": ["nothing"]}
    for given, told in [
        (["gone"], "phases.a.on_begin[0]: no node 'gone'"),
        ("nothing", "phases.a.on_begin is 'nothing': must be a list of node names"),
    ]:
        config = {"nothing": NOTHING, "phases": {"a": {**phase, "on_begin": given}}}
        _, errors = read(OmegaConf.create(config))
        assert len(errors) == 1
        assert errors[0].startswith(told)


STORE = {"_target_": "components.store.CollectedAnswers"}
REPLAY = {"_target_": "components.store.AnswerReplay", "store": "${store}", "batch_size": 4}


def test_a_store_is_filled_before_it_is_drawn_from():
    nodes = {"store": STORE, "replay": REPLAY}

    def told(**steps):
        stages = {"fill": ["store"], "draw": ["replay"]}
        phases = {name: {"steps": n, "stages": stages[name]} for name, n in steps.items()}
        return messages(check_prerequisites(read(OmegaConf.create({**nodes, "phases": phases}))[0]))

    assert told(fill=1, draw=1) == []
    assert told(draw=1, fill=1) == [
        "phases.draw: replay (AnswerReplay) needs store, but no earlier phase runs it; give store "
        "a phase, and set phases.draw.after=..."
    ]
    assert len(told(fill=0, draw=1)) == 1


def test_a_setting_that_a_phase_takes_over_is_added():
    from rlcomp.config.resolve import compose_or_explain

    with pytest.raises(ConfigError, match=r"set it here by \+phases.rl2.every=") as told:
        compose_or_explain(["recipe=r1", "phases.rl2.every=3"])
    assert "inherited from the phase that phases.rl2.like names" in str(told.value)
