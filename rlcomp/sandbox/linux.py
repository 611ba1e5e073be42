"""Linux calls without a function in Python, by ctypes.

A refused call raises ``OSError`` with its name.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Mapping

from rlcomp.sandbox.syscalls import machine, own

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

# PyDLL keeps the interpreter's lock, which a cloned child must hold.
_libc = ctypes.PyDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def raw(name: str, numbers: Mapping[str, int], *arguments: int | bytes | None) -> int:
    """Make a system call by its number."""
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _check(_libc.syscall(ctypes.c_long(numbers[name]), *words), name)


def system_call(name: str, *arguments: int | bytes | None) -> int:
    """Make one of the system calls of the sandbox itself."""
    return raw(name, own(machine()), *arguments)


def prctl(option: int, *arguments: int) -> int:
    """Call ``prctl(2)``; absent arguments are 0."""
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
    """Call ``umount2(2)`` lazily: the mount leaves the tree at once."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"unmount of {target}")


def make_read_only(path: str, *, below: bool = False, devices: bool = False) -> None:
    """Make a mount read-only, without devices or set-uid; ``below``: also the mounts below it."""
    flags = _RDONLY | _NOSUID | (0 if devices else _NODEV)
    attributes = (ctypes.c_uint64 * 4)(flags, 0, 0, 0)
    address, size = ctypes.addressof(attributes), ctypes.sizeof(attributes)
    where = os.fsencode(path)
    system_call("mount_setattr", _AT_FDCWD, where, _AT_RECURSIVE * below, address, size)


def clone(flags: int, numbers: Mapping[str, int]) -> int:
    """Fork into new namespaces: 0 in the child, its process id in the parent."""
    return raw("clone", numbers, flags | signal.SIGCHLD, 0, 0, 0, 0)


def die_with_parent() -> None:
    """Have this process killed when the thread that forked it ends."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def set_dumpable() -> None:
    """Give this process its /proc/self back after a change of user."""
    prctl(_PR_SET_DUMPABLE, 1)


def drop_capabilities() -> None:
    """Drop all capabilities, and forbid to regain one by executing a file."""
    for number in range(64):
        try:
            prctl(_PR_CAPBSET_DROP, number)
        except OSError:  # unknown to this kernel, or no right to drop one
            break
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)())), "capset")
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
