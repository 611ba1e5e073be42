import signal
from pathlib import Path

import pytest

from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError
from rlcomp.workers import in_process
from rlcomp.workers.executor import FailedCall
from rlcomp.workers.in_process import InProcess


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def mapped(function, *arguments, **options):
    return InProcess().map(function, arguments, timeout=0.5, **options)


def test_it_calls_in_order():
    outcomes = mapped("called.triple", {"number": 1}, {"number": 2})

    assert [outcome.value for outcome in outcomes] == [3, 6]


def test_an_exception_is_a_failure_of_its_call():
    good, failed = mapped("called.mistake", {"what": "good"}, {"what": "raise"})

    assert good.value == 1.0
    assert failed.kind == "error"
    assert "KeyError" in failed.message


def test_an_interrupt_is_none_of_a_call_s_failures():
    # Whoever starts this in the background may have had the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            mapped("called.kill_self", {"number": 2})
    finally:
        signal.signal(signal.SIGINT, before)


def test_objects_are_made_once_and_called():
    above = Unbuilt("called.Above", {"threshold": 3})

    assert [outcome.value for outcome in mapped(above, {"number": 4}, {"number": 3})] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    "function", ["no_such_module.score", Unbuilt("called.Above", {"threshold": -1})]
)
def test_an_unloadable_function_is_refused(function):
    with pytest.raises(ConfigError, match=r"cannot be called: (ModuleNotFound|Value)Error"):
        mapped(function, {})


def test_async_calls_are_awaited_and_limited():
    good, failed = mapped("called.wait", {"seconds": 0, "block": 0}, {"seconds": 99, "block": 0})

    assert good.value == 0
    assert failed == FailedCall("time", "ran for more than 0.5 s", 1)


def test_what_fails_temporarily_is_tried_again(tmp_path, monkeypatch):
    waited = []
    monkeypatch.setattr(in_process.time, "sleep", waited.append)
    arguments = {"folder": str(tmp_path), "times": 4, "kind": "own"}

    failed, good = mapped("called.fails_first", arguments, arguments)

    assert (failed.kind, failed.tries) == ("error", 4)
    assert (good.value, good.tries) == (4, 1)
    assert waited == [0.1, 0.5, 2.0]


def test_a_call_sees_nothing_that_another_changed():
    shared = {"what": ["good"]}

    first, second = mapped("called.emptied", shared, shared)

    assert (first.value, second.value) == (1, 1)


def test_the_arguments_of_trl_are_passed():
    (outcome,) = mapped(
        "called.logs",
        {"trainer_state": {"global_step": 7}, "log_metric": None},
        whole_batch=True,
    )

    assert (outcome.value, outcome.metrics) == ([1.0], (("twice", 14.0),))
