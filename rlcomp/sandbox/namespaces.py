"""Jail of namespaces, with its own users, processes, files, network, queues and host name.

The jail's root is a read-only file system of 1 MiB with the libraries of the system and of Python.
There is no /proc, /sys or /etc, no device except /dev/null, and no earlier mount.

Source:
    ``namespaces(7)``, ``user_namespaces(7)``, ``pivot_root(2)``.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from collections.abc import Sequence

from rlcomp.sandbox import linux

_SYSTEM_FOLDERS = ("/usr", "/lib", "/lib32", "/lib64", "/bin")
_NEW_ROOT = "/tmp"  # the new root is built here, in a new mount namespace
_ALL_NAMESPACES = (
    linux.NEWNS
    | linux.NEWCGROUP
    | linux.NEWUTS
    | linux.NEWIPC
    | linux.NEWUSER
    | linux.NEWPID
    | linux.NEWNET
)
# Users of servers that root starts. Such a user has no files and no other processes. The limit on
# processes applies to it, but would not apply to root.
_FIRST_USER, _USERS = 64000, 1000
_JAIL_USER = 1000  # user id inside the jail


@functools.cache
def readable_paths() -> list[str]:
    """Return the folders that a program may read: libraries of the system and of Python."""
    base = {"platbase": sys.base_exec_prefix}  # the installation below a virtual environment
    names = ("stdlib", "platstdlib")
    libraries = [os.path.realpath(sysconfig.get_path(name, vars=base)) for name in names]
    shared = sysconfig.get_config_var("LIBDIR")
    paths = [*_SYSTEM_FOLDERS, *libraries, *([os.path.realpath(shared)] if shared else [])]
    existing = [path for path in dict.fromkeys(paths) if os.path.isdir(path)]
    return [path for path in existing if not within_another(path, existing)]


def within_another(path: str, others: Sequence[str]) -> bool:
    """Return whether a path is below one of other paths."""
    return any(path.startswith(other + "/") for other in others)


def enter() -> None:
    """Move this process into the jail; the next process that it forks is the first one inside.

    Raises:
        OSError: the kernel or the machine's settings do not allow it.
    """
    paths = readable_paths()
    # Opened before the change of root: the new root has no /proc.
    process_folder = os.open("/proc/self", os.O_PATH | os.O_DIRECTORY)
    # Root makes the mounts before it changes user, because Python may be in root's home.
    as_root = os.geteuid() == 0
    if as_root:
        linux.unshare(linux.NEWNS)
        _change_root(paths)
        leave_root(os.getpid())
    ids = os.geteuid(), os.getegid()
    linux.unshare(_ALL_NAMESPACES)
    _map_ids(process_folder, *ids)
    os.close(process_folder)
    if not as_root:
        _change_root(paths)


def leave_root(number: int) -> None:
    """Change from root to a user that owns nothing.

    Args:
        number: id of a process; it selects one of 1000 users, so that two servers rarely share a
            user.
    """
    user = _FIRST_USER + number % _USERS
    try:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    except OSError as error:
        raise OSError(error.errno, f"change to user {user}: {error.strerror}") from error
    linux.set_dumpable()


def _map_ids(process_folder: int, user: int, group: int) -> None:
    lines = {
        "setgroups": "deny",
        "uid_map": f"{_JAIL_USER} {user} 1",
        "gid_map": f"{_JAIL_USER} {group} 1",
    }
    for name, line in lines.items():
        file = os.open(name, os.O_WRONLY, dir_fd=process_folder)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)


def _change_root(paths: Sequence[str]) -> None:
    """Make a read-only root that has only some paths and /dev/null, and enter it."""
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    # Open the paths first: the new root may be mounted over some of them.
    files = {path: os.open(path, os.O_PATH) for path in [*paths, "/dev/null"]}
    links = {path: os.readlink(path) for path in paths if os.path.islink(path)}
    os.umask(0o022)
    flags = linux.MS_NOSUID | linux.MS_NODEV
    linux.mount("tmpfs", _NEW_ROOT, "tmpfs", flags, "size=1m,nr_inodes=256,mode=755")
    for path, file in files.items():
        if path in links:
            os.symlink(links[path], _NEW_ROOT + path)
        else:
            _bind(file, path)
        os.close(file)
    os.mkdir(_NEW_ROOT + "/tmp")
    os.mkdir(_NEW_ROOT + "/old")
    linux.system_call("pivot_root", os.fsencode(_NEW_ROOT), os.fsencode(_NEW_ROOT + "/old"))
    os.chdir("/")
    linux.detach("/old")
    os.rmdir("/old")
    for path in files.keys() - links.keys() - {"/dev/null"}:
        linux.make_read_only(path, below=True)
    linux.make_read_only("/dev/null", devices=True)
    linux.make_read_only("/")


def _bind(file: int, path: str) -> None:
    target = _NEW_ROOT + path
    if path == "/dev/null":
        os.mkdir(os.path.dirname(target), 0o755)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    else:
        os.makedirs(target, 0o755)
    linux.mount(f"/proc/self/fd/{file}", target, flags=linux.MS_BIND | linux.MS_REC)
