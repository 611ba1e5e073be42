import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError
from rlcomp.workers import call_queue as queue_module
from rlcomp.workers.executor import FailedCall, ReturnedCall
from rlcomp.workers.pool import WorkerPool, closing

HERE = str(Path(__file__).parent)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(HERE)


@pytest.fixture(scope="module")
def pool():
    made = WorkerPool(num_workers=2)
    yield made
    made.close()


@pytest.fixture
def one():
    made = WorkerPool(num_workers=1)
    yield made
    made.close()


def values(outcomes):
    return [outcome.value if isinstance(outcome, ReturnedCall) else None for outcome in outcomes]


def ended(process, seconds=10.0):
    """Whether a process is gone, or a zombie, within some time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_outcomes_come_in_the_order_of_the_calls(pool):
    outcomes = pool.map("called.triple", [{"number": n} for n in range(200)], timeout=5.0)

    assert values(outcomes) == [3 * n for n in range(200)]
    assert {outcome.tries for outcome in outcomes} == {1}
    assert all(0 <= outcome.seconds < 5 for outcome in outcomes)


def test_no_calls_have_no_outcomes(pool):
    assert pool.map("called.triple", [], timeout=1.0) == []


@pytest.mark.parametrize(
    ("what", "kind", "message"),
    [
        ("segfault", "died", "its process died of signal 11 (SIGSEGV)"),
        ("_exit", "died", "its process ended with exit code 0"),
        ("exit", "error", "SystemExit: 0 (called.py, line"),
        ("raise", "error", r"KeyError: 'no\nsuch' (called.py, line"),
        ("memory", "memory", "MemoryError"),
        ("print", "output", "printed more than 1000000 characters"),
        ("caught", "output", "printed more than 1000000 characters"),
        ("long", "output", 'returned 2000002 characters, "xxx'),
        ("object", "error", "returned {1, 2}, not JSON: "),
        ("digits", "error", "not JSON: Exceeds the limit"),
    ],
)
def test_a_mistake_costs_its_own_call_and_has_a_name(pool, what, kind, message):
    calls = [{"what": each} for each in ("good", what, "good")]

    first, failed, last = pool.map("called.mistake", calls, timeout=20.0)

    assert (first.value, last.value) == (1.0, 1.0)
    assert (failed.kind, failed.tries) == (kind, 1)
    assert message in failed.message
    assert "\n" not in failed.message


@pytest.mark.parametrize(
    "text", ["5", "{}", "[]", '[0, "scored"]', '[0, "odd", 1, 0, []]', "[" * 5000, "no"]
)
def test_a_call_that_writes_into_the_channel_costs_itself(one, text):
    calls = [{"text": ""}, {"text": f"{text}\n"}, {"text": ""}]

    first, failed, last = one.map("called.write_everywhere", calls, timeout=20.0)

    assert (first.value, last.value) == (1.0, 1.0)
    assert (failed.kind, failed.message[:45]) == (
        "died",
        "a call wrote into the channel of its worker p",
    )


def test_a_call_that_overruns_its_time_is_tried_once_more(pool):
    failed, good = pool.map("called.mistake", [{"what": "regex"}, {"what": ""}], timeout=0.5)

    assert failed == FailedCall("time", "ran for more than 0.5 s", 2)
    assert good.value == 1.0


def test_every_good_answer_is_right_among_all_mistakes_at_once(pool):
    bad = ["loop", "fork bomb", "power", "regex", "segfault", "exit", "_exit", "print", "memory"]
    calls = [{"what": what} for n in range(9) for what in (bad[n], *("good",) * 6)]

    outcomes = pool.map("called.mistake", calls, timeout=1.0)

    found = [outcomes[7 * n].kind for n in range(9)]
    assert found == ["time"] * 4 + ["died", "error", "died", "output", "memory"]
    assert values(outcomes).count(1.0) == 54


def test_arrays_and_numbers_of_numpy_are_json(pool):
    (outcome,) = pool.map("called.numbers", [{}], timeout=5.0)

    assert outcome.value == {"array": [1.0, 1.0], "scalar": 0.5, "none": None}


def test_a_worker_has_limits_and_nothing_to_read_or_to_write(one):
    limited = WorkerPool(num_workers=1, memory_gib=1.5)
    with closing([limited]):
        (found,) = values(limited.map("called.surroundings", [{}], timeout=7.0))
    (other,) = values(one.map("called.surroundings", [{}], timeout=7.0))

    assert found["memory"] == 3 * 2**29
    assert found["core"] == 0
    assert 7 <= found["cpu"] <= 9.1  # whole seconds, and one more
    assert found["files"] == ["/dev/null"] * 3
    assert found["session"]
    assert not found["torch"]
    assert found["hash"] == other["hash"]


def test_processor_time_beyond_the_limit_is_time(one):
    (failed,) = one.map("called.kill_self", [{"number": int(signal.SIGXCPU)}], timeout=5.0)

    assert failed.kind == "time"


def test_a_call_that_is_stuck_does_not_hold_up_others(one, tmp_path):
    # With one worker the first would wait for the second for ever.
    outcomes = one.map(
        "called.meet", [{"folder": str(tmp_path), "name": name} for name in "ab"], timeout=20.0
    )

    assert len(set(values(outcomes))) == 2
    assert len(one._workers) <= 1


def test_the_calls_behind_a_stuck_one_in_the_same_message_go_elsewhere(one, tmp_path):
    folder = str(tmp_path)
    one.map("called.meet", [{"folder": folder, "name": "c"}] * 40, timeout=20.0)

    outcomes = one.map(
        "called.meet", [{"folder": folder, "name": n} for n in "ab" + "c" * 30], timeout=20.0
    )

    found = values(outcomes)
    assert found[0] not in found[1:]
    assert {outcome.tries for outcome in outcomes} == {1}


@pytest.mark.parametrize("kind", ["own", "connection", "time"])
def test_what_fails_temporarily_is_tried_again(one, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(queue_module, "RETRY_DELAYS", (0.01, 0.02, 0.03))

    (outcome,) = one.map(
        "called.fails_first",
        [{"folder": str(tmp_path), "times": 3, "kind": kind}],
        timeout=5.0,
    )

    assert (outcome.value, outcome.tries) == (3, 4)


def test_repeated_temporary_failures_are_a_failure(one, tmp_path, monkeypatch):
    monkeypatch.setattr(queue_module, "RETRY_DELAYS", (0.01, 0.02, 0.03))

    (outcome,) = one.map(
        "called.fails_first", [{"folder": str(tmp_path), "times": 4, "kind": "own"}], timeout=5.0
    )

    assert (outcome.kind, outcome.tries) == ("error", 4)
    assert "Temporary: not now" in outcome.message
    assert outcome.message.endswith("after 4 tries")


def test_calls_of_an_async_function_run_together_in_one_process(one, tmp_path):
    calls = [{"folder": str(tmp_path), "number": n, "count": 4} for n in range(4)]

    found = values(one.map("called.meet_all", calls, timeout=20.0, concurrency=4))

    assert [number for number, _ in found] == [0, 1, 2, 3]
    assert len({process for _, process in found}) == 1


def test_an_async_call_that_waits_too_long_is_cancelled_alone(one):
    calls = [{"seconds": seconds, "block": 0} for seconds in (0.0, 100.0, 0.1)]

    outcomes = one.map("called.wait", calls, timeout=0.5, concurrency=3)

    assert values(outcomes) == [0.0, None, 0.1]
    assert outcomes[1] == FailedCall("time", "ran for more than 0.5 s", 2)
    assert [outcomes[0].tries, outcomes[2].tries] == [1, 1]


def test_those_beside_an_async_call_that_blocks_are_tried_again(one):
    calls = [{"seconds": 0.2, "block": 0}, {"seconds": 0.0, "block": 100}]

    good, failed = one.map("called.wait", calls, timeout=0.5, concurrency=2)

    assert (good.value, good.tries) == (0.2, 2)
    assert failed == FailedCall("time", "ran for more than 0.5 s", 2)


def test_those_beside_an_async_call_that_ends_the_process_are_tried_again(one):
    calls = [{"number": n} for n in range(3)]

    outcomes = one.map("called.end_process", calls, timeout=10.0, concurrency=3)

    assert values(outcomes) == [0, None, 2]
    assert outcomes[1] == FailedCall("died", "its process ended with exit code 3", 2)


def test_an_object_is_made_in_the_worker(pool):
    above = Unbuilt("called.Above", {"threshold": 3})

    assert values(pool.map(above, [{"number": 3}, {"number": 4}], timeout=5.0)) == [False, True]


def test_a_batch_function_gets_the_arguments_of_trl(pool):
    (outcome,) = pool.map(
        "called.logs",
        [{"trainer_state": {"global_step": 7}, "log_metric": None}],
        timeout=5.0,
        whole_batch=True,
    )

    assert outcome.value == [1.0]
    assert outcome.metrics == (("twice", 14.0),)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("no_such_module.score", "No module named 'no_such_module'"),
        ("called.no_such", "has no attribute 'no_such'"),
        (Unbuilt("called.Above", {"threshold": -1}), "ValueError: a threshold below 0"),
        ("exits_at_import.score", "SystemExit: 3"),
        ("dies_at_import.score", "its process ended with exit code 4"),
    ],
)
def test_an_unloadable_function_stops_the_batch(one, tmp_path, monkeypatch, function, told):
    (tmp_path / "exits_at_import.py").write_text("import sys; sys.exit(3)")
    (tmp_path / "dies_at_import.py").write_text("import os; os._exit(4)")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ConfigError, match="cannot be called: .*" + told):
        one.map(function, [{}], timeout=5.0)

    assert not one._workers


def test_a_copy_that_a_call_forks_does_not_answer(pool):
    outcomes = pool.map("called.fork_and_return", [{"number": n} for n in range(8)], timeout=10.0)

    assert values(outcomes) == [*range(8)]


def test_processes_of_calls_end_with_the_pool(one, tmp_path):
    (child,) = values(
        one.map("called.leave_behind", [{"file": str(tmp_path / "pid")}], timeout=9.0)
    )

    one.close()

    assert ended(child)


def test_a_closed_pool_starts_again(one):
    one.close()

    assert values(one.map("called.triple", [{"number": 2}], timeout=5.0)) == [6]


def test_an_idle_worker_that_died_is_replaced(one):
    (before,) = values(one.map("called.surroundings", [{}], timeout=5.0))
    os.kill(before["process"], signal.SIGKILL)
    assert ended(before["process"])

    assert values(one.map("called.triple", [{"number": 2}], timeout=5.0)) == [6]


def test_a_worker_that_dies_on_what_it_did_before_is_not_the_function_s_fault(one):
    one.map("called.triple", [{"number": 1}], timeout=5.0)
    (worker,) = one._workers
    send = worker.process.send
    worker.process.send = lambda order: (os.kill(worker.process.process.pid, 9), send(order))

    assert values(one.map("called.mistake", [{"what": "good"}], timeout=5.0)) == [1.0]


def test_an_interrupt_leaves_no_worker(one, tmp_path, monkeypatch):
    file = tmp_path / "pid"

    def interrupted(queue, function):
        while not file.exists() or not file.read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(one, "_receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.map("called.say_and_hang", [{"file": str(file)}], timeout=60.0)

    assert not one._workers
    assert ended(int(file.read_text()))


def test_a_worker_ends_with_its_trainer_though_its_call_never_returns(tmp_path):
    file = tmp_path / "pid"
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from rlcomp.workers.pool import WorkerPool\n"
        "pool = WorkerPool(num_workers=1)\n"
        "pool.map('called.say_and_hang', [{'file': sys.argv[2]}], timeout=60.0)\n"
    )
    trainer = subprocess.Popen([sys.executable, "-c", script, HERE, str(file)])
    while not file.exists() or not file.read_text():
        assert trainer.poll() is None
        time.sleep(0.02)

    trainer.kill()
    trainer.wait()

    assert ended(int(file.read_text()))


def test_it_works_off_the_main_thread(pool):
    found = []
    thread = threading.Thread(
        target=lambda: found.extend(pool.map("called.triple", [{"number": 1}], timeout=5.0))
    )
    thread.start()
    thread.join()

    assert values(found) == [3]


def test_a_copy_has_the_same_limits_and_workers_of_its_own(pool):
    copied = pickle.loads(pickle.dumps(WorkerPool(num_workers=3, memory_gib=2.0, output_limit=9)))

    assert (copied.num_workers, copied.memory_gib, copied.output_limit) == (3, 2.0, 9)
    assert copied._workers == []


def test_the_context_closes_pools_however_it_ends(one):
    one.map("called.triple", [{"number": 1}], timeout=5.0)

    with pytest.raises(ZeroDivisionError), closing([object(), one]):
        raise ZeroDivisionError

    assert not one._workers


def test_a_worker_that_somebody_else_has_waited_for_is_gone(one):
    (before,) = values(one.map("called.surroundings", [{}], timeout=5.0))
    os.kill(before["process"], signal.SIGKILL)
    os.waitpid(before["process"], 0)

    assert values(one.map("called.triple", [{"number": 2}], timeout=5.0)) == [6]


def test_the_limit_of_a_call_begins_when_the_one_before_it_is_over(one):
    one.map("called.rest", [{"seconds": 0.0}] * 20, timeout=5.0)

    # One message: together they take longer than the limit of each.
    outcomes = one.map("called.rest", [{"seconds": 0.15}] * 5, timeout=0.5)

    assert {(outcome.value, outcome.tries) for outcome in outcomes} == {(0.15, 1)}
