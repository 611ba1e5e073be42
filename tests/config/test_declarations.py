"""Declarations of classes, read from source."""

import ast
import subprocess
import sys
from typing import Any, Literal, get_args, get_origin

import pytest

from rlcomp.arguments import PositiveInt
from rlcomp.config.declarations import forward_reads, read_declaration
from rlcomp.errors import ConfigError
from rlcomp.keys import Spec, lookup

SOURCE = '''
"""A user's own parts."""
from __future__ import annotations
import dataclasses
import json as js
from dataclasses import dataclass
from typing import Literal
from rlcomp.component import Component
from rlcomp.arguments import PositiveInt
from .other import Distant as Distant, Foreign, remade as renamed
from rlcomp.interfaces.loss import LossPart
from elsewhere.nowhere import Unfollowed

if True:
    class Hidden(Component):
        reads = ("reward",)
try:
    from .other import Tried
except ImportError:
    Tried = None

class Base(Component):
    """The base."""
    reads = ("reward",)
    writes: tuple = ("advantage",)
    min_group_size = 2

    def __init__(self, *, size: PositiveInt, name: Literal["a", "b"] = "a", free: Foreign = None):
        ...

class Child(Base):
    writes = ("advantage", "returns")
    fresh = True
    contained = True
    exclusive = "kl"
    runs = ("stages",)

class OwnArguments(Base):
    def __init__(self, first, *rest, second=1):
        ...

class Loose(Base):
    def __init__(self, *, size, **rest):
        ...

class Empty(Component):
    """Neither reads nor writes."""

class Plain:
    def __init__(self, width, height=2):
        ...

class Bare:
    pass

class FromUnfollowed(Unfollowed):
    pass

@dataclass(frozen=True)
class Size:
    width: int
    height: int = 2

@dataclasses.dataclass
class Called:
    width: PositiveInt

def build(*, path: str, seed: int = 0):
    """Build it."""

class Computed(Component):
    reads = tuple(sorted(["reward"]))

alias = Base

class Starred(Base):
    reads = (*Base.reads, *Distant.writes, "group_id")
    writes = (*Child.writes,)
    optional = (*SOME, "correct")
    may_write = Distant.writes

class OwnKeys(Component):
    keys = {"declared_note": ("B", "int64", "a note"), **Distant.keys}
    reads = ("declared_note",)

class MoreKeys(OwnKeys):
    keys = {"declared_more": ("B", "float", "more", {"per_prompt": True})}
    writes = ("declared_more", "declared_far")
    keeps_prompt = True

class Circular(Component):
    reads = (*Circular.reads,)

class Nowhere(Component):
    reads = (*Base.absent,)

class Unknown(Component):
    reads = ("rewrad",)

class UnknownStep(LossPart):
    step_keys = ("rewrad",)

SOME: tuple = ("truncated",)
'''
OTHER = """
from rlcomp.component import Component

class Distant(Component):
    keys = {"declared_far": ("B", "int64", "declared elsewhere")}
    writes = ("value", "returns")

class Foreign:
    def __init__(self, x):
        ...

class Tried:
    def __init__(self, y):
        ...

def remade(z):
    ...
"""


@pytest.fixture(scope="module", autouse=True)
def package(tmp_path_factory):
    place = tmp_path_factory.mktemp("declared")
    folder = place / "declared_parts"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (folder / "parts.py").write_text(SOURCE)
    (folder / "other.py").write_text(OTHER)
    (place / "lazy_parts.py").write_text("def __getattr__(name):\n    return int\n")
    (place / "broken_parts.py").write_text("x = 1\nclass Thing(\n")
    sys.path.append(str(place))
    yield
    sys.path.remove(str(place))


def of(name):
    return read_declaration(f"declared_parts.parts.{name}")


def test_reads_and_writes_are_literals_of_the_class():
    found = of("Base")

    assert (found.reads, found.writes, found.min_group_size) == (("reward",), ("advantage",), 2)
    assert (found.fresh, found.contained, found.runs, found.exclusive) == (False, False, (), "")
    assert not found.opaque
    assert found.doc == "The base."


def test_a_subclass_inherits_what_it_does_not_declare_itself():
    found = of("Child")

    assert found.reads == ("reward",)
    assert found.writes == ("advantage", "returns")
    assert (found.fresh, found.contained, found.runs) == (True, True, ("stages",))
    assert (found.min_group_size, found.exclusive) == (2, "kl")


def test_the_constructor_is_read_with_annotations_and_defaults():
    found = of("Base").parameters

    assert list(found) == ["size", "name", "free"]
    assert found["size"].annotation == PositiveInt
    assert get_origin(found["name"].annotation) is Literal
    assert get_args(found["name"].annotation) == ("a", "b")
    assert found["free"].annotation is Any
    assert [parameter.required for parameter in found.values()] == [True, False, False]


def test_the_constructor_is_inherited():
    assert list(of("Child").parameters) == ["size", "name", "free"]


def test_an_own_constructor_hides_the_inherited_one():
    found = of("OwnArguments")

    assert {name: p.required for name, p in found.parameters.items()} == {
        "first": True,
        "second": False,
    }
    assert not found.open_ended


def test_keyword_arguments_without_end_are_seen():
    assert of("Loose").open_ended
    assert not of("Base").open_ended


def test_a_component_without_keys_is_known_to_have_none():
    found = of("Empty")

    assert (found.reads, found.writes, found.opaque, found.open_ended) == ((), (), False, False)


def test_a_class_that_is_no_component_is_opaque_but_its_arguments_are_known():
    found = of("Plain")

    assert found.opaque
    assert {name: p.required for name, p in found.parameters.items()} == {
        "width": True,
        "height": False,
    }


def test_a_class_without_a_constructor_takes_nothing():
    assert (of("Bare").parameters, of("Bare").open_ended) == ({}, False)


def test_a_class_whose_base_cannot_be_followed_takes_anything():
    assert of("FromUnfollowed").open_ended


@pytest.mark.parametrize(("name", "required"), [("Size", [True, False]), ("Called", [True])])
def test_the_fields_of_a_dataclass_are_its_arguments(name, required):
    found = of(name).parameters

    assert list(found) == ["width", "height"][: len(required)]
    assert [parameter.required for parameter in found.values()] == required


def test_a_function_is_read_like_a_constructor():
    found = of("build")

    assert {name: p.required for name, p in found.parameters.items()} == {
        "path": True,
        "seed": False,
    }
    assert (found.name, found.doc, found.opaque) == ("build", "Build it.", True)


@pytest.mark.parametrize(("name", "argument"), [("Foreign", "x"), ("renamed", "z"), ("Tried", "y")])
def test_a_name_imported_from_elsewhere_is_followed(name, argument):
    assert list(of(name).parameters) == [argument]


def test_definitions_inside_if_and_try_are_found():
    assert of("Hidden").reads == ("reward",)


def test_a_name_that_is_assigned_is_opaque_and_takes_anything():
    found = of("alias")

    assert found.opaque
    assert found.open_ended


def test_a_module_that_exports_lazily_is_opaque():
    assert read_declaration("lazy_parts.Anything").opaque


def test_a_lazily_exported_name_of_our_own_is_followed_or_opaque_never_refused():
    assert read_declaration("rlcomp.Sampling").name == "Sampling"


@pytest.mark.parametrize(
    "target", ["builtins.dict", "math.sqrt", "torch.Tensor", "torch.nn.Linear"]
)
def test_what_has_no_readable_source_is_no_error(target):
    assert read_declaration(target).opaque


def test_torchs_optimizers_arguments_are_known():
    found = read_declaration("torch.optim.AdamW").parameters

    assert found["params"].required
    assert not found["lr"].required


def test_keys_that_are_computed_are_refused_by_name():
    with pytest.raises(ConfigError, match=r"^Computed\.reads is not a literal: write it out"):
        of("Computed")


def test_a_starred_attribute_of_another_class_is_followed():
    found = of("Starred")

    assert found.reads == ("reward", "value", "returns", "group_id")
    assert found.writes == ("advantage", "returns")
    assert found.optional == ("truncated", "correct")
    assert found.may_write == ("value", "returns")


def test_own_keys_are_added_to_those_of_the_bases():
    found = of("MoreKeys")

    assert list(found.keys) == ["declared_note", "declared_far", "declared_more"]
    assert found.keeps_prompt
    assert lookup("declared_far") == Spec("B", "int64", "declared elsewhere")
    assert lookup("declared_more") == Spec("B", "float", "more", per_prompt=True)


@pytest.mark.parametrize("name", ["Circular", "Nowhere"])
def test_a_starred_attribute_that_leads_nowhere_is_refused(name):
    with pytest.raises(ConfigError, match=rf"^{name}\.reads is not a literal: write it out"):
        of(name)


@pytest.mark.parametrize("name", ["Unknown", "UnknownStep"])
def test_an_unknown_key_is_refused_with_the_nearest(name):
    with pytest.raises(ConfigError, match=rf"^{name}: 'rewrad' is .* did you mean 'reward'"):
        of(name)


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(
        ConfigError,
        match=r"^'declared_parts\.parts' has no 'Bsae'; did you mean 'Base'\? \(known: ",
    ):
        of("Bsae")


def test_an_unknown_module_suggests_the_nearest():
    with pytest.raises(
        ConfigError,
        match=r"^there is no module 'pats' in 'declared_parts\.pats'; did you mean 'parts'\?",
    ):
        read_declaration("declared_parts.pats.Base")


def test_a_module_that_is_no_python_names_file_and_line():
    with pytest.raises(ConfigError, match=r"broken_parts\.py, line 2: "):
        read_declaration("broken_parts.Thing")


def test_an_unknown_package_is_named():
    with pytest.raises(
        ConfigError, match=r"^there is no package 'nopackage' \(from 'nopackage\.x'\)"
    ):
        read_declaration("nopackage.x.Y")


def test_every_target_of_ours_is_read_without_importing_torch():
    # The package's __init__ above would raise if it were imported; here the same for ours.
    code = """
import re, sys
from rlcomp.config.declarations import read_declaration
from rlcomp.config.options import config_directory, options_writing
for file in config_directory().glob("**/*.yaml"):
    for target in re.findall(r"(?m)^ *_target_:\\s*(\\S+)", file.read_text()):
        read_declaration(target)
assert "reference=frozen" in options_writing("ref_log_probs"), options_writing("ref_log_probs")
assert not {"torch", "tensordict", "transformers", "components.loss"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


STAGES = """
import rlcomp.component
from rlcomp.component import Component
from elsewhere.nowhere import Unseen

class Part(Component):
    reads = ("reward",)

class PartOfPart(Part):
    class Inner:
        def forward(self, batch): ...

class Stage(Component):
    def forward(self, batch): ...

class Heir(Part, Stage): ...

class Borrowed(Component):
    forward = Stage.forward

class OverUnseen(Unseen, Component): ...

class OverDotted(rlcomp.component.Component, Part): ...

class NoComponent: ...
"""


@pytest.mark.parametrize(
    ("name", "runnable"),
    [
        ("Part", False),
        ("PartOfPart", False),
        ("Stage", True),
        ("Heir", True),
        ("Borrowed", True),
        ("OverUnseen", True),  # what it inherits is not known
        ("OverDotted", True),
        ("NoComponent", True),  # looked at once it is built
    ],
)
def test_a_component_without_forward_is_no_stage(name, runnable, tmp_path, monkeypatch):
    (tmp_path / "own_stages.py").write_text(STAGES)
    monkeypatch.syspath_prepend(str(tmp_path))

    assert read_declaration(f"own_stages.{name}").runnable == runnable


def lineage(*texts):
    return [("m", ast.parse(text).body[0]) for text in texts]


def forward(*lines):
    return "class A:\n    def forward(self, batch, other=None):\n" + "".join(
        f"        {line}\n" for line in lines
    )


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("x = batch['a'] + batch['b'] * batch['a']", ("a", "b")),
        ("batch['a'] = 1", ()),
        ("del batch['a']", ()),
        ("batch['a'] = batch['b']", ("b",)),
        ("x = other['a']", ()),
        ("x = self['a']", ()),
        ("x = batch[0]", ()),
        ("x = batch[name]", ()),
        ("x = batch.inner['a']", ()),
        ("x = batch['loss_weight'] + batch['row_weight'] + batch['c']", ("c",)),
        ("x = [batch['a'] for y in batch]", ("a",)),
    ],
)
def test_a_key_is_read_where_the_batch_is_asked_for_it(line, keys):
    assert forward_reads(lineage(forward(line))) == keys


def test_the_first_forward_of_a_lineage_counts_and_other_methods_do_not():
    other = "class B:\n    size = 3\n    def helper(self, batch):\n        return batch['h']\n"
    first, second = forward("return batch['a']"), forward("return batch['b']")

    assert forward_reads(lineage(other)) == ()
    assert forward_reads(lineage(other, first, second)) == ("a",)
    assert forward_reads(lineage("class C:\n    forward = None\n", second)) == ("b",)
    assert forward_reads([]) == ()
    assert forward_reads(lineage("class D:\n    def forward():\n        return batch['a']\n")) == ()
