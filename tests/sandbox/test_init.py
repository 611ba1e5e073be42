"""What the kernel says of a program under way: its limits, its walls, its open files."""

import errno
import os
import signal
import struct
import sysconfig
import time

import pytest

from rlcomp.sandbox import fork_server_child, init, landlock, linux, namespaces
from rlcomp.sandbox.fork_server import start_pair
from rlcomp.sandbox.job import MEBIBYTE, Limits, StdioJob
from rlcomp.sandbox.running_job import RunningJob

LIMITS = Limits(wall=60, cpu=6.5, memory=300 * MEBIBYTE, output=70_000, disk=1 << 20, tasks=9)
SLEEP = "import time; time.sleep(60)"
KINDS = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]


def status(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def limits(pid):
    with open(f"/proc/{pid}/limits") as file:
        return {line[:26].strip(): line[26:68].split() for line in file.readlines()[1:]}


def spaces(pid):
    return [os.readlink(f"/proc/{pid}/ns/{kind}") for kind in KINDS]


def under_way(program):
    files = {f"/proc/{program}/fd/{number}" for number in (6, 7)}
    return status(program)["Seccomp"] == "2" and not any(map(os.path.lexists, files))


@pytest.fixture(scope="module", params=["strict", "bwrap", "portable"])
def chain(request, processes, needs):
    """Tier, and process ids: a fork server's guard and itself, a job's first process, its program.

    In ``bwrap`` bubblewrap is between the guard and the server.
    """
    needs(request.param)
    worker = start_pair(request.param)
    running = RunningJob(StdioJob(SLEEP, limits=LIMITS), worker)
    guard = worker.servers[0].process.pid
    deadline = time.monotonic() + 20
    # Until it sleeps: its job (6) is read, and it is shut in (7 says so).
    below = 4 if request.param == "bwrap" else 3
    while len(found := processes(guard)) < below or not under_way(max(found)):
        assert time.monotonic() < deadline
    yield request.param, guard, *sorted(found)
    running.close()
    worker.close()


def test_the_limits_of_a_program(chain):
    tier, *_, program = chain

    found = limits(program)

    most = {
        "Max cpu time": 7,  # 6.5, rounded up
        "Max file size": 70_000,
        "Max stack size": 64 * MEBIBYTE,
        "Max core file size": 1,
        "Max open files": 64,
        "Max locked memory": 0,
        "Max address space": 300 * MEBIBYTE,
        "Max msgqueue size": 0,
    }
    # Nine of its own; the guard, the server and the first process have the same user.
    most |= {"Max processes": 12} if tier == "strict" else {}
    assert {name: found[name] for name in most} == {n: [str(m)] * 2 for n, m in most.items()}


def test_a_program_has_no_rights_and_is_under_a_filter(chain):
    found = status(chain[-1])

    sets = {name: int(found[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}
    assert set(sets.values()) == {0}
    assert found["NoNewPrivs"] == "1"
    assert found["Seccomp"] == "2"
    if chain[0] == "strict" or (os.geteuid() == 0 and chain[0] == "portable"):
        assert int(found["CapBnd"], 16) == 0


def test_those_who_watch_it_are_not_under_its_filter(chain):
    assert {status(pid)["Seccomp"] for pid in chain[1:-1]} == {"0"}


def test_a_program_is_of_a_user_that_owns_nothing(chain):
    number = chain[2 if chain[0] == "bwrap" else 1]  # the process that its own is made from
    chain = [chain[0], *chain[3:]] if chain[0] == "bwrap" else chain
    users = {tuple(status(pid)[name].split()) for pid in chain[1:] for name in ("Uid", "Gid")}

    mine = str(os.geteuid())
    if chain[0] == "portable" or mine != "0":
        assert (mine,) * 4 in users
    else:
        ((user, *others),) = users
        assert int(user) == 64000 + number % 1000
        assert set(others) == {user}
        assert {status(pid)["Groups"].strip() for pid in chain[1:]} == {""}


def test_namespaces_are_those_of_the_server_and_of_the_job(chain):
    tier, guard, *_, server, first, program = chain

    if tier == "bwrap":
        own = KINDS if os.geteuid() else KINDS[1:]
        mine, its = (dict(zip(KINDS, spaces(pid), strict=True)) for pid in (os.getpid(), program))
        assert {kind for kind in KINDS if mine[kind] != its[kind]} == {*own}
        assert spaces(program) == spaces(first) == spaces(server)
        assert spaces(guard) == spaces(os.getpid())
        assert int(status(server)["NSpid"].split()[-1]) == 1
        return
    if tier == "portable":
        assert spaces(program) == spaces(os.getpid())
        return
    assert not set(spaces(server)) & set(spaces(os.getpid()))
    assert spaces(first) == spaces(program)
    differ = {k for k, a, b in zip(KINDS, spaces(server), spaces(first), strict=True) if a != b}
    assert differ == {"mnt", "pid"}
    assert spaces(guard)[0] == spaces(server)[0]
    assert status(program)["NSpid"].split()[-1] == "2"


def test_a_program_has_the_files_it_knows_of_and_no_others(chain):
    *_, program = chain

    names = {
        int(f): os.readlink(f"/proc/{program}/fd/{f}") for f in os.listdir(f"/proc/{program}/fd")
    }

    assert sorted(names) == [0, 1, 2, 3]
    assert {name.split(" ")[0] for name in names.values()} == {"/memfd:sandbox"}


def test_nobody_ignores_or_catches_a_signal_that_a_program_could_send(chain):
    *_, first, _ = chain

    # SIGPIPE (13), SIGXFZ... as Python has it; SIGCHLD and SIGINT are the system's own again.
    assert int(status(first)["SigCgt"], 16) & ~(1 << 31 | 1 << 32) == 0
    own = 1 << 31 | 1 << 32  # the C library's, which lets nobody set them
    assert int(status(first)["SigIgn"], 16) & ~own == 1 << 12 | 1 << 24  # SIGPIPE, SIGXFSZ


JAIL = """
import os, socket
def told(path):
    found = os.statvfs(path)
    return found.f_flag & 15, found.f_blocks * found.f_frsize, found.f_files
print(sorted(os.listdir('/')))
print(told('/')[0], told('/usr')[0], told('/tmp'), told('/dev/null')[0])
print(os.getresuid(), os.getresgid(), os.getgroups(), oct(os.stat('/').st_mode), os.environ.get('HOME'))
print(os.path.realpath('/bin'), os.path.isfile(os.__file__), os.listdir('/tmp'), os.listdir('/dev'))
"""


def test_the_file_system_of_a_jail(run_in):
    outcome = run_in("strict", StdioJob(JAIL, limits=LIMITS))

    top, flags, ids, rest = outcome.stdout.splitlines()
    own = {path.split("/")[1] for path in namespaces.readable_paths()}
    assert set(eval(top)) == own | {"dev", "tmp"}
    # ST_RDONLY 1, ST_NOSUID 2, ST_NODEV 4, ST_NOEXEC 8.
    assert flags == "7 7 (14, 1048576, 512) 3"
    assert ids == "(1000, 1000, 1000) (1000, 1000, 1000) [] 0o40755 None" or os.geteuid()
    assert rest == f"{os.path.realpath('/bin')} True [] ['null']"


IN_BUBBLEWRAP = """
import os
for path in ('/', '/usr', '/tmp', '/dev/null', '/etc', '/proc', '/sys', '/home'):
    try: print(path, os.statvfs(path).f_flag & 7)
    except OSError as error: print(path, error.strerror)
"""


def test_the_file_system_of_bubblewraps_jail(run_in):
    outcome = run_in("bwrap", StdioJob(IN_BUBBLEWRAP, limits=LIMITS))

    # ST_RDONLY 1, ST_NOSUID 2, ST_NODEV 4.
    assert outcome.stdout.splitlines() == [
        "/ 7",
        "/usr 7",
        "/tmp 7",
        "/dev/null 2",
        *[f"/{name} No such file or directory" for name in ("etc", "proc", "sys", "home")],
    ]


def test_readable_paths_exist_and_are_distinct():
    paths = namespaces.readable_paths()

    assert "/usr" in paths
    libraries = os.path.realpath(sysconfig.get_config_var("LIBDIR"))
    assert any((libraries + "/").startswith(path + "/") for path in paths)
    assert all(map(os.path.isdir, paths))
    assert any(os.__file__.startswith(os.path.realpath(path) + "/") for path in paths)
    assert not [a for a in paths for b in paths if a.startswith(b + "/")]
    assert not {"/", "/etc", "/home", "/root", "/proc", os.path.expanduser("~")} & set(paths)


def in_a_child(body):
    """What a function returns in a fork of this process, by its exit code."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = body()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def allowed(action):
    try:
        action()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("abi", "words"),
    [
        (1, [0x1FFF]),  # 13 rights on files
        (2, [0x3FFF]),  # and to link elsewhere
        (3, [0x7FFF]),  # and to truncate
        (4, [0x7FFF, 3]),  # bind and connect
        (5, [0xFFFF, 3]),  # ioctl on devices
        (6, [0xFFFF, 3, 3]),  # abstract sockets and signals
        (7, [0xFFFF, 3, 3]),
    ],
)
def test_landlock_handles_all_rights_of_its_abi(abi, words):
    assert landlock.ruleset_of(abi) == (words[0], struct.pack(f"={len(words)}Q", *words))


def test_landlock_allows_only_the_listed_paths(tmp_path, chain):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "file").write_text("text")
    (tmp_path / "writable").mkdir()
    (tmp_path / "single").write_text("text")

    def body():
        linux.prctl(38, 1)  # no_new_privs
        landlock.restrict([str(inside)], [str(tmp_path / "writable"), str(tmp_path / "single")])
        made = tmp_path / "writable" / "made"
        tried = [
            allowed((inside / "file").read_text),
            allowed(lambda: os.listdir(inside)),
            allowed(lambda: made.write_text("x") and made.rename(tmp_path / "writable" / "b")),
            allowed(lambda: (tmp_path / "single").write_text("x")),
            allowed((tmp_path / "writable" / "b").unlink),
            not allowed(lambda: (inside / "file").write_text("x")),
            not allowed((inside / "new").touch),
            not allowed((outside / "file").read_text),
            not allowed(lambda: os.listdir(outside)),
            not allowed(lambda: os.listdir(tmp_path)),
            landlock.version() < 6 or not allowed(lambda: os.kill(os.getppid(), 0)),
        ]
        return tried.index(False) if False in tried else 77

    assert in_a_child(body) == 77


def test_a_refused_system_call_is_named():
    with pytest.raises(OSError, match=r"mount of none on /nowhere") as refused:
        linux.mount("none", "/nowhere", "tmpfs")
    assert refused.value.errno in (errno.ENOENT, errno.EPERM)  # the latter for an ordinary user
    with pytest.raises(OSError, match="prctl 9999"):
        linux.prctl(9999)
    with pytest.raises(OSError, match="landlock_add_rule"):
        linux.system_call("landlock_add_rule", -1, 1, 0, 0)


def test_a_program_finds_common_modules_loaded(run_in):
    source = (
        "import sys; print([m for m in ('heapq', 'statistics', 'typing') if m not in sys.modules])"
    )

    assert run_in("strict", StdioJob(source)).stdout == "[]\n"
    assert fork_server_child._MAX_FILES == 8  # a socket, the job, and six that a program may get
    assert init.program.LAST_FILE == 5


def test_a_fork_server_leaves_no_zombies(run_in, processes):
    for number in range(3):
        run_in("strict", StdioJob(f"print({number})"))

    deadline = time.monotonic() + 10
    while any(map(is_zombie, processes())):
        assert time.monotonic() < deadline


@pytest.mark.parametrize("tier", ["strict", "bwrap", "portable"])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_all_below_a_process_that_is_killed_die(tier, victim, needs, processes):
    needs(tier)
    worker = start_pair(tier)
    running = RunningJob(StdioJob(SLEEP, limits=LIMITS), worker)
    guard = worker.servers[0].process.pid
    deadline = time.monotonic() + 20
    while len(below := sorted(processes(guard))) < (4 if tier == "bwrap" else 3):
        assert time.monotonic() < deadline

    os.kill([guard, *below][victim], signal.SIGKILL)

    while not all(map(has_ended, below[victim:])):
        assert time.monotonic() < deadline
    running.close()
    worker.close()


def has_ended(pid):
    return not os.path.exists(f"/proc/{pid}") or is_zombie(pid)


def is_zombie(pid):
    try:
        return status(pid)["State"].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return False
