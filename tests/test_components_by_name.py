"""Every part can be imported by its class's name alone."""

import ast
import inspect
import pkgutil
import runpy
import subprocess
import sys
from collections import Counter, defaultdict
from importlib import import_module
from pathlib import Path

import pytest

import components

ROOT = Path(__file__).resolve().parents[1]


def public():
    for found in pkgutil.walk_packages(components.__path__, "components."):
        module = import_module(found.name)
        for name, one in inspect.getmembers(module, inspect.isclass):
            if one.__module__ == module.__name__ and not name.startswith("_"):
                yield name, one


def test_each_name_gives_its_class():
    parts = list(public())

    assert len(parts) > 150
    for name, part in parts:
        assert getattr(components, name) is part, name


def test_a_name_is_that_of_one_class():
    counts = Counter(name for name, _ in public())

    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [("GroupMeen", "GroupMean"), ("group_mean_std", "GroupMeanStd"), ("rewards", "reward")],
)
def test_the_nearest_name_is_suggested(name, meant):
    with pytest.raises(ImportError, match=f"did you mean '{meant}'"):
        exec(f"from components import {name}")

    assert not hasattr(components, name)


def test_a_part_that_cannot_be_imported_says_why(monkeypatch):
    def broken(name):
        raise AttributeError(f"module 'torch' has no attribute 'gone' (in {name})")

    monkeypatch.setattr(components.importlib, "import_module", broken)

    with pytest.raises(ImportError, match=r"group cannot be imported: .* 'gone'"):
        from components import GroupMean  # noqa: F401


@pytest.mark.parametrize("name", ["NoSuchPart", "_modules2", "group_mean", "a.b", "Group.*"])
def test_what_is_no_part_is_no_attribute(name):
    with pytest.raises(AttributeError, match=r"module 'components' has no attribute"):
        getattr(components, name)


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("components.loss", "PolicyLoss"),
        ("components.loss", "Clip"),
        ("components.loss.trust_region", "Clip"),
        ("components.worlds.sorting", "Sorting"),
        ("components.kl", "KLInReward"),
    ],
)
def test_a_concept_gives_its_parts_by_name_and_lists_them(package, name):
    concept = import_module(package)

    assert getattr(concept, name) is getattr(components, name)
    assert name in dir(concept)
    exec(f"from {package} import {name}")


@pytest.mark.parametrize("name", ["PolicyLos", "policyloss", "GroupMean"])
def test_a_concept_suggests_its_own_nearest_name_only(name):
    with pytest.raises(ImportError) as caught:
        exec(f"from components.loss import {name}")

    suggested = "did you mean 'PolicyLoss'?" in str(caught.value)
    assert suggested is (name != "GroupMean")
    with pytest.raises(AttributeError, match=rf"'components.loss' has no attribute '{name}'"):
        getattr(import_module("components.loss"), name)


@pytest.mark.parametrize(
    ("package", "name", "meant"),
    [
        ("components.kl", "KLInRewrd", "KLInReward"),
        ("components.filter", "varied_group_filter", "VariedGroupFilter"),
        ("components.kl", "KLLos", "components.loss.kl.KLLoss"),
        ("components.loss", "GroupMean", "components.advantage.group.GroupMean"),
    ],
)
def test_a_concept_of_one_module_suggests_too_and_a_part_of_another_concept_if_none_is_near(
    package, name, meant
):
    with pytest.raises(ImportError, match=f"{package}' has no attribute .* mean '{meant}'"):
        exec(f"from {package} import {name}")


def test_a_concept_of_one_module_has_no_submodules():
    assert import_module("components.kl").__path__ == []
    with pytest.raises(ModuleNotFoundError):
        import_module("components.kl.filter")


def test_the_stubs_of_editors_name_every_part():
    root = Path(__file__).resolve().parents[1]
    stubs = runpy.run_path(str(root / "docs" / "make_stubs.py"))["stubs"]()

    assert {path.parent for path in stubs} >= {Path("components"), Path("components/loss")}
    for path, text in stubs.items():
        assert (root / path).read_text() == text, "python docs/make_stubs.py"


def test_only_what_is_asked_for_is_imported():
    code = (
        "import sys, components; assert 'torch' not in sys.modules;"
        "from components import GroupMean;"
        "assert 'components.advantage.group' in sys.modules;"
        "assert 'components.loss.policy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("concept", ["pairwise_judge", "kl"])
def test_a_concept_is_imported_where_it_is_named(concept):
    program = f"import components; print(components.{concept}.__name__)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stdout.strip() == f"components.{concept}", done.stderr


@pytest.mark.parametrize("concept", ["reward", "kl", "worlds"])
def test_no_name_is_suggested_for_a_concept(concept):
    assert components._NearestName.find_spec(f"components.{concept}") is None


def test_a_public_class_name_stands_for_one_class_in_the_whole_tree():
    places = defaultdict(list)
    for file in sorted([*ROOT.glob("rlcomp/**/*.py"), *ROOT.glob("components/**/*.py")]):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{file}:{node.lineno}")

    assert {name: where for name, where in places.items() if len(where) > 1} == {}
