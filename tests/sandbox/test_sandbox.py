"""The sandbox itself: order, concurrency, failures of its own, and what it leaves behind."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import time

import pytest

from rlcomp.errors import ConfigError, RlcompError
from rlcomp.sandbox import fork_server, running_job
from rlcomp.sandbox.fork_server import start_pair
from rlcomp.sandbox.job import MEBIBYTE, CallsJob, CheckJob, Limits, StdioJob
from rlcomp.sandbox.plain_data import encode
from rlcomp.sandbox.running_job import RunningJob, RunningProgram
from rlcomp.sandbox.sandbox import Batch, Sandbox

MEBIBYTES_100 = 100 * MEBIBYTE


def descriptors():
    return sorted(os.listdir("/proc/self/fd"))


def settle(processes, idle):
    """Wait for the kernel to bury the last job: no more processes than when idle."""
    deadline = time.monotonic() + 10
    while len(processes()) > len(idle):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_hashes_and_random_numbers_are_the_same_in_every_worker(sandbox):
    source = "import random, time; time.sleep(.2); print(hash('a'), random.random()) # "

    one, other = sandbox.map([StdioJob(source + "1"), StdioJob(source + "2")])

    assert one.stdout == other.stdout


def test_outcomes_are_in_the_order_of_their_jobs_and_each_distinct_one_runs_once(sandbox):
    slow, quick = StdioJob("import time; time.sleep(.3); print('slow')"), StdioJob("print('quick')")

    outcomes = sandbox.map([slow, quick, StdioJob("import os; print(os.urandom(9))"), quick, slow])

    assert [o.stdout for o in outcomes if len(o.stdout) < 9] == [
        "slow\n",
        "quick\n",
        "quick\n",
        "slow\n",
    ]
    assert outcomes[0] is outcomes[4]
    assert outcomes[1] is outcomes[3]


def test_jobs_run_beside_one_another(sandbox):
    said = "import time; begin = time.monotonic(); time.sleep(1); print(begin, time.monotonic())"

    outcomes = sandbox.map([StdioJob(f"{said}  # {number}") for number in range(2)])

    (begin, end), (other_begin, other_end) = (map(float, o.stdout.split()) for o in outcomes)
    assert begin < other_end
    assert other_begin < end


def test_no_jobs_are_no_work(sandbox):
    assert sandbox.map([]) == []


def test_jobs_of_all_kinds_run_in_one_batch(sandbox):
    jobs = [
        CheckJob("def f(): return 1", ("assert f() == 1",), "f"),
        StdioJob("print(1)"),
        CallsJob("def f(): return 1", (encode(()),), "f"),
    ]

    assert [outcome.status for outcome in sandbox.map(jobs)] == ["passed"] * 3


def test_nothing_is_left_when_a_sandbox_is_closed(processes, sandbox):
    before = processes(), descriptors()

    mine = Sandbox(workers=2)

    def fail():
        with mine:
            assert len(processes()) > len(before[0])
            mine.run_check("def f(): return 1", "f()", "f")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert set(processes()) <= set(before[0])
    assert descriptors() == before[1]
    assert mine.run_stdio("print(1)").stdout == "1\n"  # a later job starts new workers
    mine.close()
    assert descriptors() == before[1]


def test_nothing_is_started_before_it_is_used(processes, sandbox):
    before = processes(), descriptors()

    mine = Sandbox(workers=1)

    assert mine.map([]) == []
    assert "tier" not in vars(mine)  # nor is the machine probed
    assert (processes(), descriptors()) == before
    mine.run_stdio("print(1)")
    assert len(processes()) > len(before[0])
    del mine  # its end ends the workers
    settle(processes, before[0])
    assert descriptors() == before[1]


def test_there_are_as_many_workers_as_processors_or_as_set(monkeypatch, sandbox):
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    for told, workers in ((None, 3), (1, 1)):
        with Sandbox(workers=told) as mine:
            mine.start()  # they are there
            assert len(mine._workers) == workers


def test_one_job_needs_one_worker(sandbox):
    with_jobs = Sandbox(workers=3)

    with_jobs.map([StdioJob("print(1)")] * 5)
    assert len(with_jobs._workers) == 1
    with_jobs.map([StdioJob("print(1)"), StdioJob("print(2)")])
    assert len(with_jobs._workers) == 2
    with_jobs.close()


def test_a_copy_asks_for_the_same_and_starts_nothing(processes, sandbox):
    idle = processes()

    copied = pickle.loads(pickle.dumps(Sandbox(workers=3, min_tier="portable")))

    assert (copied.workers, copied.min_tier) == (3, "portable")
    assert processes() == idle


def test_no_workers_are_refused():
    with pytest.raises(ConfigError, match=r"sandbox\.workers=0: must be at least 1, or null"):
        Sandbox(workers=0)


def test_workers_that_cannot_all_start_leave_none(monkeypatch, processes, sandbox):
    idle, made = processes(), []

    def start(tier):
        if made:
            raise RlcompError("no more")
        made.append(start_pair(tier))
        return made[0]

    monkeypatch.setattr("rlcomp.sandbox.sandbox.start_pair", start)
    with pytest.raises(RlcompError, match="no more"):
        Sandbox(workers=2).map([StdioJob("print(1)"), StdioJob("print(2)")])

    settle(processes, idle)


def test_an_interrupt_ends_running_jobs_and_the_sandbox_stays_usable(processes, sandbox):
    idle, open_files = processes(), descriptors()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    started = time.monotonic()

    with pytest.raises(KeyboardInterrupt):
        sandbox.map(
            [StdioJob("import time; time.sleep(30)"), CheckJob("", ("while True: pass",), "f")]
        )

    assert descriptors() == open_files
    assert sandbox.run_stdio("print(1)").stdout == "1\n"
    assert time.monotonic() - started < 5
    settle(processes, idle)


def test_a_fork_server_that_was_killed_is_replaced(processes, sandbox):
    before = set(processes())
    with Sandbox(workers=1) as mine:
        for victim in set(processes()) - before:
            os.kill(victim, signal.SIGKILL)

        assert mine.run_check("def f(): return 1", "assert f() == 1", "f").status == "passed"


def test_an_overdue_job_is_a_timeout_and_its_worker_is_replaced(monkeypatch, sandbox, processes):
    monkeypatch.setattr(running_job, "_GRACE", 0.5)
    monkeypatch.setattr(fork_server, "_END_SECONDS", 0.3)
    idle = processes()
    workers = [start_pair("strict")]
    before = workers[0]
    (server,) = processes(before.servers[0].process.pid)
    os.kill(server, signal.SIGSTOP)  # it does not even begin
    job = StdioJob("print(1)", limits=Limits(wall=0.2))
    started = time.monotonic()

    outcome = Batch(workers, "strict", [job]).run()[job]

    assert (outcome.status, outcome.message) == (
        "timeout",
        "the sandbox could not end it after 0.2 s",
    )
    assert 0.7 <= time.monotonic() - started < 8
    assert workers[0] is not before
    assert Batch(workers, "strict", [job]).run()[job].stdout == "1\n"
    workers[0].close()
    settle(processes, idle)


def test_a_program_that_is_let_go_of_is_killed(processes, sandbox):
    idle = processes()
    worker = start_pair("strict")
    open_files, alive = descriptors(), processes()
    under_way = RunningJob(CheckJob("while True: pass", ("f()",), "f"), worker)
    assert len(under_way.running_programs()) == 2

    under_way.close()

    assert descriptors() == open_files
    settle(processes, alive)
    assert Batch([worker], "strict", []).run() == {}
    worker.close()
    settle(processes, idle)


def test_a_server_that_has_ended_takes_no_job(sandbox):
    server = fork_server.ForkServer("strict")
    assert server.wait_for_start() == ""
    open_files = descriptors()
    server.process.kill()
    server.process.wait()
    deadline = time.monotonic() + 10
    while server.socket.recv(1):
        assert time.monotonic() < deadline

    with pytest.raises(RlcompError, match="a fork server of the sandbox has ended"):
        RunningProgram(server, {"kind": "stdio", "source": ""}, Limits())

    assert descriptors() == open_files
    server.close()


def test_a_candidate_does_not_outlive_its_tests(sandbox):
    candidate = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\ndef f(): pass"
    started = time.monotonic()

    assert sandbox.run_check(candidate, "f()", "f", Limits(wall=30)).status == "passed"

    assert time.monotonic() - started < 20


def test_an_interrupt_of_the_terminal_does_not_reach_a_server(sandbox):
    with Sandbox(workers=1) as mine:
        sessions = {os.getsid(server.process.pid) for server in mine._workers[0].servers}

    assert len(sessions | {os.getsid(0)}) == 3


def test_the_strongest_walls_unless_told_otherwise():
    assert Sandbox.__init__.__kwdefaults__ == {"workers": None, "min_tier": "strict"}


def test_a_server_that_cannot_start_gives_the_reason(sandbox):
    server = fork_server.ForkServer("strict")
    server.process.kill()

    assert server.wait_for_start() in ("", "it ended during its start")

    server.close()


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (Limits(disk=1.5), r"could not start a program: .*mount of tmpfs on /tmp"),
        (
            Limits(output=1.5),
            r"could not start a program: the program could not be restricted: .*int",
        ),
    ],
)
def test_a_failure_of_the_sandbox_itself_is_no_outcome(limits, told, processes, sandbox):
    idle = processes()

    with pytest.raises(RlcompError, match=told):
        sandbox.run_stdio("print(1)", limits=limits)

    assert sandbox.run_stdio("print(1)").stdout == "1\n"
    settle(processes, idle)


def test_a_fork_of_the_owner_cannot_use_it_nor_ends_it(sandbox):
    child = os.fork()
    if child == 0:
        try:
            sandbox.run_stdio("print(1)")
        except RlcompError as error:
            sandbox.close()
            os._exit(7 if "this sandbox belongs to another process" in str(error) else 8)
        os._exit(9)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    # It is alive, as its weakref is; only the child's copy is closed.
    assert sandbox.run_stdio("print(1)").stdout == "1\n"


def test_all_dies_with_its_owner(processes, sandbox):
    source = (
        "from rlcomp.sandbox.sandbox import Sandbox\nsandbox = Sandbox(workers=1)\n"
        "print('ready', flush=True)\nsandbox.run_stdio('while True: pass')"
    )
    owner = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE)
    assert owner.stdout.readline() == b"ready\n"
    deadline = time.monotonic() + 20
    while len(its_own := processes(owner.pid)) < 6:  # two pairs, a first process, its program
        assert time.monotonic() < deadline
    owner.kill()
    owner.wait()
    owner.stdout.close()

    while any(os.path.exists(f"/proc/{pid}") for pid in its_own):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_a_thousand_jobs_leave_nothing_behind(processes, sandbox):
    limits = Limits(wall=20, fork=True)
    orphan = "import os, time\nif os.fork() == 0: time.sleep(1000)\nopen('/tmp/x', 'w').write('x')"
    jobs = [StdioJob(f"{orphan} # {i}", limits=limits) for i in range(400)]
    jobs += [CheckJob(f"def f(): return {i}", (f"assert f() == {i}",), "f") for i in range(400)]
    jobs += [StdioJob(f"x = {i} / 0") for i in range(150)]
    jobs += [CallsJob(f"def f(a): return a + {i}", (encode((1,)),), "f") for i in range(50)]
    gc.collect()  # descriptors of objects that other tests left
    with Sandbox(workers=2) as mine:
        before = processes(), descriptors()
        outcomes = mine.map(jobs)
        time.sleep(0.5)  # the kernel takes a moment for the last
        after = processes(), descriptors()

    statuses = [outcome.status for outcome in outcomes]
    assert statuses == ["passed"] * 800 + ["failed"] * 150 + ["passed"] * 50
    assert after == before
