"""A default is what an option says: by hand one gets what a config gets."""

import functools
import importlib
import inspect
import re
from pathlib import Path

import pytest
import yaml
from omegaconf._utils import get_yaml_loader

CONF = Path(__file__).resolve().parents[1] / "conf"
# A constant rate by hand; every option of ours falls to something. And torchrl's own default.
OWN = {
    ("rlcomp.model.optimizer.Schedule", "final"),
    ("components.loss.transitions.SACWithoutTargetEntropy", "alpha_init"),
}


def nodes(value):
    """Everything with a ``_target_`` in a file, its arguments as they are written."""
    if isinstance(value, dict):
        if "_target_" in value:
            yield value
        value = list(value.values())
    for item in value if isinstance(value, list) else []:
        yield from nodes(item)


@functools.cache
def written():
    """By target and argument: the values that options give it."""
    found = {}
    for file in CONF.rglob("*.yaml"):
        for node in nodes(yaml.load(file.read_text(), get_yaml_loader())):
            for name, value in node.items():
                if not isinstance(value, (dict, list)) and "${" not in str(value):
                    found.setdefault(node["_target_"], {}).setdefault(name, set()).add(value)
    return {name: found[name] for name in found if name.startswith(("rl", "comp"))}


def targets():
    """The names alone: the yaml of every option takes a second, in each process that collects."""
    texts = (file.read_text() for file in CONF.rglob("*.yaml"))
    names = (name for text in texts for name in re.findall(r"\b_target_: *([\w.]+)", text))
    return sorted({name for name in names if name.startswith(("rl", "comp"))})


def parameters_of(target):
    """Return the arguments of a function or of a constructor, which a metaclass hides."""
    module, _, name = target.rpartition(".")
    part = getattr(importlib.import_module(module), name)
    return inspect.signature(part.__init__ if inspect.isclass(part) else part).parameters


@pytest.mark.parametrize("target", targets())
def test_a_default_is_the_value_of_an_option(target):
    values = written()[target]

    for argument in parameters_of(target).values():
        default = argument.default
        optional = default in (inspect.Parameter.empty, None) or not isinstance(
            default, (bool, int, float, str)
        )
        if not optional and argument.name in values and (target, argument.name) not in OWN:
            assert default in values[argument.name], argument.name


# Which of its values is meant is a matter of the option: a suite's, a recipe's, a size's.
BY_OPTION = {
    ("components.evaluator.accuracy.Accuracy", "max_new_tokens"),
    ("rlcomp.run.stages.Repeat", "times"),
    ("rlcomp.model.build.causal_lm", "hidden_size"),
    ("rlcomp.model.build.causal_lm", "num_hidden_layers"),
    ("rlcomp.model.build.causal_lm", "intermediate_size"),
}


@pytest.mark.parametrize("target", targets())
def test_a_value_that_an_option_gives_has_a_default_by_hand(target):
    parameters = parameters_of(target)

    without = {
        argument
        for argument, values in written()[target].items()
        if argument in parameters
        and parameters[argument].default is inspect.Parameter.empty
        and values != {"???"}
        and (target, argument) not in BY_OPTION
    }

    assert not without


def test_the_options_give_some_hundred_defaults():
    assert targets() == sorted(written())
    assert sum(map(len, written().values())) > 300
