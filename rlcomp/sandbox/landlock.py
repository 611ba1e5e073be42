"""Landlock: the kernel's restriction of a process to some files.

Source:
    ``landlock(7)``; ``linux/landlock.h``.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence

from rlcomp.sandbox.linux import system_call

_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read a file, read a directory
# LANDLOCK_RULE_PATH_BENEATH, and the flag LANDLOCK_CREATE_RULESET_VERSION.
_PATH_BENEATH, _VERSION = 1, 1
# The number of rights on files by ABI: 13, then with refer, truncate, ioctl on devices.
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
# Rights that a rule on a file may grant: execute, write, read, truncate, ioctl.
_FILE_RIGHTS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15


def version() -> int:
    """Return the version of this kernel's Landlock ABI; raise ``OSError`` if there is none."""
    return system_call("landlock_create_ruleset", None, 0, _VERSION)


def ruleset_of(abi: int) -> tuple[int, bytes]:
    """Return the bits of the file rights of an ABI, and the bytes of ``landlock_ruleset_attr``."""
    rights = (1 << _RIGHTS.get(abi, 16)) - 1
    if abi < 4:
        return rights, struct.pack("=Q", rights)
    network = 3  # rights to bind and to connect by TCP
    if abi < 6:
        return rights, struct.pack("=QQ", rights, network)
    return rights, struct.pack("=QQQ", rights, network, 3)  # abstract sockets, signals


def restrict(readable: Sequence[str], writable: Sequence[str]) -> None:
    """Restrict this process to reading and executing below some paths, full access below others.

    TCP, and signals and abstract sockets to other processes, are refused too if the kernel supports
    this. The process must have set ``no_new_privs``.
    """
    rights, attributes = ruleset_of(version())
    ruleset = system_call("landlock_create_ruleset", attributes, len(attributes), 0)
    for paths, access in ((readable, rights & _READ), (writable, rights)):
        for path in paths:
            _allow(ruleset, path, access)
    system_call("landlock_restrict_self", ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    folder_or_file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        access &= -1 if os.path.isdir(path) else _FILE_RIGHTS
        rule = ctypes.create_string_buffer(struct.pack("=Qi", access, folder_or_file))
        system_call("landlock_add_rule", ruleset, _PATH_BENEATH, ctypes.addressof(rule), 0)
    finally:
        os.close(folder_or_file)
