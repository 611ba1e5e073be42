"""Attempts: a run forked from this process, which something happens to, and what it leaves."""

import hashlib
import json
import multiprocessing.util
import os
import shutil
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

import torch
from events import Events, watch

from rlcomp.checkpoint.reader import list_checkpoints, open_checkpoint
from rlcomp.errors import CheckpointError, ConfigError, Interrupted, StorageError
from rlcomp.run.launch import launch

DONE, FAILED, REFUSED, STORAGE, INTERRUPTED, NO_CHECKPOINT = 0, 1, 2, 74, 75, 76


@dataclass(frozen=True)
class Ended:
    """How an attempt ended.

    Attributes:
        code: of the exit, negative: by that signal.
        names: the points that it met; of one that was killed the last one only.
        seconds: of the CPU.
        told: its last words.
    """

    code: int
    names: list
    seconds: float
    told: str


def attempt(job, folder, at=None, act=None, beside=None, threads=1, more=None, **settings):
    """Run ``job`` (config and plan) in ``folder/run``, in a process of its own.

    Args:
        job: config and plan; see ``recipes.planned``.
        folder: of the run's directory.
        at: point at which something happens: its name, and for which time it is met.
        act: what happens there.
        beside: is given the process id while the attempt runs.
        threads: of torch.
        more: is given the events, to tell them of further points.
        settings: of the config, other than those of the job.
    """
    folder.mkdir(parents=True, exist_ok=True)
    notes = folder.with_name(f"{folder.name}-notes")  # the folder itself may be a disk that is full
    shutil.rmtree(notes, ignore_errors=True)
    notes.mkdir()
    (notes / "told").touch()
    before = os.times()
    if not (child := os.fork()):
        # The thread that hands out shared memory, where an earlier test needed one, is not here.
        multiprocessing.util._run_after_forkers()
        torch.set_num_threads(threads)
        events = Events(at, act and _noting(notes, act))
        if more is not None:
            more(events)
        _be_the_child(job, folder, notes, events, settings)
    if beside is not None:
        beside(child)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    after = os.times()
    spent = after.children_user + after.children_system
    names = (notes / "names").read_text() if (notes / "names").is_file() else "[]"
    told = (notes / "told").read_text()
    seconds = spent - before.children_user - before.children_system
    return Ended(code, json.loads(names), seconds, told)


def _be_the_child(job, folder, notes, events, settings):
    code = FAILED
    try:
        os.chdir(folder)
        told = os.open(notes / "told", os.O_CREAT | os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(told, stream)
        sys.stdout = sys.stderr = os.fdopen(told, "w")
        code = _outcome(job, events, settings)
        if events.at is None:
            _note(notes, events.names)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _note(notes, names):
    with os.fdopen(os.open(notes / "names", os.O_CREAT | os.O_WRONLY), "w") as file:
        file.write(json.dumps(names))


def _noting(notes, act):
    """The action, after the point was noted: whoever is killed tells nothing any more."""

    def noted(name):
        _note(notes, [name])
        act(name)

    return noted


def _outcome(job, events, settings):
    config, plan = job
    config = config.copy()
    for name, value in settings.items():
        config[name] = value
    watch(events)
    try:
        launch(config, plan)
    except Interrupted:
        return INTERRUPTED
    except StorageError as error:
        print(error)
        return STORAGE
    except CheckpointError as error:
        print(error)
        return NO_CHECKPOINT if "without a checkpoint to continue from" in str(error) else FAILED
    except ConfigError as error:
        print(error)
        return REFUSED
    return DONE


def die(name):
    """``kill -9``."""
    del name
    os.kill(os.getpid(), SIGKILL)


def after_seconds(seconds, do):
    """``beside`` of an attempt: ``do(process)`` once it has used so many CPU seconds."""

    def wait(process):
        clock = (~process << 3) | 2  # clock_getcpuclockid(3): that of the whole process
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while time.clock_gettime(clock) < seconds:
            if os.waitid(os.P_PID, process, ended):
                return
            time.sleep(0.001)
        do(process)

    return wait


def left(directory):
    """All that a run leaves, to be equal to the bit: record, tensors, states, names of files.

    Of every checkpoint, the best ones too, all tensors and the whole state file, in their order.
    """
    homes = (directory / "checkpoints", directory / "checkpoints" / "best")
    saved = [open_checkpoint(path) for home in homes for path in list_checkpoints(home)]
    rows = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines())
    ended = directory / "ended.jsonl"
    return {
        "metrics": [_lasting(row) for row in rows],
        "samples": (directory / "samples.jsonl").read_text(),
        "early ends": ended.read_text() if ended.is_file() else "",
        "tensors": [[(k, _digest(v)) for k, v in each.tensors().items()] for each in saved],
        "states": [json.dumps(_without_times(each.state())) for each in saved],
        "files": sorted(str(f.relative_to(directory)) for f in _files(directory)),
    }


def _without_times(state):
    """A state without the size and the digests of metrics.jsonl, which holds times."""
    for tracker, kept in state["place"]["trackers"].items():
        if tracker == "json_lines":
            del kept["metrics"], kept["digests"]["metrics"]
        if tracker == "display":
            kept["latest"] = _lasting(kept["latest"])
    return state


def _lasting(row):
    """A row of the record without what is measured by the clock."""
    return {k: v for k, v in row.items() if not k.startswith(("time/", "cluster/"))}


def _files(directory: Path):
    aside = directory / "overwritten"  # what was begun anew
    return (file for file in directory.rglob("*") if aside not in (file, *file.parents))


def _digest(tensor):
    data = tensor.flatten().view(torch.uint8).numpy().tobytes()
    return [str(tensor.dtype), [*tensor.shape], hashlib.sha256(data).hexdigest()]
