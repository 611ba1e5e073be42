"""Programs that try to harm the machine, read its secrets or live on: none has an effect.

A program prints EFFECT where what it should not be able to do has succeeded. Beside that, each is
watched from outside: a process, a folder and a server that it might reach stay as they were.
"""

import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from rlcomp.sandbox.job import MEBIBYTE, Limits, StdioJob

MACHINE = platform.machine()
NUMBERS = {
    "x86_64": {
        "bpf": 321,
        "userfaultfd": 323,
        "keyctl": 250,
        "perf": 298,
        "memfd": 319,
        "setns": 308,
    },
    "aarch64": {
        "bpf": 280,
        "userfaultfd": 282,
        "keyctl": 219,
        "perf": 241,
        "memfd": 279,
        "setns": 268,
    },
}.get(MACHINE, {})


def call(*arguments):
    """A program that makes a system call, by its libc function or by number."""
    name, *rest = arguments
    function = f"libc.{name}({{}})" if isinstance(name, str) else f"libc.syscall({name}, {{}})"
    words = ", ".join(f"ctypes.c_long({each})" if isinstance(each, int) else each for each in rest)
    return (
        "import ctypes, os\nlibc = ctypes.CDLL(None)\nbuffer = ctypes.create_string_buffer(4096)\n"
        f"print('EFFECT' if {function.format(words)} >= 0 else 'refused')"
    )


def attempt(body):
    """A program that does something, and says so if nothing stopped it."""
    lines = "\n    ".join(body.strip().splitlines())
    return f"import os, signal, socket, sys\ntry:\n    {lines}\n    print('EFFECT')\nexcept Exception as e:\n    print(type(e))"


# Runs on until it is stopped.
TIME = {
    "loop": "while True: pass",
    "sleep": "import time; time.sleep(1000)",
    "ignore all signals": (
        "import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\nwhile True: pass"
    ),
    "block all signals": (
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass"
    ),
    "tower of powers": "9**9**9",
    "regex": "import re; re.match('(a+)+$', 'a' * 64 + 'b')",
    "at exit": "import atexit, time; atexit.register(time.sleep, 1000)",
    "a thread that stays": "import threading, time; threading.Thread(target=time.sleep, args=(1000,)).start()",
    "stopped by itself": "import os, signal\nwhile True: os.kill(os.getpid(), signal.SIGSTOP)",
    "memory error caught": "x = []\nwhile True:\n    try: x.append(bytearray(1 << 24))\n    except MemoryError: pass",
    "daemon thread in a C loop": (
        "import threading\nthreading.Thread(target=lambda: pow(7, 10**7), daemon=True).start()\n9**9**9"
    ),
}
# Wants more than there is.
SIZE = {
    "memory at once": "b'x' * 10**11",
    "memory bit by bit": "x = []\nwhile True: x.append(bytearray(1 << 20))",
    "shared memory maps": "import mmap\nx = []\nwhile True: x.append(mmap.mmap(-1, 1 << 24))",
    "memory locked": call("mlockall", 3),
    "decompression": "import zlib; d = zlib.compress(bytes(10**8)); x = [zlib.decompress(d) for _ in range(99)]",
    "recursion": "import sys; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "recursion in C": "import sys; sys.setrecursionlimit(10**9)\nx = []\nfor _ in range(10**7): x = [x]\nrepr(x)",
    "threads": "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(9,)).start()",
    "small threads": (
        "import threading, time\nthreading.stack_size(32768)\n"
        "for _ in range(5000): threading.Thread(target=time.sleep, args=(9,)).start()\nprint('EFFECT')"
    ),
    "endless output": "while True: print('x' * 10000)",
    "endless errors": "import sys\nwhile True: print('x' * 10000, file=sys.stderr)",
    "endless report": "import os\nwhile True: os.write(3, b'x' * 10000)",
    "long output at once": "import os; os.truncate(1, 1 << 40); print('EFFECT')",
    "files": ("import os\nfor i in range(100000): open(f'/tmp/{i}', 'w').close()\nprint('EFFECT')"),
    "a full disk": (
        "for i in range(400):\n    with open(f'/tmp/{i}', 'wb') as f: f.write(bytes(1 << 19))\nprint('EFFECT')"
    ),
    "descriptors": "import os\nx = [os.open('/dev/null', 0) for _ in range(100)]\nprint('EFFECT')",
    "pipes filled": "import fcntl, os\nr, w = os.pipe(); fcntl.fcntl(w, 1031, 1 << 20); print('EFFECT')",
    "segmentation fault": "import ctypes; ctypes.string_at(0)",
    "abort": "import os; os.abort()",
    "more memory allowed to itself": (
        "import resource as r\nr.setrlimit(r.RLIMIT_AS, (r.RLIM_INFINITY,) * 2); print('EFFECT')"
    ),
    "more time allowed to itself": (
        "import resource as r\nr.setrlimit(r.RLIMIT_CPU, (100, 100)); print('EFFECT')"
    ),
}
FILES = {
    "write outside": attempt("open('FOLDER/mine', 'w').write('x')"),
    "link out of its folder": attempt(
        "os.symlink('FOLDER', '/tmp/out'); open('/tmp/out/mine', 'w')"
    ),
    "hard link to a secret": attempt("os.link('FOLDER/secret', '/tmp/secret')"),
    "delete all": (
        "import os, shutil\nshutil.rmtree('/', ignore_errors=True)\nshutil.rmtree('FOLDER', ignore_errors=True)\n"
        "print('EFFECT' if not os.path.exists('/usr/lib') else '')"
    ),
    "change modes": attempt("os.chmod('FOLDER/secret', 0)"),
    "poison Python": attempt(
        "open(os.__file__.replace('os.py', 'sitecustomize.py'), 'w').write('x')"
    ),
    "shared memory left behind": attempt("open('/dev/shm/rlcomp-left', 'w').write('x')"),
    "a device": attempt("os.mknod('/tmp/kmsg', 0o020666, os.makedev(1, 11)); open('/tmp/kmsg')"),
    "a FIFO": attempt("os.mkfifo('/tmp/fifo')"),
    "read a secret": "print(open('FOLDER/secret').read())",
    "read a secret by /proc": "print(open('/proc/self/root/FOLDER/secret').read())",
    "out by a parent folder": "import os; os.chdir('/'); print(open('../../..FOLDER/secret').read())",
    "out by chroot": attempt("os.mkdir('/tmp/a'); os.chroot('/tmp/a')"),
    "environment": "import os; print(dict(os.environ)); print(os.popen('env').read())",
    "environment by ctypes": "import ctypes; print(ctypes.CDLL(None).getenv(b'SANDBOX_SECRET'))",
    "environments of others": attempt(
        "print([open(f'/proc/{p}/environ').read() for p in os.listdir('/proc')])"
    ),
    "memory of its parent": attempt("open(f'/proc/{os.getppid()}/mem', 'rb')"),
    "users": attempt("open('/etc/passwd').read(); open('/etc/shadow').read()"),
    "names of other processes": attempt("os.listdir('/proc')"),
    "open files it was given": (
        "import os\nfor f in range(4, 2000):\n    try: os.fstat(f); print('EFFECT', f)\n    except OSError: pass"
    ),
    "system settings": attempt("os.listdir('/sys')"),
    "a terminal": attempt("open('/dev/tty'); os.open('/dev/ptmx', os.O_RDWR)"),
    "keys typed": attempt("import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b'x')"),
}
NETWORK = {
    "loopback": attempt("socket.create_connection(('127.0.0.1', PORT), 1)"),
    "loopback 6": attempt("socket.create_connection(('::1', PORT), 1)"),
    "a server of its own": attempt("socket.create_server(('0.0.0.0', 0))"),
    "a name looked up": attempt("socket.getaddrinfo('example.org', 80)"),
    "datagram": attempt(
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))"
    ),
    "abstract socket": attempt("socket.socket(socket.AF_UNIX).connect('\\0rlcomp-PORT')"),
    "netlink": attempt("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"),
    "raw packets": attempt("socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"),
    "socket pair": attempt("socket.socketpair()"),
}
SIGNALS = {
    "kill the parent": attempt("os.kill(os.getppid(), 9)\nif os.getppid() < 2: raise OSError"),
    "kill who asked": attempt("os.kill(PID, 9)"),
    "kill a bystander": attempt("os.kill(BYSTANDER, 9)"),
    "stop who asked": attempt("os.kill(PID, signal.SIGSTOP)"),
    "kill all": "import os, signal\nos.kill(-1, 9)",
    "kill its group": "import os\nos.killpg(0, 9)",
    "kill by descriptor": call(434, "BYSTANDER", 0),
    "signal by owner of a pipe": attempt(
        "import fcntl\nr, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETOWN, BYSTANDER)\n"
        "fcntl.fcntl(r, 10, 9)\nfcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)\nos.write(w, b'x')"
    ),
    "slow down others": attempt("os.setpriority(os.PRIO_PROCESS, 1, 19)"),
    "real time": attempt("os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"),
    "limits of another": attempt(
        "import resource; resource.prlimit(BYSTANDER, resource.RLIMIT_CPU, (0, 0))"
    ),
}
KERNEL = {
    "ptrace": call("ptrace", 16, "BYSTANDER", 0, 0),
    "memory of another": call("process_vm_readv", "PID", "buffer", 1, "buffer", 1, 0),
    "namespaces": call("unshare", 0x10000000),
    "join namespaces": call(NUMBERS.get("setns", -1), 0, 0),
    "mount": call("mount", "b'none'", "b'/tmp'", "b'tmpfs'", 0, "None"),
    "unmount": call("umount2", "b'/tmp'", 2),
    "a tree of mounts": call(428, -100, "b'/'", 1),
    "a file system": call(430, "b'tmpfs'", 0),
    "writeable again": call(442, -100, "b'/'", 0x8000, "buffer", 32),
    "bpf": call(NUMBERS.get("bpf", -1), 0, "buffer", 64),
    "io_uring": call(425, 4, "buffer"),
    "userfaultfd": call(NUMBERS.get("userfaultfd", -1), 1),
    "keys": call(NUMBERS.get("keyctl", -1), 0, -3, 1),
    "perf": call(NUMBERS.get("perf", -1), "buffer", 0, -1, -1, 0),
    "memory file": call(NUMBERS.get("memfd", -1), "b'x'", 0),
    "secret memory": call(447, 0),
    "new process, new style": call(435, "buffer", 88),
    "SysV shared memory": call("shmget", 0, 4096, 0o1600),
    "SysV messages": call("msgget", 0, 0o1600),
    "POSIX messages": call("mq_open", "b'/x'", 66, 0o600, "None"),
    "personality": call("personality", 0x0040000),
    "host name": call("sethostname", "b'x'", 1),
    "root": attempt("os.setuid(0)"),
    "root by groups": attempt("os.setgroups([0])"),
    "dumpable again": call("prctl", 4, 1, 0, 0, 0),
    "a filter of its own": call("prctl", 22, 2, "buffer", 0, 0),
    "reboot": call("reboot", 0x1234567),
    "clock": attempt("import time; time.clock_settime(time.CLOCK_REALTIME, 0)"),
    "file by handle": call("open_by_handle_at", -100, "buffer", 0),
    "swap": call("swapon", "b'/tmp/x'", 0),
    "kernel log": call("klogctl", 3, "buffer", 100),
}
PROCESSES = {
    "fork bomb": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "daemon": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        time.sleep(0.3)\n        open('FOLDER/mine', 'w').write('x')\n        time.sleep(1000)\n    os._exit(0)"
    ),
    "shell": "import subprocess\nsubprocess.run('echo EFFECT > FOLDER/mine; sleep 1000 &', shell=True)",
    "spawn": "import os\nos.posix_spawn('/bin/sh', ['sh', '-c', 'sleep 1000'], {})",
    "execute": "import os\nos.execv('/bin/sh', ['sh', '-c', 'while true; do :; done'])",
    "orphans": "import os, time\nfor _ in range(5):\n    if os.fork() == 0: time.sleep(1000)",
    "multiprocessing": (
        "import multiprocessing, time\nfor _ in range(3): multiprocessing.Process(target=time.sleep, args=(99,)).start()"
    ),
    "set-user-id": "import os\nos.execv('/bin/su', ['su', '-c', 'echo EFFECT'])",
}
OTHER_TABLE = "import ctypes\nlibc = ctypes.CDLL(None)\nprint('EFFECT' if libc.syscall(0x40000000 + 39) > 0 else '')"
CALL_OF_32_BITS = (
    "import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7)\n"
    "m.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))\n"  # mov eax, getpid; int 0x80; ret
    "f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\n"
    "print('EFFECT' if f() > 0 else '')"
)
MACHINE_CODE = (
    {"x32 system call": OTHER_TABLE, "32-bit system call": CALL_OF_32_BITS}
    if MACHINE == "x86_64"
    else {}
)
ALL = TIME | SIZE | FILES | NETWORK | SIGNALS | KERNEL | PROCESSES | MACHINE_CODE

SECRET = "8c1f-secret-of-the-machine"
SHORT = Limits(wall=0.5, cpu=2, memory=256 * MEBIBYTE, output=MEBIBYTE // 4)
FORKING = Limits(wall=0.5, cpu=2, memory=64 * MEBIBYTE, output=MEBIBYTE // 4, tasks=8, fork=True)


@pytest.fixture(scope="module")
def surroundings():
    """What a program might reach: a folder with a secret, a server, a process, this one."""
    os.environ["SANDBOX_SECRET"] = SECRET
    folder = Path(tempfile.mkdtemp())  # not below a folder that only its owner may enter
    folder.chmod(0o777)
    (folder / "secret").write_text(SECRET)
    server = socket.create_server(("127.0.0.1", 0))
    server.setblocking(False)
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0rlcomp-{server.getsockname()[1]}")
    abstract.listen()
    abstract.setblocking(False)
    bystander = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(1000)"])
    yield folder, (server, abstract), bystander
    bystander.kill()
    bystander.wait()
    server.close()
    abstract.close()
    shutil.rmtree(folder)
    del os.environ["SANDBOX_SECRET"]


def attack(run, tier, source, limits, surroundings):
    """Run an attack, and look at everything that it might have reached."""
    folder, servers, bystander = surroundings
    meant = {"FOLDER": folder, "PORT": servers[0].getsockname()[1], "BYSTANDER": bystander.pid}
    for word, value in (meant | {"PID": os.getpid()}).items():
        source = source.replace(word, str(value))
    started = time.monotonic()

    outcome = run(tier, StdioJob(source, limits=limits))

    assert time.monotonic() - started < limits.wall + 3  # a loaded machine; 0.5 s on an idle one
    assert "EFFECT" not in outcome.stdout, outcome
    assert SECRET not in outcome.stdout + outcome.message
    assert [file.name for file in folder.iterdir()] == ["secret"]
    assert (folder / "secret").read_text() == SECRET
    assert folder.stat().st_mode & 0o777 == 0o777
    assert not os.path.exists("/dev/shm/rlcomp-left")
    assert bystander.poll() is None
    for server in servers:
        with pytest.raises(BlockingIOError):
            server.accept()
    assert run(tier, StdioJob("print('well')")).stdout == "well\n"
    return outcome


@pytest.mark.parametrize("tier", ["strict", "bwrap", "portable"])
@pytest.mark.parametrize("name", ALL)
def test_an_attack_on_the_machine_has_no_effect(name, tier, run_in, surroundings):
    attack(run_in, tier, ALL[name], SHORT, surroundings)


@pytest.mark.parametrize("name", PROCESSES)
def test_processes_die_with_their_job_where_they_are_allowed(name, run_in, surroundings):
    attack(run_in, "strict", PROCESSES[name], FORKING, surroundings)


@pytest.mark.parametrize("name", TIME)
def test_a_long_program_is_a_timeout(name, run_in):
    outcome = run_in("strict", StdioJob(TIME[name], limits=Limits(wall=0.3, memory=64 * MEBIBYTE)))

    assert outcome.status == "timeout"


def test_there_are_more_than_sixty():
    assert len(ALL) > 60
