import functools
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf

from rlcomp.config.build import Builder, Make, builds_model
from rlcomp.config.plan import read
from rlcomp.errors import ConfigError, ConfigErrors
from rlcomp.run.stages import Nothing, Sequence

# A target that keeps whatever it is given, unconverted, under the names of the arguments.
KEEP = "types.SimpleNamespace"
NOTHING = {"_target_": "rlcomp.run.stages.Nothing"}
PHASES = {"phases": {"main": {"steps": 1, "stages": ["kl"]}}, "kl": NOTHING}


@dataclass
class Size:
    width: int = 3


class Given:
    """What the factories of the module below hand out: the very objects are compared."""

    size = Size()
    table = {"a": 1}
    row = [torch.nn.Identity()]
    pair = (1, 2)
    cls = torch.nn.Linear
    module = torch.nn.Identity()
    partial = functools.partial(max, 3)


@pytest.fixture(scope="module", autouse=True)
def factories():
    """A module whose functions return the objects of :class:`Given`."""
    from transformers import Qwen2Config

    Given.config = Qwen2Config()
    names = [name for name in vars(Given) if not name.startswith("_")]
    module = SimpleNamespace(**{name: (lambda name=name: getattr(Given, name)) for name in names})
    module.refuse, module.Refuse = refuse, Refuse
    sys.modules["config_factories"] = module
    yield names
    del sys.modules["config_factories"]


def plan_or_raise(config):
    plan, errors = read(config)
    if errors:
        raise ConfigErrors(errors)
    return plan


def refuse(*, low):
    raise ValueError(f"low is {low}: too low")


class Refuse:
    def __init__(self, *, low):
        refuse(low=low)


def config(**tree):
    return OmegaConf.create({**PHASES, **tree})


def errors_of(**tree):
    return read(config(**tree))[1]


def built(**tree):
    plan = plan_or_raise(config(**tree))
    builder = Builder(plan, seed=0)
    builder.all()
    return {name: builder.value(value) for name, value in plan.tree.items()}


def test_a_reference_to_a_node_is_that_object():
    made = built(
        policy={"_target_": KEEP},
        learner={"_target_": KEEP, "model": "${policy}"},
        rollout={"_target_": KEEP, "model": "${policy}"},
    )

    assert made["learner"].model is made["policy"] is made["rollout"].model


def test_a_reference_inside_a_list_and_a_dict_is_the_same_object():
    made = built(
        policy={"_target_": KEEP},
        both={"_target_": KEEP, "row": ["${policy}", 1], "table": {"x": {"y": "${policy}"}}},
    )

    assert made["both"].row[0] is made["policy"] is made["both"].table["x"]["y"]


def test_a_reference_to_a_reference_is_the_same_object():
    made = built(
        policy={"_target_": KEEP}, alias="${policy}", user={"_target_": KEEP, "m": "${alias}"}
    )

    assert made["user"].m is made["policy"]


def test_a_reference_to_a_nodes_argument_is_its_value():
    made = built(
        policy={"_target_": KEEP, "part": {"_target_": KEEP}, "width": 3},
        user={"_target_": KEEP, "part": "${policy.part}", "width": "${policy.width}"},
    )

    assert made["user"].part is made["policy"].part
    assert made["user"].width == 3


@pytest.mark.parametrize("kind", ["size", "table", "row", "pair", "cls", "module", "config"])
def test_what_a_node_made_reaches_its_user_unconverted(kind):
    made = built(
        part={"_target_": f"config_factories.{kind}"}, user={"_target_": KEEP, "part": "${part}"}
    )

    assert made["user"].part is getattr(Given, kind)


@pytest.mark.parametrize("kind", ["size", "table", "row", "pair", "cls", "config"])
def test_what_a_child_made_inline_reaches_its_parent_unconverted(kind):
    made = built(user={"_target_": KEEP, "part": {"_target_": f"config_factories.{kind}"}})

    assert made["user"].part is getattr(Given, kind)


def test_a_partial_that_a_node_made_stays_callable():
    # Hydra wraps it in a type of its own.
    made = built(user={"_target_": KEEP, "part": {"_target_": "config_factories.partial"}})

    assert made["user"].part(1) == 3  # max(3, 1)


def test_plain_containers_arrive_as_plain_python():
    made = built(user={"_target_": KEEP, "row": [1, [2]], "table": {"a": {"b": 1}}})

    assert type(made["user"].row) is list
    assert type(made["user"].row[1]) is list
    assert type(made["user"].table["a"]) is dict


def test_a_string_interpolates_a_value():
    assert built(seed=3, user={"_target_": KEEP, "name": "x-${seed}"})["user"].name == "x-3"


def test_an_environment_variable_is_a_plain_value(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")

    assert built(user={"_target_": KEEP, "name": "${oc.env:HOME}"})["user"].name == "/home/someone"


def test_an_escaped_interpolation_is_text():
    assert built(user={"_target_": KEEP, "name": r"\${x}"})["user"].name == "${x}"


def test_a_resolver_that_returns_a_plain_value_is_that_value():
    assert built(width=3, user={"_target_": KEEP, "w": "${oc.select:width}"})["user"].w == 3


def test_a_resolver_that_returns_a_part_of_the_config_is_refused():
    OmegaConf.register_new_resolver(
        "copied", lambda *, _root_: OmegaConf.create({"a": 1}), replace=True
    )

    (error,) = errors_of(user={"_target_": KEEP, "part": "${copied:}"})

    assert error.startswith("user.part: ${copied:} is a resolver that returns a part of the config")
    assert "write ${name}" in error


def test_select_of_a_node_is_that_object():
    # Unlike another resolver, oc.select returns the very place in the tree.
    made = built(policy={"_target_": KEEP}, user={"_target_": KEEP, "m": "${oc.select:policy}"})

    assert made["user"].m is made["policy"]


def test_an_item_of_a_list_of_nodes_is_that_object():
    made = built(
        l=[{"_target_": KEEP}, {"_target_": KEEP}],
        user={"_target_": KEEP, "first": "${l[0]}", "second": "${l.1}"},
    )

    assert made["user"].first is made["l"][0]
    assert made["user"].second is made["l"][1]


def test_integer_keys_stay_integers():
    made = built(policy={"_target_": KEEP}, table={1: "${policy}"})

    assert made["table"] == {1: made["policy"]}


def test_a_path_through_an_interpolation_reaches_the_node():
    made = built(
        models={"big": {"_target_": KEEP}},
        chosen="${models}",
        user={"_target_": KEEP, "model": "${chosen.big}"},
    )

    assert made["user"].model is made["models"]["big"]


def test_a_nested_interpolation_chooses_the_node():
    made = built(
        models={"big": {"_target_": KEEP}, "small": {"_target_": KEEP}},
        which="small",
        user={"_target_": KEEP, "model": "${models.${which}}"},
    )

    assert made["user"].model is made["models"]["small"]


def test_a_missing_value_says_how_to_set_it():
    assert errors_of(a={"_target_": KEEP, "n": "???"}) == [
        "a.n is missing (???): set it with a.n=..."
    ]


def test_a_missing_value_is_told_once_however_many_refer_to_it():
    errors = errors_of(a={"_target_": KEEP, "n": "???"}, b={"_target_": KEEP, "n": "${a.n}"})

    assert sum("a.n is missing" in error for error in errors) == len(errors) == 1


def test_a_typo_in_a_reference_names_the_nearest_node():
    (error,) = errors_of(policy={"_target_": KEEP}, a={"_target_": KEEP, "m": "${polcy}"})

    assert error.startswith("a.m: no node 'polcy'; did you mean 'policy'? (known: a, kl, ")


def test_a_typo_behind_a_dot_names_place_and_text():
    (error,) = errors_of(policy={"_target_": KEEP}, a={"_target_": KEEP, "m": "${policy.hed}"})

    assert error.startswith("a.m is ${policy.hed}: ")
    assert "hed" in error.removeprefix("a.m is ${policy.hed}: ")


def test_a_typo_in_a_stage_list_names_the_nearest_node():
    (error,) = errors_of(reward=NOTHING, phases={"main": {"steps": 1, "stages": ["rewad"]}})

    assert error.startswith("phases.main.stages[0]: no node 'rewad'; did you mean 'reward'?")


def test_a_cycle_names_every_node_of_it():
    errors = errors_of(a={"_target_": KEEP, "b": "${b}"}, b={"_target_": KEEP, "a": "${a}"})

    assert errors == ["circular: a -> a.b -> b -> b.a -> a"]


def test_a_node_that_holds_itself_is_a_cycle():
    assert errors_of(a={"_target_": KEEP, "me": "${a}"}) == [
        "circular: a.me -> a -> a.me: it holds itself; is its option for another node, "
        "a@NODE=OPTION?"
    ]


def test_a_reference_to_its_own_place_is_a_cycle():
    assert errors_of(a="${a}") == ["circular: a -> a"]


def test_an_option_that_shares_a_part_of_what_it_replaces_is_told_once():
    shared = {"_target_": KEEP, "reduction": "${loss.reduction}"}

    (error,) = errors_of(losses={"kl": shared}, loss=shared)

    assert error.startswith("loss.reduction is ${loss.reduction}, itself: ")


def test_a_stage_that_runs_itself_is_a_cycle():
    errors = errors_of(loop={"_target_": "rlcomp.run.stages.Sequence", "stages": ["loop"]})

    (error,) = errors
    assert error.startswith("circular: loop -> ")
    assert error.endswith(" -> loop")


@pytest.mark.parametrize("key", ["_recursive_", "_convert_", "_args_", "_partail_"])
def test_a_reserved_key_that_means_nothing_here_is_refused_by_name(key):
    (error,) = errors_of(a={"_target_": KEEP, key: False})

    assert error.startswith(f"a.{key} is False: only _target_, _partial_ and _keys_ are understood")


def test_a_partial_node_is_called_later_with_what_is_left():
    made = built(
        base={"_target_": KEEP}, late={"_target_": KEEP, "_partial_": True, "base": "${base}"}
    )

    finished = made["late"](width=3)

    assert finished.base is made["base"]
    assert finished.width == 3


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("maybe", "a._partial_ is 'maybe': must be true or false"),
        (1, "a._partial_ is 1: must be true or false"),
        (None, "a._partial_ is None: must be true or false"),
        ("???", "a._partial_ is missing (???): set it with a._partial_=..."),
    ],
)
def test_whether_a_node_is_partial_is_told_by_true_or_false(value, told):
    assert errors_of(a={"_target_": KEEP, "_partial_": value}) == [told]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("reward", "a._keys_ is 'reward': must be a mapping of keys"),
        ({"reward": 3}, "a._keys_.reward is 3: must be the name of a key"),
        ({"reward": ""}, "a._keys_.reward is '': must be the name of a key"),
        ("???", "a._keys_ is missing (???): set it with a._keys_=..."),
    ],
)
def test_new_names_of_keys_are_a_mapping_of_texts(value, told):
    assert errors_of(a={"_target_": KEEP, "_keys_": value}) == [told]


def test_a_partial_node_makes_a_new_object_at_every_call():
    late = built(late={"_target_": KEEP, "_partial_": True})["late"]

    assert late() is not late()


def test_a_partial_class_that_refuses_its_arguments_later_names_its_node():
    late = built(late={"_target_": "config_factories.Refuse", "_partial_": True})["late"]

    with pytest.raises(ConfigError, match=r"^late \(config_factories.Refuse\): low is 1: too low"):
        late(low=1)


def test_what_goes_wrong_in_a_partial_function_is_no_mistake_of_the_config():
    late = built(late={"_target_": "config_factories.refuse", "_partial_": True})["late"]

    with pytest.raises(ValueError, match=r"^low is 1: too low") as caught:
        late(low=1)

    assert type(caught.value) is ValueError


@pytest.mark.parametrize("target", ["subprocess.run", "builtins.eval", "os.system"])
def test_hydras_block_list_holds(target):
    with pytest.raises(ConfigError, match=rf"^a\._target_ is {target}: "):
        built(a={"_target_": target})


def test_a_module_that_is_not_there_names_node_and_target():
    with pytest.raises(
        ConfigError, match=r"^a\._target_ is no_such_package\.Thing: .*no_such_package"
    ):
        built(a={"_target_": "no_such_package.Thing"})


@pytest.mark.parametrize("target", ["Thing", 3, None])
def test_a_target_without_a_module_is_refused(target):
    (error,) = errors_of(a={"_target_": target})

    assert error == f"a._target_ is {target!r}: must be package.module.Name"


def test_an_argument_a_constructor_refuses_names_node_and_target():
    with pytest.raises(
        ConfigError,
        match=r"^loss \(config_factories.refuse\): low is -1: too low; change one of loss\.low=-1$",
    ):
        built(loss={"_target_": "config_factories.refuse", "low": -1})


def test_an_unknown_argument_names_the_node():
    with pytest.raises(ConfigError, match=r"^kl: Nothing: .*clip_hi"):
        built(kl={**NOTHING, "clip_hi": 1})


def test_independent_mistakes_are_told_at_once():
    with pytest.raises(ConfigErrors) as caught:
        plan_or_raise(
            config(
                policy={"_target_": KEEP, "n": "???"},
                a={"_target_": KEEP, "m": "${polcy}", "_recursive_": False},
                phases={"main": {"steps": "ten", "stages": ["lerner"]}},
            )
        )

    told = caught.value.messages
    for fragment in (
        "policy.n is missing",
        "a.m: no node 'polcy'",
        "a._recursive_",
        "'ten'",
        "'lerner'",
    ):
        assert sum(fragment in message for message in told) == 1
    assert len(told) == 5


@pytest.mark.parametrize(
    ("phases", "told"),
    [
        ({}, "phases is empty: a run needs at least one phase; choose a recipe: recipe=grpo"),
        (None, "phases: a run needs phases; choose a recipe: recipe=grpo"),
        ({"rl": 3}, "phases.rl is 3: must be {steps: ..., stages: [...]}"),
        ({"rl": {"steps": -1, "stages": ["kl"]}}, "phases.rl.steps is -1: must be at least 0"),
        ({"rl": {"steps": True, "stages": ["kl"]}}, "phases.rl.steps is True: must be an integer"),
        ({"rl": {"stages": ["kl"]}}, "phases.rl.steps is None: must be an integer"),
        (
            {"rl": {"steps": 1, "stages": []}},
            "phases.rl.stages is []: must be a list of node names",
        ),
        ({"rl": {"steps": 1, "stages": "kl"}}, "phases.rl.stages is 'kl': must be a list of node"),
        (
            {"rl": {"steps": 1, "stages": ["kl"], "evry": {}}},
            "phases.rl.evry: unknown; did you mean",
        ),
        (
            {"rl": {"steps": 1, "stages": ["kl"], "every": {"kl": 0}}},
            "phases.rl.every.kl is 0: must be a number of steps, or null",
        ),
        ({"rl": {"steps": 1, "stages": ["kl"], "every": 3}}, "phases.rl.every is 3: must be {eval"),
    ],
)
def test_a_phase_that_makes_no_sense_says_what_it_must_be(phases, told):
    (error,) = errors_of(phases=phases)

    assert error.startswith(told)


def test_a_stage_that_is_no_part_is_refused():
    (error,) = errors_of(width=3, phases={"main": {"steps": 1, "stages": ["width"]}})

    assert error.startswith("phases.main.stages[0]: 'width' is 3, no part with a _target_")


def test_an_empty_slot_in_a_stage_list_is_refused():
    (error,) = errors_of(slot=None, phases={"main": {"steps": 1, "stages": ["slot"]}})

    assert error.startswith("phases.main.stages[0]: 'slot' is None, no part with a _target_")


def test_a_period_of_null_switches_off():
    plan = plan_or_raise(
        config(phases={"m": {"steps": 1, "stages": ["kl"], "every": {"kl": None}}})
    )

    assert plan.phases["m"].every == {}


def test_strings_in_a_list_called_stages_are_nodes_at_any_depth():
    made = built(
        both={
            "_target_": "rlcomp.run.stages.Sequence",
            "stages": [{"_target_": "rlcomp.run.stages.Sequence", "stages": ["kl"]}, "kl"],
        }
    )

    assert isinstance(made["both"], Sequence)
    assert made["both"].stages[0].stages[0] is made["kl"] is made["both"].stages[1]


def test_strings_in_any_other_list_are_text():
    assert built(user={"_target_": KEEP, "names": ["kl"]})["user"].names == ["kl"]


def test_renames_reach_the_component():
    made = built(
        part={
            "_target_": "components.advantage.group.GroupMean",
            "_keys_": {"reward": "shaped"},
        }
    )

    assert "shaped" in made["part"].in_keys
    assert "reward" not in made["part"].in_keys


def test_models_are_built_after_everything_that_needs_none():
    plan = plan_or_raise(
        config(
            policy={"_target_": KEEP, "model": "${model}"},
            model={"_target_": "rlcomp.model.build.causal_lm"},
            task={"_target_": KEEP},
        )
    )

    assert [name for name, node in plan.nodes.items() if builds_model(node)] == ["policy", "model"]


def test_what_a_node_draws_at_construction_depends_on_its_name_only():
    def linear(**others):
        node = {"_target_": "torch.nn.Linear", "in_features": 2, "out_features": 2}
        return built(**others, layer=node)["layer"].weight

    other = {"_target_": "torch.nn.Linear", "in_features": 5, "out_features": 5}

    assert torch.equal(linear(), linear(before=other))


def test_by_hand_a_node_is_the_one_a_config_makes():
    by_config = built(layer={"_target_": "torch.nn.Linear", "in_features": 2, "out_features": 2})
    make = Make(seed=0)

    by_hand = make("layer", torch.nn.Linear, in_features=2, out_features=2)

    assert torch.equal(by_config["layer"].weight, by_hand.weight)
    assert make.nodes == {"layer": by_hand}


def test_by_hand_a_name_is_given_once():
    make = Make(seed=0)
    make("kl", Nothing)

    with pytest.raises(
        ConfigError, match="there is already a node 'kl': give this one another name"
    ):
        make("kl", Nothing)
