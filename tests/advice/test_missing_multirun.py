"""Several values of one setting: a sweep, a list or a text, by the kind of its value."""

import pytest
from omegaconf import OmegaConf

from rlcomp.advice import missing_multirun as module
from rlcomp.advice.missing_multirun import as_text, is_sentence, missing_multirun, several_values
from rlcomp.config.compose import CommandLine

CONFIG = {"seed": 0, "lr": 0.1, "fast": True, "names": ["a"], "template": "x", "prompt": None}


@pytest.fixture(autouse=True)
def groups(tmp_path, monkeypatch):
    for name in ("kl", "experiment", "tracker", "loss/weight"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(module, "config_directory", lambda: tmp_path)


def told(word, line=True):
    own = CommandLine([], [], OmegaConf.create(CONFIG), {}) if line else None
    return several_values(word, own)


SWEEP, LIST, TEXT = "a sweep, rlcomp -m ", "a list has brackets, ", "a text has quotes, "


@pytest.mark.parametrize(
    ("word", "ways"),
    [
        ("seed=0,1", [SWEEP]),
        ("lr=1,2", [SWEEP]),
        ("fast=true,false", [SWEEP]),
        ("kl=none,fixed", [SWEEP]),
        ("+kl@learner.kl=none,fixed", [SWEEP]),
        ("experiment=a,b", [SWEEP, LIST]),
        ("loss/weight=a,b", [SWEEP, LIST]),
        ("names=a,b", [SWEEP, LIST]),
        ("template=a,b", [SWEEP, LIST, TEXT]),
        ("gone=a,b", [SWEEP, LIST, TEXT]),
        ("template=Think first, then answer", [TEXT]),
        ("names=one two,three", [SWEEP, LIST]),
    ],
)
def test_what_several_values_may_be(word, ways):
    found = told(word)

    assert found.startswith(f"{word}: ")
    assert [way for way in (SWEEP, LIST, TEXT) if way in found] == ways
    assert is_sentence(found) is (ways == [TEXT])


def test_the_words_to_write_are_shown_as_a_shell_takes_them():
    found = told("template=a,b")

    assert "rlcomp -m template=a,b" in found
    assert "'template=[a,b]'" in found
    assert "'template=\"a,b\"'" in found
    assert as_text("a=b=c,d") == 'a="b=c,d"'
    assert told("template=a,b", line=False) == found


def test_a_run_has_one_tracker():
    assert told("tracker=wandb,none") == (
        "tracker=wandb,none: a run has one tracker; write tracker=wandb or tracker=none"
    )
    assert "a run has one +tracker" in told("+tracker=a,b")


@pytest.mark.parametrize(
    ("word", "point"),
    [
        ("lr=0,5", "lr=0.5"),
        ("lr=-0,25", "lr=-0.25"),
        ("lr=0,1e-3", "lr=0.1e-3"),
        ("lr=0,1E-3", "lr=0.1E-3"),
        ("lr=1,5", None),
        ("lr=0,1,2", None),
        ("seed=0,1", None),
        ("template=0,1", None),
    ],
)
def test_a_comma_within_a_decimal_is_a_point(word, point):
    found = told(word)

    assert ("a decimal has a point" in found) is (point is not None)
    if point is not None:
        assert f"{point};" in found
        assert f"rlcomp -m {word}" in found
    assert "a decimal" not in told(word, line=False)


def test_the_word_that_an_error_is_about_is_found():
    assert missing_multirun("Ambiguous value for argument 'a=1,2'\n1. To use it") == "a=1,2"
    assert missing_multirun("x\nSweep parameters 'a=1,2' requires --multirun") == "a=1,2"
    assert missing_multirun("argument 'a='b,c'' requires") == "a='b,c'"
    assert missing_multirun("Key 'a' is not in struct") is None
