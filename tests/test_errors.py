import ast
from pathlib import Path

import pytest

from rlcomp import errors
from rlcomp.errors import ConfigErrors, MissingExtra, UserError, nearest, require


@pytest.mark.parametrize(
    "kind", ["ConfigError", "FlowError", "DataError", "ShapeError", "MissingExtra"]
)
def test_what_a_user_can_cause_is_a_value_error(kind):
    assert issubclass(getattr(errors, kind), UserError)
    assert issubclass(UserError, ValueError)


def test_a_numerical_error_is_not_the_users():
    assert not issubclass(errors.NumericalError, UserError)


def test_nearest_offers_the_close_name_and_lists_all():
    assert nearest("rewrad", ["value", "reward"]) == (
        "; did you mean 'reward'? (known: reward, value)"
    )


def test_nearest_offers_nothing_when_nothing_is_close():
    assert nearest("xyz", ["reward"]) == " (known: reward)"


def test_nearest_says_that_nothing_is_known():
    assert nearest("xyz", []) == " (known: none)"


def test_several_mistakes_are_told_at_once_and_once_each():
    error = ConfigErrors(["first", "second", "first"])

    assert str(error) == "first\nsecond"


def test_a_missing_dependency_names_its_extra():
    with pytest.raises(MissingExtra, match=r"pip install 'rlcomp\[data\]'"):
        require("no_such_module_anywhere", "data")


def test_every_extra_that_a_message_names_exists():
    root = Path(__file__).parents[1]
    project = (root / "pyproject.toml").read_text()
    section = project.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    extras = {line.partition(" = ")[0] for line in section.splitlines()}
    files = [file for room in ("rlcomp", "components") for file in (root / room).rglob("*.py")]
    named = {
        (file.name, call.args[1].value)
        for file in files
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and getattr(call.func, "id", "") == "require"
        and len(call.args) == 2
        and isinstance(call.args[1], ast.Constant)
    }

    assert ("minari.py", "data") in named
    assert {(file, extra) for file, extra in named if extra not in extras} == set()


def test_a_dependency_that_is_there_is_imported():
    assert require("json", "data").dumps([1]) == "[1]"


def test_a_broken_dependency_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import a_part_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModuleNotFoundError, match="a_part_that_is_not_there"):
        require("half_installed", "data")
