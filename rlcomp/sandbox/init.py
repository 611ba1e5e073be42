"""The first process of a job, which starts the program, ends it in time and reports its end.

It is trusted: the program may not signal or trace it. The kernel's facts about the program's end go
to the asker over a socket that the program does not have.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rlcomp.sandbox import landlock, linux, namespaces, program, seccomp

_STACK = 64 << 20  # bytes for the main thread, for deep recursions
_FILES = 64
_OTHERS = 3  # other processes of the user in the jail: two of the fork server, and init
_HEADER = 4096
_SHUT_IN = b"shut in"


def run_job(files: Sequence[int], *, jailed: bool) -> NoReturn:
    """Be the first process of a job.

    Args:
        files: the socket of the asker, the job, and the program's files 0, 1, 2, ...
        jailed: whether it has namespaces of its own (tier ``strict``).
    """
    asker = socket.socket(fileno=files[0])
    try:
        facts = _run(asker, files[1:], json.loads(asker.recv(_HEADER)), jailed)
    except OSError as error:
        facts = {"error": str(error)}
    with contextlib.suppress(OSError):  # the asker has gone
        asker.send(json.dumps(facts).encode())
    os._exit(0)


def _run(
    asker: socket.socket, files: Sequence[int], header: Mapping[str, Any], jailed: bool
) -> dict[str, Any]:
    if jailed:
        options = f"size={header['disk']},nr_inodes=512,mode=1777"
        flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
        linux.mount("tmpfs", "/tmp", "tmpfs", flags, options)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        asker.close()
        os.close(reader)
        _become_program(files, writer, header, jailed)
    os.close(writer)
    if (word := os.read(reader, _HEADER)) != _SHUT_IN:
        raise OSError(f"the program could not be shut in: {word.decode()}")
    start = time.monotonic()
    ended_by = _wait(asker, child, header["wall"])
    wall = time.monotonic() - start
    return _bury(child) | {"ended_by": ended_by, "wall": wall}


def _wait(asker: socket.socket, child: int, seconds: float) -> str:
    """Wait until the program ends, its time is up, or the asker closes the socket."""
    handle = os.pidfd_open(child)
    ready = select.poll()
    ready.register(handle, select.POLLIN)
    ready.register(asker, select.POLLIN)
    files = {file for file, _ in ready.poll(math.ceil(1000 * seconds))}
    if handle in files:
        return "itself"
    return "asker" if files else "wall"


def _bury(child: int) -> dict[str, Any]:
    """Kill and wait for all processes left; return the facts about the program's end."""
    # The first process of a namespace kills all its processes; elsewhere there is only the program.
    target = -1 if os.getpid() == 1 else child
    with contextlib.suppress(ProcessLookupError):
        os.kill(target, signal.SIGKILL)
    facts: dict[str, Any] = {}
    while True:
        try:
            ended, status, used = os.wait4(-1, 0)
        except ChildProcessError:
            return facts
        if ended == child:
            cpu = used.ru_utime + used.ru_stime
            facts = {"code": os.waitstatus_to_exitcode(status), "cpu": cpu}
            facts["peak"] = used.ru_maxrss * 1024


def _become_program(
    files: Sequence[int], tell: int, header: Mapping[str, Any], jailed: bool
) -> NoReturn:
    try:
        # Move the files away from the numbers that the program's files need.
        tell, payload, *own = (fcntl.fcntl(file, fcntl.F_DUPFD, 32) for file in (tell, *files))
        for number, file in enumerate(own):
            os.dup2(file, number)
        os.closerange(len(own), program.LAST_FILE + 1)
        payload = os.dup2(payload, program.LAST_FILE + 1)
        tell = os.dup2(tell, payload + 1)
        os.closerange(tell + 1, 1 << 16)
        try:
            _shut_in(header, jailed)
        except Exception as error:
            os.write(tell, str(error).encode() or b"?")
            raise
        os.write(tell, _SHUT_IN)
        os.close(tell)
        program.run(payload)
    finally:
        os._exit(1)


def _shut_in(header: Mapping[str, Any], jailed: bool) -> None:
    """Set limits, drop capabilities, and restrict files and system calls."""
    if not jailed:
        linux.die_with_parent()
    os.chdir("/tmp" if jailed else "/")
    for kind, most in _limits(header, jailed).items():
        resource.setrlimit(kind, (most, most))
    linux.drop_capabilities()
    if jailed:
        landlock.restrict(["/"], ["/tmp", "/dev/null"])
    else:
        landlock.restrict(namespaces.readable_paths(), ["/dev/null"])
    seccomp.restrict(fork=header["fork"] and jailed, jailed=jailed)


def _limits(header: Mapping[str, Any], jailed: bool) -> dict[int, int]:
    limits = {
        resource.RLIMIT_CPU: math.ceil(header["cpu"]),
        resource.RLIMIT_AS: header["memory"],
        resource.RLIMIT_FSIZE: header["output"],
        resource.RLIMIT_NOFILE: _FILES,
        resource.RLIMIT_STACK: _STACK,
        resource.RLIMIT_CORE: 1,  # with 0 the kernel would still start a handler of core dumps
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if jailed:
        limits[resource.RLIMIT_NPROC] = header["tasks"] + _OTHERS
    return limits
