"""System call filter (seccomp): a BPF program that allows listed calls and refuses others.

Refused calls of Linux 5.0 and earlier fail with EPERM. Refused calls of later versions fail with
ENOSYS, so that the C library falls back to older calls. A call of another architecture (x32, 32
bit) kills the process.

Source:
    ``seccomp(2)``; ``linux/filter.h``, ``linux/seccomp.h``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Sequence

from rlcomp.sandbox.linux import prctl
from rlcomp.sandbox.syscalls import (
    allowed_calls,
    audit_arch,
    conditional_calls,
    file_changing_calls,
    machine,
)

# Opcodes of classic BPF that load a word of seccomp_data, jump or return.
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
# Values that a filter returns: SECCOMP_RET_ALLOW, _KILL_PROCESS, and _ERRNO with EPERM or ENOSYS.
ALLOW, KILL, REFUSE, ABSENT = 0x7FFF0000, 0x80000000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in seccomp_data
_X32_BIT = 0x40000000
# The first call of Linux 5.1; from here on, a call has the same number on every machine.
_FIRST_NEW = 424

_THREAD = 0x10000  # CLONE_THREAD
_NEW_NAMESPACES_OR_PARENT = 0x7E020000 | 0x8000  # all CLONE_NEW..., CLONE_PARENT
# F_DUPFD to F_SETLKW, F_DUPFD_CLOEXEC, F_GETPIPE_SZ. Not F_SETOWN, F_SETOWN_EX and F_SETSIG: they
# make the kernel signal any process of the user.
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 1030, 1032)
# TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX.
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
_PRCTL = (15, 16)  # PR_SET_NAME, PR_GET_NAME
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2

Instruction = tuple[int, int, int, int]


def filter_program(name: str, *, fork: bool, jailed: bool, process: int) -> list[Instruction]:
    """Return the filter as instructions ``(code, jump if true, jump if false, operand)``.

    Args:
        name: name of the machine.
        fork: whether the process may make processes and execute files.
        jailed: whether the process can reach only its own processes and files. Otherwise it may
            not make threads or change files, and may signal only itself.
        process: id of the process.
    """
    number = conditional_calls(name)
    program: list[Instruction] = [
        (LOAD, 0, 0, _ARCH),
        (EQUAL, 1, 0, audit_arch(name)),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, _NUMBER),
        (AT_LEAST, 0, 1, _X32_BIT),
        (RETURN, 0, 0, KILL),
    ]
    unconditional = [*allowed_calls(name).values()]
    if fork:
        unconditional += [number[call] for call in _FORKING if call in number]
    if jailed:
        unconditional += [number["kill"], number["tgkill"], *file_changing_calls(name).values()]
    for each in unconditional:
        program += [(EQUAL, 0, 1, each), (RETURN, 0, 0, ALLOW)]
    if jailed:
        program += _when(number["clone"], _clone(fork))
    else:
        for call in ("kill", "tgkill"):
            program += _when(number[call], _one_of(0, (process,)))
    program += _when(number["prlimit64"], _one_of(0, (0,)))  # 0: the process itself
    program += _when(number["fcntl"], _one_of(1, _FCNTL))
    program += _when(number["ioctl"], _one_of(1, _IOCTL))
    program += _when(number["prctl"], _one_of(0, _PRCTL))
    return [*program, (AT_LEAST, 0, 1, _FIRST_NEW), (RETURN, 0, 0, ABSENT), (RETURN, 0, 0, REFUSE)]


_FORKING = ("fork", "vfork", "execve", "setsid", "setpgid")


def _when(call: int, body: Sequence[Instruction]) -> list[Instruction]:
    """Return code that runs ``body`` for a call and skips it for other calls."""
    return [(EQUAL, 0, len(body), call), *body]


def _one_of(argument: int, values: Sequence[int]) -> list[Instruction]:
    """Return code that allows a call if the low word of an argument is one of some values."""
    body: list[Instruction] = [(LOAD, 0, 0, _ARGUMENTS + 8 * argument)]
    for value in values:
        body += [(EQUAL, 0, 1, value), (RETURN, 0, 0, ALLOW)]
    return [*body, (RETURN, 0, 0, REFUSE)]


def _clone(fork: bool) -> list[Instruction]:
    """Return code that refuses new namespaces and siblings, and processes without ``fork``."""
    body: list[Instruction] = [
        (LOAD, 0, 0, _ARGUMENTS),
        (ANY_BIT, 0, 1, _NEW_NAMESPACES_OR_PARENT),
        (RETURN, 0, 0, REFUSE),
    ]
    if not fork:
        body += [(ANY_BIT, 1, 0, _THREAD), (RETURN, 0, 0, REFUSE)]
    return [*body, (RETURN, 0, 0, ALLOW)]


def install(program: Sequence[Instruction]) -> None:
    """Apply a filter to this process permanently; the process must have set ``no_new_privs``."""
    code = b"".join(struct.pack("=HBBI", *each) for each in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(buffer)))
    prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(header))


def restrict(*, fork: bool, jailed: bool) -> None:
    """Build the filter for this machine and apply it to this process."""
    install(filter_program(machine(), fork=fork, jailed=jailed, process=os.getpid()))
