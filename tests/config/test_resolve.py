"""Checks of a config as a whole."""

import pytest

from rlcomp.config.checks.settings import check_settings
from rlcomp.config.compose import compose_config
from rlcomp.config.finding import messages
from rlcomp.config.options import recipes_with
from rlcomp.config.plan import Plan
from rlcomp.config.reader import BROKEN
from rlcomp.config.resolve import added, plan_of
from rlcomp.errors import ConfigErrors


def test_dynamics_of_no_environment_are_refused():
    told = "randomise draws the dynamics of 'environment', which this recipe has not"
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


def test_what_is_added_at_the_root_is_found_however_it_is_written():
    words = ["+a=1", "++b=1", "+c.d=1", "+a=2", "e=1", "~f", "+g@h=1", "+i/j=1"]

    assert added(words) == ["a", "b", "c"]


def test_an_option_of_none_is_told_as_the_cause():
    from rlcomp.config.resolve import as_written

    told = "stage kl reads 'ref_log_probs', which no earlier stage writes: choose reference=frozen"

    assert as_written(told, ["seed=0"]) == told
    assert "which reference=none leaves out: choose" in as_written(told, ["reference=none"])


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
