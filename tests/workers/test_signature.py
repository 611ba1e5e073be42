import functools

import pytest

from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError
from rlcomp.workers.signature import Signature, read_signature


def plain(prompt, response, limit=3, *, answer):
    return 1.0


async def with_columns(response, **columns):
    return 1.0


def trl(prompts, completions, **kwargs):
    return []


class Called:
    def __call__(self, completions):
        return []


@pytest.mark.parametrize(
    ("function", "signature"),
    [
        (
            plain,
            Signature(("prompt", "response", "limit", "answer"), ("prompt", "response", "answer")),
        ),
        (with_columns, Signature(("response",), ("response",), takes_all=True, is_async=True)),
        (trl, Signature(("prompts", "completions"), ("prompts", "completions"), takes_all=True)),
        (Called(), Signature(("completions",), ("completions",))),
        (
            functools.partial(plain, limit=4),
            Signature(
                ("prompt", "response", "answer"), ("prompt", "response", "answer"), ("limit",)
            ),
        ),
        ("json.loads", None),
    ],
)
def test_what_a_function_names(function, signature):
    found = read_signature(function)

    if signature is None:
        assert found.needed == ("s",)
        assert found.takes_all
    else:
        assert found == signature


@pytest.mark.parametrize(
    ("named", "whole"),
    [(("prompts",), True), (("completions",), True), (("prompt", "completion"), False)],
)
def test_prompts_or_completions_mean_the_whole_batch(named, whole):
    assert Signature(named, named).whole_batch is whole


def test_a_column_is_handed_over_where_it_is_named_or_all_are_taken():
    some = Signature(("a",), ("a",), ("b",))
    every = Signature(("a",), ("a",), ("b",), takes_all=True)

    assert [some.takes(name) for name in "abc"] == [True, False, False]
    assert [every.takes(name) for name in "abc"] == [True, False, True]


@pytest.mark.parametrize("target", ["json.loads", "pathlib.Path"])
def test_only_objects_that_can_be_called_are_made(target):
    with pytest.raises(ConfigError, match=rf"function={target}$"):
        read_signature(Unbuilt(target, {}))


def test_a_module_that_ends_the_process_at_import_is_refused(tmp_path, monkeypatch):
    (tmp_path / "ends_the_process.py").write_text("import sys; sys.exit(0)")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ConfigError, match="importing it ends the process"):
        read_signature("ends_the_process.score")


def test_a_file_path_is_refused_with_the_functions_of_the_file(tmp_path, monkeypatch):
    (tmp_path / "scores_in_file.py").write_text(
        "from json import loads\ndef first(response): return 1\ndef second(response): return 2\n"
        "class Judge: pass\n"
    )
    (tmp_path / "broken_file.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ConfigError, match=r"scores_in_file\.py'.* functions are first, second$"):
        read_signature("./scores_in_file.py")
    with pytest.raises(ConfigError, match=r"set function=broken_file\.FUNCTION$"):
        read_signature("broken_file.py")
