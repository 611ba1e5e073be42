"""Storage that fails, and the run goes on once it does not: ``python tests/faults/storage.py``.

At each kind of write an error of the system; a disk that is really full or read-only (where
mounting is allowed); a directory that vanishes, or that another run is in; two threads. Writes its
table into docs/faults.md. Ends with 1 where a failure was not told, or the run did not go on to the
same end.
"""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

import torch
from attempts import DONE, NO_CHECKPOINT, REFUSED, STORAGE, after_seconds, attempt, die, left
from events import kind
from page import write
from recipes import composed

RECIPE = "early stop, best checkpoint"  # it writes all that there is to write
# KiB: from too little for the first checkpoint to too little for the last.
DISKS = (40, 90, 150, 220, 300, 400)
HEAD = ("what fails", "trials", "told", "goes on, and equal")
WRITING = ("writing", "fsync", "renaming", "replacing", "deleting", "appending")


def refusing(number):
    """An action: the write fails with this error of the system."""

    def act(name):
        raise OSError(number, os.strerror(number), name)

    return act


def write_points(names):
    """Each kind of write, before it and within it, at its last time."""
    found = {kind(name): name for name in names if name.split()[0] in ("before", "half")}
    return [
        (name, names.count(name))
        for name in found.values()
        if name.removeprefix("half of ").removeprefix("before ").startswith(WRITING)
    ]


class Storage:
    """A job whose storage fails; each trial tells how the run ended and whether it went on equal.

    Args:
        job: config and plan.
        folder: for its runs.
    """

    def __init__(self, job, folder):
        self.job, self.folder, self.number = job, folder, 0
        self.whole = attempt(job, folder / "whole")
        self.left = left(folder / "whole" / "run")

    def new_folder(self):
        """A folder for one run."""
        self.number += 1
        return self.folder / f"{self.number}"

    def failing(self, point, number):
        """A write that fails once, with this error."""
        folder = self.new_folder()
        ended = attempt(self.job, folder, at=point, act=refusing(number))
        return ended, self.equal_after(folder)

    def equal_after(self, folder, mounted=False):
        """Whether the run goes on, and has left in the end what the undisturbed one has."""
        again = attempt(self.job, folder)
        if again.code == NO_CHECKPOINT:
            again = attempt(self.job, folder, overwrite=True)
        equal = again.code == DONE and left(folder / "run") == self.left
        if mounted:
            subprocess.run(["umount", folder], check=True)
        return equal

    def on_a_disk(self, size):
        """On a disk of so many KiB; then it grows."""
        folder = self.new_folder()
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", folder], check=True)
        ended = attempt(self.job, folder)
        subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)
        return ended, self.equal_after(folder, mounted=True)

    def read_only(self):
        """On a disk that is read-only when the run is to go on; then it can be written again."""
        folder = self.new_folder()
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
        attempt(self.job, folder, at=("before rl: learner", 2), act=lambda _: os._exit(1))
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        ended = attempt(self.job, folder)
        subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
        return ended, self.equal_after(folder, mounted=True)

    def deleted(self, point):
        """The directory vanishes; then it is put back as it was."""
        folder = self.new_folder()

        def vanish(_):
            shutil.copytree(folder / "run", folder / "kept")
            shutil.rmtree(folder / "run")

        ended = attempt(self.job, folder, at=point, act=vanish)
        shutil.rmtree(folder / "run", ignore_errors=True)
        shutil.move(folder / "kept", folder / "run")
        return ended, self.equal_after(folder)

    def twice(self):
        """A second run in the directory of one that is going on: the second is refused."""
        folder, second = self.new_folder(), []

        def begin_second(process):
            os.kill(process, SIGSTOP)
            second.append(attempt(self.job, folder))
            os.kill(process, SIGCONT)

        attempt(self.job, folder, beside=after_seconds(self.whole.seconds / 2, begin_second))
        return second[0], self.equal_after(folder)

    def threads(self, number):
        """Several threads: killed, gone on with, and compared with a run that was not killed."""
        whole, folder = self.new_folder(), self.new_folder()
        attempt(self.job, whole, threads=number)
        ended = attempt(self.job, folder, at=("before rl: learner", 2), act=die, threads=number)
        attempt(self.job, folder, threads=number)
        return ended, left(folder / "run") == left(whole / "run")


def own_mounts():
    """A mount namespace of this process; False where it is not allowed."""
    new_namespace, private = 0x00020000, 1 << 18 | 16384
    libc = ctypes.CDLL(None, use_errno=True)
    return not libc.unshare(new_namespace) and not libc.mount(b"none", b"/", None, private, None)


def trials(storage, mounts):
    """What fails, the code that the run is to end with, and the trials."""
    points = write_points(storage.whole.names)
    for number in (errno.ENOSPC, errno.EROFS):
        tries = [lambda p=point, n=number: storage.failing(p, n) for point in points]
        yield f"{os.strerror(number)}: each kind of write, before and within", STORAGE, tries
    if mounts:
        tries = [lambda k=size: storage.on_a_disk(k) for size in DISKS]
        yield f"a full disk: a tmpfs of {', '.join(map(str, DISKS))} KiB", STORAGE, tries
        yield "a disk that is read-only when the run is to go on", REFUSED, [storage.read_only]
    stages = [("before rl: learner", 2), ("before rl: evaluation", 1), ("before rl: reward", 3)]
    tries = [lambda p=point: storage.deleted(p) for point in stages]
    yield "the directory is deleted, then put back", STORAGE, tries
    yield "a second run in a directory in use", REFUSED, [storage.twice]
    yield "two threads: kill -9", -SIGKILL, [lambda: storage.threads(2)]


def main():
    """Run, write and tell."""
    torch.set_num_threads(1)
    mounts, rows, wrong = own_mounts(), [], []
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as folder:
        storage = Storage(composed(RECIPE, Path(folder) / "base"), Path(folder) / "runs")
        for what, code, tries in trials(storage, mounts):
            found = [each() for each in tries]
            told, equal = sum(e.code == code for e, _ in found), sum(same for _, same in found)
            rows.append([what, len(found), f"{told}, exit code {code}", equal])
            print(" | ".join(map(str, rows[-1])), flush=True)
            wrong += [
                f"{what}: {e.code}, {same}: {e.told}"
                for e, same in found
                if e.code != code or not same
            ]
    write("storage", HEAD, rows)
    print(*wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
