"""Fork server: a warm interpreter in a jail that forks a process for each job.

It never reads a job: it passes files on to the fork, so that no job leaves traces in the memory of
the next one. It is started as ``python -c "... main()" TIER PARENT`` with the socket of the asker
as file 0; for the tier ``bwrap`` a third argument is the path of bwrap.
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
from rlcomp.sandbox.syscalls import conditional, machine

FILES = 8
_TOLD = 500  # most characters of bubblewrap's message
_NAMESPACES_OF_A_JOB = linux.NEWPID | linux.NEWNS
# Modules that programs often import; forks have them already.
_WARM = """abc array bisect calendar cmath collections copy csv dataclasses datetime decimal enum
    fractions functools hashlib heapq io itertools json math numbers operator os pprint queue random
    re string struct sys textwrap threading time typing unicodedata uuid statistics encodings.idna
    collections.abc"""


def main() -> None:
    """Guard the fork server until the socket is closed or its parent is gone."""
    tier, parent, *program = sys.argv[1:]
    asker = _asker()
    try:
        guardian = os.pidfd_open(int(parent))
        if os.getppid() != int(parent):
            return
        if tier == "bwrap":
            _guard_bubblewrap(asker, guardian, *program)
            return
        _warm_up()
        landlock.version()
        if tier == "strict":
            namespaces.enter()
    except OSError as error:
        _refuse(asker, error)
        return
    server = os.fork()
    if server == 0:
        linux.die_with_parent()
        os.close(guardian)
        _serve(asker, tier)
    asker.close()
    _guard(guardian, server)


def inside() -> None:
    """Be the fork server in bubblewrap's jail; the argument is the number of a process outside."""
    number = int(sys.argv[1])
    asker = _asker()
    try:
        _warm_up()
        landlock.version()
        if os.geteuid() == 0:
            namespaces.leave_root(number)
    except OSError as error:
        _refuse(asker, error)
        return
    _serve(asker, "bwrap", lifeline=1)


def _asker() -> socket.socket:
    """Return the socket, moved from file 0, and remove traces of the interpreter's start."""
    # A program may import the standard library only, not the folder of this package.
    del sys.path[0]
    sys.argv[:] = ["program"]
    asker = socket.socket(fileno=os.dup(0))
    os.set_inheritable(asker.fileno(), False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return asker


def _refuse(asker: socket.socket, reason: object) -> None:
    with contextlib.suppress(OSError):  # the asker has gone
        asker.send(json.dumps({"error": str(reason)}).encode())


def _guard_bubblewrap(asker: socket.socket, guardian: int, program: str) -> None:
    if not program:
        raise OSError(bubblewrap.ABSENT)
    words = bubblewrap.command(program, namespaces.readable_paths(), root=os.geteuid() == 0)
    errors = os.memfd_create("errors")
    # bubblewrap's own --die-with-parent does not end a server that has left root.
    lifeline, _held = os.pipe()
    server = os.fork()
    if server == 0:
        bubblewrap.become(words, asker.fileno(), lifeline, errors)
    _guard(guardian, server)
    lines = os.pread(errors, 1 << 16, 0).decode(errors="replace").split("\n")
    _refuse(asker, next(filter(None, reversed(lines)), "bwrap ended without a word")[:_TOLD])


def _warm_up() -> None:
    for name in _WARM.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    namespaces.readable_paths()  # fill its cache
    gc.collect()
    gc.freeze()


def _guard(parent: int, server: int) -> None:
    """Wait until the server or its parent has ended, then kill the server."""
    handle = os.pidfd_open(server)
    ready = select.poll()
    for file in (parent, handle):
        ready.register(file, select.POLLIN)
    ready.poll()
    with contextlib.suppress(ProcessLookupError):
        os.kill(server, signal.SIGKILL)
    os.waitpid(server, 0)


def _default_signals() -> None:
    """Reset signal handlers to those of a new interpreter."""
    handled = {signal.SIGPIPE, signal.SIGXFSZ, signal.SIGKILL, signal.SIGSTOP}  # as Python has them
    for number in signal.valid_signals() - handled:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _reap(number: int, frame: object) -> None:
    """Reap ended forks."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _serve(asker: socket.socket, tier: str, lifeline: int | None = None) -> NoReturn:
    """Fork for each message until the socket or the other end of ``lifeline`` is closed."""
    asker.send(json.dumps({"tier": tier}).encode())
    jailed = tier == "strict"
    _default_signals()
    signal.signal(signal.SIGCHLD, _reap)
    numbers = conditional(machine())
    ready = select.poll()
    ready.register(asker, select.POLLIN)
    if lifeline is not None:
        ready.register(lifeline, 0)  # poll always reports its end
    while True:
        if lifeline in {file for file, _ in ready.poll()}:
            os._exit(0)
        message, files, _, _ = socket.recv_fds(asker, 1, FILES)
        if not message:
            os._exit(0)
        child = linux.clone(_NAMESPACES_OF_A_JOB, numbers) if jailed else os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            asker.close()
            try:
                if not jailed:
                    linux.die_with_parent()
                init.run_job(files, jailed=jailed)
            finally:
                os._exit(1)
        for file in files:
            os.close(file)
