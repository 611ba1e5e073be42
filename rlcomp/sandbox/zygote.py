"""Fork server: a warm interpreter in a jail that forks a process for each job.

It never reads a job: it passes files on to the fork, so that nothing of one job is in the memory of
the next one. ``python -c "... main()" TIER PARENT`` with the socket of whoever asks as file 0.
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

from rlcomp.sandbox import init, landlock, linux, namespaces
from rlcomp.sandbox.syscalls import conditional, machine

FILES = 8
_NAMESPACES_OF_A_JOB = linux.NEWPID | linux.NEWNS
# What programs import most; a fork has it already.
_WARM = """abc array bisect calendar cmath collections copy csv dataclasses datetime decimal enum
    fractions functools hashlib heapq io itertools json math numbers operator os pprint queue random
    re string struct sys textwrap threading time typing unicodedata uuid statistics encodings.idna
    collections.abc"""


def main() -> None:
    """Be the fork server until the socket is closed or its parent is gone."""
    tier, parent = sys.argv[1], int(sys.argv[2])
    # The folder that this package lies in may hold others, and a program has the standard library.
    del sys.path[0]
    sys.argv[:] = ["program"]
    asker = socket.socket(fileno=os.dup(0))
    os.set_inheritable(asker.fileno(), False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        guardian = os.pidfd_open(parent)
        if os.getppid() != parent:
            return
        _warm_up()
        landlock.version()
        if tier == "strict":
            namespaces.enter()
    except OSError as error:
        asker.send(json.dumps({"error": str(error)}).encode())
        return
    server = os.fork()
    if server == 0:
        linux.die_with_parent()
        os.close(guardian)
        asker.send(json.dumps({"tier": tier}).encode())
        _serve(asker, jailed=tier == "strict")
    asker.close()
    _guard(guardian, server)


def _warm_up() -> None:
    for name in _WARM.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    namespaces.readable_paths()  # looked up once
    gc.collect()
    gc.freeze()


def _guard(parent: int, server: int) -> None:
    """Wait until either the server or its parent has ended, and end with everything."""
    handle = os.pidfd_open(server)
    ready = select.poll()
    for file in (parent, handle):
        ready.register(file, select.POLLIN)
    ready.poll()
    with contextlib.suppress(ProcessLookupError):
        os.kill(server, signal.SIGKILL)
    os.waitpid(server, 0)


def _default_signals() -> None:
    """Programs find signals as a new interpreter does, whatever this one was started under."""
    as_python_has_them = {signal.SIGPIPE, signal.SIGXFSZ, signal.SIGKILL, signal.SIGSTOP}
    for number in signal.valid_signals() - as_python_has_them:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _reap(number: int, frame: object) -> None:
    """Let ended forks go."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _serve(asker: socket.socket, *, jailed: bool) -> NoReturn:
    """A fork for each message."""
    _default_signals()
    signal.signal(signal.SIGCHLD, _reap)
    numbers = conditional(machine())
    while True:
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
