"""Main program of a fork server: an interpreter in a jail that forks a process for each job.

The server passes the files of a job to the fork and never reads them, so that no job leaves traces
in the memory of the next one. The command is ``python -c "... main()" TIER PARENT``; PARENT is a
process id. File 0 is the socket of the client. For the tier ``bwrap`` a third argument is the path
of bwrap.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from typing import NoReturn

from rlcomp.sandbox import bubblewrap, init, landlock, linux, namespaces
from rlcomp.sandbox.syscalls import conditional_calls, machine

_MAX_FILES = 8  # of a job: socket, request, 0, 1, 2, report, two ends of pipes
_MAX_MESSAGE = 500  # maximum number of characters of bubblewrap's message
_NAMESPACES_OF_A_JOB = linux.NEWPID | linux.NEWNS
# Modules that programs often import; the server imports them once for all forks.
_PRELOADED_MODULES = """
    abc array bisect calendar cmath collections collections.abc copy csv dataclasses datetime
    decimal encodings.idna enum fractions functools hashlib heapq io itertools json math numbers
    operator os pprint queue random re statistics string struct sys textwrap threading time typing
    unicodedata uuid
"""


def main() -> None:
    """Run the fork server until the client closes the socket or the parent has ended."""
    tier, parent, *program = sys.argv[1:]
    client = _take_client_socket()
    try:
        parent_handle = os.pidfd_open(int(parent))
        if os.getppid() != int(parent):
            return
        if tier == "bwrap":
            _run_bubblewrap(client, parent_handle, *program)
            return
        _preload_modules()
        landlock.version()
        if tier == "strict":
            namespaces.enter()
    except OSError as error:
        _refuse(client, error)
        return
    server = os.fork()
    if server == 0:
        linux.die_with_parent()
        os.close(parent_handle)
        _serve(client, tier)
    client.close()
    _wait_and_kill(parent_handle, server)


def serve_in_bubblewrap() -> None:
    """Run the fork server in bubblewrap's jail.

    The argument of the command is the id of bubblewrap's process outside the jail. It selects the
    user of a server that root has started.
    """
    number = int(sys.argv[1])
    client = _take_client_socket()
    try:
        _preload_modules()
        landlock.version()
        if os.geteuid() == 0:
            namespaces.leave_root(number)
    except OSError as error:
        _refuse(client, error)
        return
    _serve(client, "bwrap", lifeline=1)


def _take_client_socket() -> socket.socket:
    """Return the client's socket, moved from file 0; hide how the interpreter was started."""
    # A program may import the standard library only, not the folder of this package.
    del sys.path[0]
    sys.argv[:] = ["program"]
    client = socket.socket(fileno=os.dup(0))
    os.set_inheritable(client.fileno(), False)
    null_file = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null_file, 0)
    os.close(null_file)
    return client


def _refuse(client: socket.socket, reason: object) -> None:
    with contextlib.suppress(OSError):  # the client has ended
        client.send(json.dumps({"error": str(reason)}).encode())


def _run_bubblewrap(client: socket.socket, parent_handle: int, program: str) -> None:
    if not program:
        raise OSError(bubblewrap.ABSENT)
    command = bubblewrap.command(program, namespaces.readable_paths(), root=os.geteuid() == 0)
    errors = os.memfd_create("errors")
    # bubblewrap's own --die-with-parent does not end a server that has left root. So the server
    # polls ``lifeline``: the other end of this pipe closes when this process ends.
    lifeline, _parent_end = os.pipe()
    server = os.fork()
    if server == 0:
        bubblewrap.exec_command(command, client.fileno(), lifeline, errors)
    _wait_and_kill(parent_handle, server)
    lines = os.pread(errors, 1 << 16, 0).decode(errors="replace").split("\n")
    _refuse(
        client, next(filter(None, reversed(lines)), "bwrap ended without a message")[:_MAX_MESSAGE]
    )


def _preload_modules() -> None:
    for name in _PRELOADED_MODULES.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    namespaces.readable_paths()  # fill its cache
    gc.collect()
    gc.freeze()


def _wait_and_kill(parent_handle: int, server: int) -> None:
    """Wait until the server or the parent has ended, then kill the server."""
    handle = os.pidfd_open(server)
    ready = select.poll()
    for file in (parent_handle, handle):
        ready.register(file, select.POLLIN)
    ready.poll()
    with contextlib.suppress(ProcessLookupError):
        os.kill(server, signal.SIGKILL)
    os.waitpid(server, 0)


def _reset_signal_handlers() -> None:
    """Set the signal handlers of a new interpreter."""
    # Python ignores the first two, and the kernel lets nobody handle the others.
    unchanged_signals = {signal.SIGPIPE, signal.SIGXFSZ, signal.SIGKILL, signal.SIGSTOP}
    for number in signal.valid_signals() - unchanged_signals:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _reap(number: int, frame: object) -> None:
    """Reap ended forks; a handler of SIGCHLD."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _serve(client: socket.socket, tier: str, lifeline: int | None = None) -> NoReturn:
    """Fork for each message until the socket or the other end of ``lifeline`` is closed."""
    client.send(json.dumps({"tier": tier}).encode())
    jailed = tier == "strict"
    _reset_signal_handlers()
    signal.signal(signal.SIGCHLD, _reap)
    numbers = conditional_calls(machine())
    ready = select.poll()
    ready.register(client, select.POLLIN)
    if lifeline is not None:
        ready.register(lifeline, 0)  # poll always reports a closed file
    while True:
        if lifeline in {file for file, _ in ready.poll()}:
            os._exit(0)
        message, files, _, _ = socket.recv_fds(client, 1, _MAX_FILES)
        if not message:
            os._exit(0)
        child = linux.clone(_NAMESPACES_OF_A_JOB, numbers) if jailed else os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            client.close()
            try:
                if not jailed:
                    linux.die_with_parent()
                init.run_job(files, jailed=jailed)
            finally:
                os._exit(1)
        for file in files:
            os.close(file)
