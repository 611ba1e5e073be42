"""A jail made by bubblewrap, for machines where only bubblewrap may make namespaces.

It may do so if it is set-uid, or if AppArmor has a profile for it. The fork server runs inside,
with its own users, processes, network, queues and host name. It sees no files but the libraries,
read-only; there is no /proc, /sys, /etc or home. All jobs of a fork server share this jail, so it
has no writable place, and each job has the walls of ``portable`` as well.

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
_CODE = "import sys; sys.path[0] = {!r}; from rlcomp.sandbox.zygote import inside; inside()"
_SPACES = ("pid", "net", "ipc", "uts")


def command(program: str, readable: Sequence[str], *, root: bool) -> list[str]:
    """Return the command line of the fork server in its jail; its process id must be appended.

    Args:
        program: path of bwrap.
        readable: folders that programs may read.
        root: whether root calls it. Then the fork server changes to another user by itself and has
            no other capability: in its own user namespace it could not do so.
    """
    words = [program, "--die-with-parent", "--as-pid-1"]
    words += [f"--unshare-{space}" for space in _SPACES] + ["--unshare-cgroup-try"]
    if root:
        words += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        words += ["--unshare-user-try"]
    interpreter = os.path.realpath(sys.executable)
    paths = [*readable, *_own_files(interpreter, readable)]
    # Name each folder: folders that bwrap makes by itself can be read by their owner only.
    for folder in dict.fromkeys(each for path in paths for each in _above(path)):
        words += ["--dir", str(folder)]
    for path in paths:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        else:
            words += ["--ro-bind", path, path]
    words += ["--dir", "/tmp", "--dir", "/dev", "--dev-bind", "/dev/null", "/dev/null"]
    words += ["--remount-ro", "/", "--chdir", "/", "--"]
    return [*words, interpreter, "-S", "-s", "-B", "-c", _CODE.format(str(_PACKAGE.parent))]


def _above(path: str) -> list[Path]:
    """Return the folders that a path lies in, the uppermost first."""
    return [*Path(path).parents][-2::-1]


def _own_files(interpreter: str, readable: Sequence[str]) -> list[str]:
    """Return the files that the fork server starts from, without those readable anyway."""
    own = [interpreter, str(_PACKAGE / "__init__.py"), str(_PACKAGE / "sandbox")]
    return [path for path in own if not within_another(path, readable)]


def become(words: Sequence[str], *files: int) -> NoReturn:
    """Execute a command with these files as 0, 1 and 2; write an error to the last one."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    try:
        os.execv(words[0], [*words, str(os.getpid())])
    except OSError as error:
        os.write(2, f"{words[0]}: {error}".encode())
    finally:
        os._exit(1)
