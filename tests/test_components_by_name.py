"""Every part can be imported by its class's name alone."""

import inspect
import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

import components


def public():
    for found in pkgutil.walk_packages(components.__path__, "components."):
        module = import_module(found.name)
        for name, one in inspect.getmembers(module, inspect.isclass):
            if one.__module__ == module.__name__ and not name.startswith("_"):
                yield name, one


def test_each_name_gives_its_class():
    parts = list(public())
    names = [name for name, _ in parts]
    once = [(name, one) for name, one in parts if names.count(name) == 1]

    assert len(once) > 150
    for name, one in once:
        assert getattr(components, name) is one


def test_a_name_in_two_concepts_is_told():
    told = r"Countdown is in components\.reward\.countdown and in components\.task\.countdown"
    with pytest.raises(AttributeError, match=told):
        components.Countdown  # noqa: B018


@pytest.mark.parametrize("name", ["NoSuchPart", "_homes2", "group_mean", "a.b", "Group.*"])
def test_what_is_no_part_is_no_attribute(name):
    with pytest.raises(AttributeError, match=r"module 'components' has no attribute"):
        getattr(components, name)


def test_only_what_is_asked_for_is_imported():
    code = (
        "import sys, components; assert 'torch' not in sys.modules;"
        "from components import GroupMean;"
        "assert 'components.advantage.group_mean' in sys.modules;"
        "assert 'components.loss.policy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
