"""First process of a job: it starts the program, ends it in time and reports its end.

The program may not signal or trace this process. The kernel's facts about the program's end go to
the client over a socket that the program does not have.
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
_MAX_OPEN_FILES = 64  # of a process of the program
_OTHER_PROCESSES = 3  # of the user: two of the fork server, and this one
_MAX_MESSAGE = 4096  # bytes of the client's message with the limits, or of an error
_RESTRICTED = b"restricted"  # message of the restricted process before it runs the program


def run_job(files: Sequence[int], *, jailed: bool) -> NoReturn:
    """Run a job as its first process and send the facts about its end to the client.

    If the program cannot be started, the client gets the entry ``error`` alone.

    Args:
        files: file descriptors of the client's socket, of the request, and of the program's files
            0, 1, 2, ... The client sends the limits (:class:`rlcomp.sandbox.job.Limits`) over the
            socket.
        jailed: whether the job has its own namespaces (tier ``strict``).
    """
    client = socket.socket(fileno=files[0])
    try:
        facts = _run(client, files[1:], json.loads(client.recv(_MAX_MESSAGE)), jailed)
    except OSError as error:
        facts = {"error": str(error)}
    with contextlib.suppress(OSError):  # the client has ended
        client.send(json.dumps(facts).encode())
    os._exit(0)


def _run(
    client: socket.socket, files: Sequence[int], limits: Mapping[str, Any], jailed: bool
) -> dict[str, Any]:
    if jailed:
        options = f"size={limits['disk']},nr_inodes=512,mode=1777"
        flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
        linux.mount("tmpfs", "/tmp", "tmpfs", flags, options)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        client.close()
        os.close(reader)
        _become_program(files, writer, limits, jailed)
    os.close(writer)
    if (message := os.read(reader, _MAX_MESSAGE)) != _RESTRICTED:
        raise OSError(f"the program could not be restricted: {message.decode()}")
    start = time.monotonic()
    ended_by = _wait(client, child, limits["wall"])
    wall = time.monotonic() - start
    return _kill_all(child) | {"ended_by": ended_by, "wall": wall}


def _wait(client: socket.socket, child: int, seconds: float) -> str:
    """Wait for the end of a program and return its cause.

    Returns:
        ``itself``: the program has ended. ``wall``: its time is up. ``client``: the client has
        requested the end, or has closed the socket.
    """
    handle = os.pidfd_open(child)
    ready = select.poll()
    ready.register(handle, select.POLLIN)
    ready.register(client, select.POLLIN)
    files = {file for file, _ in ready.poll(math.ceil(1000 * seconds))}
    if handle in files:
        return "itself"
    return "client" if files else "wall"


def _kill_all(child: int) -> dict[str, Any]:
    """Kill and reap all processes of the job; return the facts about the program's end."""
    # In a process namespace -1 means all its processes; elsewhere the program is the only process.
    target = -1 if os.getpid() == 1 else child
    with contextlib.suppress(ProcessLookupError):
        os.kill(target, signal.SIGKILL)
    facts: dict[str, Any] = {}
    while True:
        try:
            process, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return facts
        if process == child:
            cpu = usage.ru_utime + usage.ru_stime
            facts = {"code": os.waitstatus_to_exitcode(status), "cpu": cpu}
            facts["peak"] = usage.ru_maxrss * 1024


def _become_program(
    files: Sequence[int], status_pipe: int, limits: Mapping[str, Any], jailed: bool
) -> NoReturn:
    # The process writes _RESTRICTED or the message of an error to status_pipe.
    try:
        # Move the files away from the numbers that the program's files need.
        status_pipe, request, *program_files = (
            fcntl.fcntl(file, fcntl.F_DUPFD, 32) for file in (status_pipe, *files)
        )
        for number, file in enumerate(program_files):
            os.dup2(file, number)
        os.closerange(len(program_files), program.LAST_FILE + 1)
        request = os.dup2(request, program.LAST_FILE + 1)
        status_pipe = os.dup2(status_pipe, request + 1)
        os.closerange(status_pipe + 1, 1 << 16)
        try:
            _restrict(limits, jailed)
        except Exception as error:
            os.write(status_pipe, str(error).encode() or b"?")
            raise
        os.write(status_pipe, _RESTRICTED)
        os.close(status_pipe)
        program.run(request)
    finally:
        os._exit(1)


def _restrict(limits: Mapping[str, Any], jailed: bool) -> None:
    """Limit this process's resources, capabilities, files and system calls."""
    if not jailed:
        linux.die_with_parent()
    os.chdir("/tmp" if jailed else "/")
    for kind, limit in _resource_limits(limits, jailed).items():
        resource.setrlimit(kind, (limit, limit))
    linux.drop_capabilities()
    if jailed:
        landlock.restrict(["/"], ["/tmp", "/dev/null"])
    else:
        landlock.restrict(namespaces.readable_paths(), ["/dev/null"])
    seccomp.restrict(fork=limits["fork"] and jailed, jailed=jailed)


def _resource_limits(limits: Mapping[str, Any], jailed: bool) -> dict[int, int]:
    """Return the limits of ``setrlimit(2)`` by resource."""
    resource_limits = {
        resource.RLIMIT_CPU: math.ceil(limits["cpu"]),
        resource.RLIMIT_AS: limits["memory"],
        resource.RLIMIT_FSIZE: limits["output"],
        resource.RLIMIT_NOFILE: _MAX_OPEN_FILES,
        resource.RLIMIT_STACK: _STACK,
        resource.RLIMIT_CORE: 1,  # with 0 the kernel would still start a handler of core dumps
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if jailed:
        resource_limits[resource.RLIMIT_NPROC] = limits["tasks"] + _OTHER_PROCESSES
    return resource_limits
