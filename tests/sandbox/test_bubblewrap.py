"""Bubblewrap's jail: the command that makes it, what is told where it cannot be, where it is chosen."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import rlcomp
from rlcomp.errors import RlcompError
from rlcomp.sandbox import bubblewrap
from rlcomp.sandbox.fork_server import ForkServer, start_pair
from rlcomp.sandbox.job import CheckJob, StdioJob
from rlcomp.sandbox.sandbox import Batch
from rlcomp.sandbox.tier import find_strongest

ROOT = Path(rlcomp.__file__).resolve().parents[1]
SYSTEM = "/usr/bin/python3"
PYTHON = os.path.realpath(sys.executable)


def after(words, *some):
    """Whether these words stand somewhere in this order, one behind the other."""
    return some in [tuple(words[at : at + len(some)]) for at in range(len(words))]


@pytest.fixture
def readable(tmp_path):
    """Two folders that a program may read: one is a link to the other."""
    libraries, link = tmp_path / "deep" / "libraries", tmp_path / "link"
    libraries.mkdir(parents=True)
    link.symlink_to("deep/libraries")
    return [str(libraries), str(link)]


@pytest.mark.parametrize("root", [False, True])
def test_the_command_shares_nothing_and_leaves_the_libraries(root, readable):
    words = bubblewrap.command("/usr/bin/bwrap", readable, root=root)

    first, own = words.index("--dir"), words.index("--")
    assert words[:first] == [
        "/usr/bin/bwrap",
        "--die-with-parent",
        "--as-pid-1",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        *(
            ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
            if root
            else ["--unshare-user-try"]
        ),
    ]
    assert after(words, "--ro-bind", readable[0], readable[0])
    assert after(words, "--symlink", "deep/libraries", readable[1])
    assert words[own - 11 : own] == [
        *("--dir", "/tmp", "--dir", "/dev", "--dev-bind", "/dev/null", "/dev/null"),
        *("--remount-ro", "/", "--chdir", "/"),
    ]
    assert words[own + 1 : own + 6] == [PYTHON, "-S", "-s", "-B", "-c"]
    assert words[own + 6 :] == [
        f"import sys; sys.path[0] = {str(ROOT)!r}; from rlcomp.sandbox.fork_server_child import serve_in_bubblewrap; serve_in_bubblewrap()"
    ]


def test_nothing_can_be_written_to_and_nothing_else_is_there(readable):
    words = bubblewrap.command("bwrap", readable, root=False)

    assert {word for word in words if word.endswith(("bind", "bind-try", "tmpfs", "proc"))} == {
        "--ro-bind",
        "--dev-bind",
    }
    bound = [words[at + 1] for at, word in enumerate(words) if word == "--ro-bind"]
    package = [str(ROOT / "rlcomp" / name) for name in ("__init__.py", "sandbox")]
    assert bound == [readable[0], PYTHON, *package]


def test_what_lies_in_a_readable_folder_is_not_bound_twice():
    words = bubblewrap.command("bwrap", [str(ROOT), os.path.dirname(PYTHON)], root=False)

    assert words.count("--ro-bind") == 2


def test_parent_folders_are_made_first(readable):
    words = bubblewrap.command("bwrap", readable, root=False)

    made = [words[at + 1] for at, word in enumerate(words) if word == "--dir"]
    above = [str(each) for each in reversed(Path(readable[0]).parents)][1:]
    assert made[: len(above)] == above  # from the top downwards
    assert len(set(made) - {"/tmp"}) == len([each for each in made if each != "/tmp"])
    assert str(ROOT / "rlcomp") in made
    assert words.index("--ro-bind") > max(
        at for at, word in enumerate(words) if word == str(ROOT / "rlcomp")
    )


@pytest.fixture
def stand_in(tmp_path, monkeypatch, needs):
    """``stand_in(script)`` is found as bwrap; it runs from the last line on what comes behind --."""
    needs("portable")

    def make(script):
        made = tmp_path / "bwrap"
        made.write_text(f"#!/bin/sh\n{script}\n")
        made.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return make


def refusal():
    server = ForkServer("bwrap")
    try:
        return server.wait_for_start()
    finally:
        server.close()


def test_where_there_is_none_its_package_is_named(monkeypatch, needs):
    needs("portable")
    monkeypatch.setenv("PATH", "/nowhere")

    assert refusal().startswith("bwrap is not in PATH: apt-get install bubblewrap (Debian, Ubuntu)")


def test_what_it_says_is_told(stand_in):
    stand_in("echo starting >&2; echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")

    assert refusal() == "bwrap: setting up uid map: Permission denied"


def test_one_that_says_nothing_is_refused_too(stand_in):
    stand_in("exit 0")

    assert refusal() == "bwrap ended without a message"


def test_one_that_cannot_be_executed_is_refused(stand_in, tmp_path):
    stand_in("")
    (tmp_path / "bwrap").write_text("neither script nor program")

    assert refusal() == f"{tmp_path}/bwrap: [Errno 8] Exec format error"


@pytest.fixture
def jailless(stand_in, monkeypatch):
    """A bwrap that makes no jail, under a Python that is not in root's home."""
    monkeypatch.setattr(sys, "executable", SYSTEM if os.geteuid() == 0 else sys.executable)
    if not serves(sys.executable):
        pytest.skip("no sandbox of tier bwrap: no Python here that another user may run")
    return lambda first: stand_in(f"{first}\n{JAILLESS}")


def serves(*python):
    command = [*python, "-c", "import sys, rlcomp.errors; assert sys.version_info >= (3, 10)"]
    return subprocess.run(command, env={"PYTHONPATH": str(ROOT)}).returncode == 0


JAILLESS = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'


def test_the_walls_of_portable_are_there_whatever_it_does(jailless, processes):
    jailless("echo warning >&2")
    idle = processes()
    workers = [start_pair("bwrap")]
    job = StdioJob("import os\nprint(os.getcwd())\nopen('/tmp/mine', 'w')")
    asked = [job, CheckJob("def f(): return 1", ("assert f() == 1",), "f")]

    outcomes = Batch(workers, "bwrap", asked).run()
    workers[0].close()

    assert outcomes[job].stdout == "/\n"
    assert outcomes[job].message == "PermissionError: [Errno 13] Permission denied: '/tmp/mine'"
    assert outcomes[asked[1]].status == "passed"
    assert set(processes()) <= set(idle)


CHOSEN = """
import os, sys
from rlcomp.sandbox import linux
(told, tell), (ready, go) = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    linux.unshare(linux.NEWUSER)
    os.write(tell, b"x")
    os.read(ready, 1)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    open("/proc/sys/user/max_user_namespaces", "w").write("0")
    os.execvp(sys.argv[1], sys.argv[1:])
os.read(told, 1)
for name in ("uid_map", "gid_map"):
    open(f"/proc/{child}/{name}", "w").write("0 0 70000")
os.write(go, b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
TELL = """
from rlcomp.sandbox.sandbox import Sandbox
with Sandbox(workers=1, min_tier="bwrap") as sandbox:
    print(sandbox.tier, sandbox.run_check("def f(a): return a", "assert f(3) == 3", "f").status)
"""
USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", SYSTEM, "-B"]


def in_a_machine_of_no_further_namespaces(words, path):
    """What a program prints where root may do all but make users' namespaces, and nobody else."""
    environment = {"PYTHONPATH": str(ROOT), "PATH": f"{path}:{os.environ['PATH']}"}
    command = [sys.executable, "-c", CHOSEN, *words, "-c", TELL]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return (done.stdout + done.stderr).splitlines()[-1]


@pytest.fixture
def found(needs):
    """The folder of a bwrap; skips where there is none, or where nobody is root."""
    needs("bwrap")
    if os.geteuid():
        pytest.skip("no sandbox of tier bwrap: only root can forbid namespaces for a while")
    return Path(shutil.which("bwrap")).parent


def test_it_is_chosen_where_root_cannot_make_namespaces_of_users(found):
    assert in_a_machine_of_no_further_namespaces([sys.executable], found) == "bwrap passed"


def test_it_is_chosen_where_it_alone_may_by_its_set_user_id_bit(found, tmp_path_factory):
    if not serves(*USER):
        pytest.skip("no sandbox of tier bwrap: no Python here that another user may run")
    folder = Path("/tmp") / f"{tmp_path_factory.getbasetemp().name}-bwrap"  # which others may enter
    folder.mkdir()
    try:
        privileged = shutil.copy(found / "bwrap", folder)
        told = in_a_machine_of_no_further_namespaces(USER, folder)
        assert "bwrap lacks: bwrap: Creating new namespace failed" in told
        os.chmod(privileged, stat.S_ISUID | 0o755)
        assert in_a_machine_of_no_further_namespaces(USER, folder) == "bwrap passed"
    finally:
        shutil.rmtree(folder)


def test_it_is_stronger_than_portable_and_weaker_than_strict(monkeypatch):
    monkeypatch.setattr(
        "rlcomp.sandbox.tier.find_missing", lambda tier: "" if tier != "strict" else "x"
    )

    assert find_strongest("portable") == "bwrap"
    assert find_strongest("bwrap") == "bwrap"
    with pytest.raises(RlcompError, match="the strongest tier here is bwrap"):
        find_strongest("strict")
