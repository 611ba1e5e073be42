"""Linux system calls that Python has no function for, made by ctypes.

A failed call raises ``OSError`` with the name of the call.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Mapping

from rlcomp.sandbox.syscalls import machine, sandbox_calls

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MNT_DETACH = 2

_AT_RECURSIVE, _AT_FDCWD = 0x8000, -100
_RDONLY, _NOSUID, _NODEV = 1, 2, 4  # flags of mount_setattr
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
_CAPABILITY_VERSION_3 = 0x20080522

# PyDLL does not release the interpreter's lock, which a cloned child must hold.
_libc = ctypes.PyDLL(None, use_errno=True)


def _check(result: int, call_name: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call_name}: {os.strerror(number)}")
    return result


def _call(name: str, numbers: Mapping[str, int], *arguments: int | bytes | None) -> int:
    """Make a system call by its number and return its result.

    Args:
        name: name of the call.
        numbers: numbers of the calls by name.
        arguments: arguments of the call.
    """
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _check(_libc.syscall(ctypes.c_long(numbers[name]), *words), name)


def system_call(name: str, *arguments: int | bytes | None) -> int:
    """Make a system call of :func:`rlcomp.sandbox.syscalls.sandbox_calls`; return its result."""
    return _call(name, sandbox_calls(machine()), *arguments)


def prctl(option: int, *arguments: int) -> int:
    """Call ``prctl(2)`` and return its result; absent arguments are 0."""
    words = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    return _check(_libc.prctl(option, *words), f"prctl {option}")


def unshare(flags: int) -> None:
    """Call ``unshare(2)``: enter new namespaces."""
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Call ``mount(2)``."""
    words = [os.fsencode(each) for each in (source, target, kind)]
    result = _libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(options))
    _check(result, f"mount of {source} on {target}")


def detach(target: str) -> None:
    """Unmount lazily by ``umount2(2)``: the mount becomes unreachable at once."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"unmount of {target}")


def make_read_only(path: str, *, below: bool = False, devices: bool = False) -> None:
    """Make a mount read-only, without set-uid programs.

    Args:
        path: path of the mount.
        below: whether to change also the mounts below it.
        devices: whether to allow device files.
    """
    flags = _RDONLY | _NOSUID | (0 if devices else _NODEV)
    attributes = (ctypes.c_uint64 * 4)(flags, 0, 0, 0)
    address, size = ctypes.addressof(attributes), ctypes.sizeof(attributes)
    where = os.fsencode(path)
    system_call("mount_setattr", _AT_FDCWD, where, _AT_RECURSIVE * below, address, size)


def clone(flags: int, numbers: Mapping[str, int]) -> int:
    """Fork into new namespaces; return 0 in the child, the child's process id in the parent.

    Args:
        flags: ``CLONE_NEW...``.
        numbers: numbers of the system calls by name; the caller looks them up once for all forks.
    """
    return _call("clone", numbers, flags | signal.SIGCHLD, 0, 0, 0, 0)


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def set_dumpable() -> None:
    """Make /proc/self accessible to this process again after a change of user."""
    prctl(_PR_SET_DUMPABLE, 1)


def drop_capabilities() -> None:
    """Drop all capabilities, and forbid executed files to add capabilities."""
    for number in range(64):
        try:
            prctl(_PR_CAPBSET_DROP, number)
        except OSError:  # the kernel does not know the number, or forbids to drop it
            break
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)())), "capset")
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
