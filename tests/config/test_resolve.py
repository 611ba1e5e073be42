"""Checks of a config as a whole, and messages in typed words."""

import pytest

from rlcomp.config.checks.values import check_settings
from rlcomp.config.compose import compose_config
from rlcomp.config.finding import messages
from rlcomp.config.options import recipes_with
from rlcomp.config.plan import Plan
from rlcomp.config.reader import BROKEN
from rlcomp.config.resolve import compose_or_explain, plan_of, trace
from rlcomp.errors import ConfigErrors


def test_dynamics_of_no_environment_are_refused():
    told = "randomise draws the dynamics of 'environment', which this recipe does not have"
    words = ["recipe=flow_grpo", "directory=x"]

    with pytest.raises(ConfigErrors, match=told):
        plan_of(compose_config([*words, "randomise=uniform"]))
    plan_of(compose_config([*words, "randomise=none"]))
    plan_of(compose_config(["recipe=sac", "randomise=uniform", "directory=x"]))


def test_a_node_that_is_not_there_is_told_with_a_recipe_that_uses_it_so():
    # recipe=bc has a node of this name as well, which collects.
    told = "sample.demonstrations: no node 'demonstrations': recipe=rlpd has one"

    with pytest.raises(ConfigErrors, match=told):
        plan_of(compose_config(["recipe=sac", "replay@sample=half_half", "directory=x"]))
    assert recipes_with("demonstrations")[0] == "bc"
    assert recipes_with("demonstrations", "sample", "nowhere.Part")[0] == "bc"


def test_an_option_of_none_is_told_as_the_cause():
    from rlcomp.config.resolve import with_typed_value

    told = "stage kl reads 'ref_log_probs', which no earlier stage writes: choose reference=frozen"

    assert with_typed_value(told, ["seed=0"]) == told
    assert "which reference=none leaves out: choose" in with_typed_value(told, ["reference=none"])


def test_plain_values_of_a_run_are_of_their_kinds_and_what_was_told_is_not_told_again():
    sound = {"seed": 0, "device": "cpu", "resume": "auto", "trust": False}
    assert messages(check_settings(Plan(sound, {}, {}))) == []
    assert messages(check_settings(Plan({}, {}, {}))) == []
    assert messages(check_settings(Plan({"seed": BROKEN, "trust": BROKEN}, {}, {}))) == []

    told = messages(
        check_settings(Plan({"seed": -1, "resume": "", "trust": "yes", "mine": ""}, {}, {}))
    )

    assert [line.partition(" is ")[0] for line in told] == ["seed", "resume", "trust"]
    assert "set resume=auto, must, never, or the path of a run" in told[1]


LINES = {
    "max_new_tokens=8.5": "max_new_tokens is 8.5: must be an integer; set max_new_tokens=...",
    "context_length=0": "context_length is 0: must be greater than 0; set context_length=...",
    "group_size=1": "group_size is 1: advantage (GroupMeanStd) in phase rl compares at least 2 "
    "answers per prompt; set group_size=8 or choose another advantage",
    "+k=k9 kl.estimator=${k}": "k is 'k9': must be one of 'k1', 'k2', 'k3', 'abs'; set k=...",
    "+s=0.5 phases.rl.steps=${s}": "s is 0.5: must be an integer; set s=...",
    "+w=abc +v=${w} rollout.max_new_tokens=${v}": "w is 'abc': must be an integer; set w=...",
    # The typed word is the reference here: what it refers to stands in the recipe.
    "policy.stop_tokens=${max_new_tokens}": "policy.stop_tokens is 8: must be a list or must be "
    "null; set policy.stop_tokens=...",
    "+lo=0.8 +hi=1.2 loss.trust_region.clip_low=${lo} loss.trust_region.clip_high=${hi}": (
        "lo is 0.8 and hi is 1.2: these are distances from 1, so that the ratio is held in "
        "[0.2, 2.2]; for [0.8, 1.2] set lo=0.2 hi=0.2"
    ),
}


@pytest.mark.parametrize("line", LINES)
def test_a_value_by_reference_is_told_where_it_was_typed(line):
    words = line.split()
    with pytest.raises(ConfigErrors) as told:
        plan_of(compose_or_explain(words), words)

    assert told.value.messages == [LINES[line]]


def test_a_value_that_is_computed_shows_how(monkeypatch):
    monkeypatch.setenv("TOKENS_OF_MINE", "many")
    words = ["max_new_tokens=${oc.env:TOKENS_OF_MINE}"]
    with pytest.raises(ConfigErrors) as told:
        plan_of(compose_or_explain(words), words)

    assert told.value.messages == [
        "max_new_tokens is 'many' (${oc.env:TOKENS_OF_MINE}): must be an integer; "
        "set max_new_tokens=..."
    ]


def test_what_stands_below_a_reference_moves_with_it():
    origins = {"a.b": "c", "c.d": "e"}

    assert trace("a.b.d is 1: odd; set a.b.d=2", origins, []) == "e is 1: odd; set e=2"
    assert trace("a.b.x is 1: odd", origins, []) == "c.x is 1: odd"
    assert trace("xa.b is 1, ${a.b}, f/a.b", origins, []) == "xa.b is 1, ${a.b}, f/a.b"


def test_references_in_a_circle_end():
    assert trace("a.b is 1", {"a.b": "c.d", "c.d": "a.b"}, []) == "c.d is 1"
