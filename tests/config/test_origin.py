"""Messages name the word that was typed, where a value came by reference."""

import pytest

from rlcomp.config.composition import compose_or_explain
from rlcomp.config.origin import trace
from rlcomp.config.resolve import plan_of
from rlcomp.errors import ConfigErrors

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
