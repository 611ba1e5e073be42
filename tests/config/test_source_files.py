import sys

import pytest

from rlcomp.config.source import source_of
from rlcomp.config.source_files import source_files

SOURCES = {
    "mine_of_this_test/__init__.py": "",
    "mine_of_this_test/reward.py": "import json\nfrom .words import near\nfrom torch import nn\n",
    "mine_of_this_test/words.py": "def f():\n    import beside_of_this_test as b\n",
    "mine_of_this_test/unused.py": "",
    "beside_of_this_test.py": "import mine_of_this_test.reward\nimport not_there_at_all.x\n",
    "space_of_this_test/deep/part.py": "from rlcomp import Component\n",
    "broken_of_this_test.py": "def (",
}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    source_of.cache_clear()
    yield tmp_path
    source_of.cache_clear()


def found(mine, dotted):
    return {file.relative_to(mine).as_posix() for file in source_files(dotted)}


def test_they_are_the_module_its_packages_and_what_it_imports_of_the_users(mine):
    assert found(mine, "mine_of_this_test.reward.Judge") == {
        "mine_of_this_test/__init__.py",
        "mine_of_this_test/reward.py",
        "mine_of_this_test/words.py",
        "beside_of_this_test.py",
    }


def test_a_name_of_gymnasium_is_a_module_and_an_id(mine):
    assert found(mine, "space_of_this_test.deep.part:Maze-v0") == {
        "space_of_this_test/deep/part.py"
    }
    assert "beside_of_this_test.py" in found(mine, "beside_of_this_test:Maze-v0")


def test_a_package_need_not_have_a_file_of_its_own(mine):
    assert found(mine, "space_of_this_test.deep.part.Part") == {"space_of_this_test/deep/part.py"}


@pytest.mark.parametrize(
    "text",
    [
        "torch.optim.AdamW",
        "json.loads",
        "rlcomp.model.language_model.LanguageModel",
        "components.reward.answer.ExactMatch",
        "sys.exit",
        "not_there_at_all.f",
        "broken_of_this_test.f",
        "mine_of_this_test",
        "a text. With a dot",
        "beside_of_this_test: what follows",
        "." * 9,
        "a" * 100_000,
        "",
    ],
)
def test_what_is_installed_or_no_module_has_none(mine, text):
    assert source_files(text) == []
    assert "mine_of_this_test" not in sys.modules
