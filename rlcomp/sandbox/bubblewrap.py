"""Jail made by bubblewrap, for machines where only bubblewrap may make namespaces.

Bubblewrap may make namespaces if it is set-uid or has an AppArmor profile. The fork server runs in
the jail, with its own users, processes, network, queues and host name. The jail has the libraries
(read-only) and no other files: no /proc, /sys, /etc or home. All jobs of a fork server share the
jail. So it has no writable folder, and each job also has the restrictions of tier ``portable``.

Source:
    ``bwrap(1)``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rlcomp.sandbox.namespaces import within_another

ABSENT = (
    "bwrap is not in PATH: apt-get install bubblewrap (Debian, Ubuntu), dnf install bubblewrap "
    "(Fedora)"
)
_PACKAGE = Path(__file__).resolve().parents[1]
_CODE = (
    "import sys; sys.path[0] = {!r}; "
    "from rlcomp.sandbox.fork_server_child import serve_in_bubblewrap; serve_in_bubblewrap()"
)
_NAMESPACES = ("pid", "net", "ipc", "uts")


def command(program: str, readable: Sequence[str], *, root: bool) -> list[str]:
    """Return the command line that starts a fork server in the jail.

    The caller must append the id of bubblewrap's process, which selects the user of the server if
    root starts it.

    Args:
        program: path of bwrap.
        readable: folders that programs may read.
        root: whether the caller is root. Then the fork server itself changes to another user. It
            keeps only the capabilities for this change, and has no user namespace, because the
            change would be impossible there.
    """
    arguments = [program, "--die-with-parent", "--as-pid-1"]
    arguments += [f"--unshare-{space}" for space in _NAMESPACES] + ["--unshare-cgroup-try"]
    if root:
        arguments += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        arguments += ["--unshare-user-try"]
    interpreter = os.path.realpath(sys.executable)
    own_files = [interpreter, str(_PACKAGE / "__init__.py"), str(_PACKAGE / "sandbox")]
    paths = [*readable, *(path for path in own_files if not within_another(path, readable))]
    # Name each folder, because bwrap makes unnamed folders readable by their owner only.
    parents = (folder for path in paths for folder in [*Path(path).parents][-2::-1])
    for folder in dict.fromkeys(parents):  # the uppermost first
        arguments += ["--dir", str(folder)]
    for path in paths:
        if os.path.islink(path):
            arguments += ["--symlink", os.readlink(path), path]
        else:
            arguments += ["--ro-bind", path, path]
    arguments += ["--dir", "/tmp", "--dir", "/dev", "--dev-bind", "/dev/null", "/dev/null"]
    arguments += ["--remount-ro", "/", "--chdir", "/", "--"]
    return [*arguments, interpreter, "-S", "-s", "-B", "-c", _CODE.format(str(_PACKAGE.parent))]


def exec_command(arguments: Sequence[str], *files: int) -> NoReturn:
    """Replace this process by a command.

    Args:
        arguments: the command; the id of this process is appended.
        files: file descriptors that become 0, 1 and 2; an error is written to 2.
    """
    for number, file in enumerate(files):
        os.dup2(file, number)
    try:
        os.execv(arguments[0], [*arguments, str(os.getpid())])
    except OSError as error:
        os.write(2, f"{arguments[0]}: {error}".encode())
    finally:
        os._exit(1)
