from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from rlcomp.arguments import Unbuilt
from rlcomp.config import build
from rlcomp.config.build import make
from rlcomp.config.compose import compose_config
from rlcomp.config.reader import Node
from rlcomp.errors import ConfigError


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        return tmp_path / f"{name}.py"

    return write


def test_what_fails_in_a_users_module_is_told_with_its_line(own):
    file = own("own_failing", "import math\n\nlimit = math.sqrt(-1)\nclass Mine: ...\n")

    with pytest.raises(ConfigError) as told:
        make(Node("slot", "own_failing.Mine"), {}, 0)
    message = str(told.value)
    assert message.startswith("slot._target_ is own_failing.Mine: ValueError: ")
    assert message.endswith(f"({file}, line 3)")


def test_of_a_name_that_a_module_lacks_no_line_of_ours_is_told(own):
    own("own_empty", "")

    with pytest.raises(ConfigError) as told:
        make(Node("slot", "own_empty.Mine"), {}, 0)
    assert "line" not in str(told.value)
    assert str(told.value).startswith("slot._target_ is own_empty.Mine: ")


def test_a_config_is_composed_where_no_app_has_registered_resolvers():
    OmegaConf.clear_resolver("now")

    compose_config([])
    assert OmegaConf.has_resolver("now")


@pytest.mark.parametrize(
    ("annotation", "argument", "handed"),
    [
        (Unbuilt | None, "one", ["one"]),
        (Unbuilt | None, "partial", []),
        (int | None, "one", []),
        (dict[str, Unbuilt], "both", ["one", "two"]),
        (dict[str, int | Unbuilt] | None, "both", ["one", "two"]),
        (dict[str, int] | None, "both", []),
        # All of them or none: what is made and what is not would stand beside one another.
        (dict[str, int | Unbuilt] | None, "mixed", []),
        (dict[str, int | Unbuilt] | None, "half", []),
        (dict[str, int | Unbuilt] | None, "one", []),
        (Unbuilt | None, "both", []),
    ],
)
def test_descriptions_are_handed_over_where_they_are_asked_for(
    annotation, argument, handed, monkeypatch
):
    parameters = {"a": SimpleNamespace(annotation=annotation)}
    monkeypatch.setattr(
        "rlcomp.config.declarations.read_declaration",
        lambda target: SimpleNamespace(parameters=parameters),
    )
    one, two, late = Node("one", "t"), Node("two", "t"), Node("late", "t", partial=True)
    values = {
        "one": one,
        "partial": late,
        "both": {"x": one, "y": two},
        "mixed": {"x": one, "y": 3},
        "half": {"x": one, "y": late},
    }

    found = build._unbuilt_nodes(Node("n", "t", {"a": values[argument]}), "a")

    assert [node.path for node in found] == handed
