"""Parts by the names of their classes, where a name is one, two or none."""

import pytest

import components
from components.advantage.group_mean import GroupMean


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """Two concepts: a class of one name in both, and one of its own."""
    for name, text in {
        "reward/boxed.py": "class Boxed:\n    pass\n\n\nclass _Inner:\n    pass\n",
        "task/boxed.py": "class Boxed:\n    pass\n",
        "task/sorting.py": "class Sorting:\n    class Deep:\n        pass\n",
        "__pycache__/x.txt": "",
        "notes.txt": "class Noted:\n    pass\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(components, "_HERE", tmp_path)
    components._classes.cache_clear()
    yield
    components._classes.cache_clear()


def test_a_name_of_one_class_is_that_class():
    assert components.GroupMean is GroupMean


def test_classes_are_found_by_their_modules(parts):
    assert components._classes() == {
        "Boxed": ["components.reward.boxed", "components.task.boxed"],
        "_Inner": ["components.reward.boxed"],
        "Sorting": ["components.task.sorting"],
    }


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "Boxed",
            "there is a Boxed in reward and task: from components.reward.boxed import Boxed or "
            "from components.task.boxed import Boxed",
        ),
        ("Sortin", "module 'components' has no attribute 'Sortin'; did you mean 'Sorting'?"),
        ("sort_ing", "module 'components' has no attribute 'sort_ing'; did you mean 'Sorting'?"),
        ("rewards", "module 'components' has no attribute 'rewards'; did you mean 'reward'?"),
        ("_Inner", "module 'components' has no attribute '_Inner'"),
        ("pycache", "module 'components' has no attribute 'pycache'"),
        ("Deep", "module 'components' has no attribute 'Deep'"),
    ],
)
def test_a_name_of_none_or_two_says_what_to_write(parts, name, told):
    with pytest.raises(AttributeError) as error:
        getattr(components, name)

    assert str(error.value) == told


def test_an_import_of_a_name_that_is_none_says_the_same():
    finder = components._Names.find_spec

    with pytest.raises(ImportError, match="did you mean 'GroupMean'") as error:
        finder("components.GroupMeen")
    assert error.value.name == "components.GroupMeen"
    with pytest.raises(ImportError, match="there is a Countdown in reward and task"):
        finder("components.Countdown")
    for other in ("components.zzz", "torch.GroupMeen", "components.reward.GroupMeen", "GroupMeen"):
        assert finder(other) is None


def test_a_part_that_cannot_be_imported_says_why(monkeypatch):
    def broken(name):
        raise AttributeError("it is gone")

    monkeypatch.setattr(components.importlib, "import_module", broken)

    with pytest.raises(ImportError, match=r"group_mean cannot be imported: it is gone"):
        _ = components.GroupMean
