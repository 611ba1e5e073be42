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


def test_a_name_in_two_concepts_is_told_however_it_is_imported():
    told = (
        "there is a Countdown in reward and task: from components.reward.countdown import Countdown"
        " or from components.task.countdown import Countdown"
    )
    with pytest.raises(AttributeError) as one:
        components.Countdown  # noqa: B018
    with pytest.raises(ImportError) as other:
        from components import Countdown  # noqa: F401

    assert (str(one.value), str(other.value)) == (told, told)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("GroupMeen", "GroupMean"), ("group_mean_std", "GroupMeanStd"), ("rewards", "reward")],
)
def test_a_name_like_another_is_told(name, meant):
    with pytest.raises(ImportError, match=f"did you mean '{meant}'"):
        exec(f"from components import {name}")

    assert not hasattr(components, name)


def test_a_part_that_cannot_be_imported_says_why(monkeypatch):
    def broken(name):
        raise AttributeError(f"module 'torch' has no attribute 'gone' (in {name})")

    monkeypatch.setattr(components.importlib, "import_module", broken)

    with pytest.raises(ImportError, match=r"group_mean cannot be imported: .* 'gone'"):
        from components import GroupMean  # noqa: F401


def test_no_concept_has_a_name_twice():
    twice = {name: homes for name, homes in components._classes().items() if len(homes) > 1}

    for name, homes in twice.items():
        if not name.startswith("_"):
            assert len({home.split(".")[1] for home in homes}) == len(homes)


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
