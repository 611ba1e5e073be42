"""A collector made by hand has the values of the option that a config chooses."""

import importlib
import inspect
from pathlib import Path

import pytest
import yaml

from components.collector.branching import VineCollector
from components.collector.delay import DelayedCollector
from components.collector.mask_game import MaskGame

CONF = Path(__file__).resolve().parents[3] / "conf" / "collector"


def defaults(kind):
    """Argument and value, of those that are numbers or texts."""
    found = {name: one.default for name, one in inspect.signature(kind.__init__).parameters.items()}
    return {name: value for name, value in found.items() if isinstance(value, (int, float, str))}


def options():
    """The class of every option, and what is written there."""
    for file in sorted(CONF.glob("*.yaml")):
        node = yaml.safe_load(file.read_text())
        module, _, name = str(node.get("_target_", "")).rpartition(".")
        if module.startswith("components.collector."):
            yield getattr(importlib.import_module(module), name), node


def test_a_default_is_the_value_of_an_option():
    for kind, node in options():
        for name, value in defaults(kind).items():
            if "${" not in str(node.get(name, "${")):
                assert node[name] == value, (kind, name)


@pytest.mark.parametrize(
    ("kind", "count"), [(DelayedCollector, 1), (VineCollector, 2), (MaskGame, 6)]
)
def test_options_have_defaults(kind, count):
    assert len(defaults(kind)) >= count
