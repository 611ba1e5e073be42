"""Named points of a run: before, within and after every stage and every write.

:func:`watch` replaces the functions that a run goes through by ones that tell an :class:`Events` of
it. It is for a process of its own: nothing puts them back.
"""

import functools
import os
import re
import shutil
from pathlib import Path

import torch

from rlcomp.checkpoint import writer
from rlcomp.engine import decode_native, draw
from rlcomp.files import run_record
from rlcomp.run.program import Program
from rlcomp.trackers.tracker import JsonLines

DRAFT = re.compile(r"\.tmp-(step-\d+)(-deleted)?-\d+")


class Events:
    """The points that were met, in order; ``act(name)`` is called at ``at``: a name, which time.

    Attributes:
        names: of the points.
        stage: in which the run is.
    """

    def __init__(self, at=None, act=None):
        self.at, self.act = at, act
        self.names, self.stage = [], ""

    def __call__(self, name, spoil=None):
        """The point ``name``; ``spoil()`` leaves behind what a half of it leaves."""
        self.names.append(name)
        if self.at is not None and self.at == (name, self.names.count(name)):
            if spoil is not None:
                spoil()
            self.act(name)

    def around(self, owner, attribute, name, spoil=None):
        """Tell of every call of ``owner.attribute``, before, after and, with ``spoil``, within.

        ``name(*args)`` names the call, None: it is none of ours. ``spoil(original, *args)`` does
        half of it.
        """
        original = getattr(owner, attribute)

        @functools.wraps(original)
        def told(*args, **kwargs):
            if (said := name(*args, **kwargs)) is None:
                return original(*args, **kwargs)
            self(f"before {said}")
            if spoil is not None:
                self(f"half of {said}", lambda: spoil(original, *args, **kwargs))
            result = original(*args, **kwargs)
            self(f"after {said}")
            return result

        setattr(owner, attribute, told)


def kind(name):
    """A point without its numbers: those of the same kind differ in step only."""
    return re.sub(r"\d+", "N", name)


def called(path):
    """A path below the run, without process ids."""
    return DRAFT.sub(r"draft of \1\2", f"{path}/".rpartition("run/")[2].rstrip("/") or "run")


def watch(events):
    """Tell ``events`` of everything."""
    _watch_stages(events)
    _watch_writes(events)
    _watch_record(events)


def _watch_stages(events):
    def stage(program, phase, node, *_):
        events.stage = f"{phase}: {node}"
        return events.stage

    def end(program, phase, stage):
        return f"{phase}: {stage}" if stage.startswith("the ") else None

    def inside(what):
        return lambda *_, **__: f"{what} in {events.stage}"

    events.around(Program, "_call", stage)
    events.around(Program, "_report_position", end)
    events.around(torch.optim.AdamW, "step", inside("an optimiser's step"))
    events.around(torch.Tensor, "backward", inside("a backward pass"))
    events.around(draw, "draw_tokens", inside("drawing tokens"))
    events.around(decode_native, "_rollout", inside("a rollout in C++"))


def _watch_writes(events):
    events.around(writer, "save_file", lambda _, path: f"writing {called(path)}", half_a_file)
    events.around(Path, "write_text", lambda path, *_, **__: f"writing {called(path)}", half_a_text)
    events.around(os, "fsync", lambda handle: f"fsync of {called(_opened(handle))}")
    events.around(os, "rename", lambda _, to: f"renaming to {called(to)}")
    events.around(os, "replace", lambda _, to: f"replacing {called(to)}")
    events.around(shutil, "rmtree", _deleted, half_a_directory)
    events.around(run_record, "write_run_record", lambda *_: "accepting the run")


def _watch_record(events):
    def appended(path, mode="r", *_, **__):
        return f"appending to {path.name}" if mode == "a" else None

    events.around(Path, "open", appended, half_a_line)
    events.around(JsonLines, "log", lambda *_: "the record of a step")


def half_a_file(save, tensors, path):
    """Tensors that were written in part."""
    save(tensors, path)
    os.truncate(path, path.stat().st_size // 2)


def half_a_text(write, path, text, **settings):
    """A text that was written in part."""
    write(path, text[: len(text) // 2], **settings)


def half_a_line(opened, path, *_, **__):
    """A line of the record that was begun."""
    with opened(path, "a") as file:
        file.write('{"total": 1, "pha')


def half_a_directory(delete, path, **_):
    """A directory of which a file is gone."""
    os.unlink(sorted(Path(path).iterdir())[0])


def _deleted(path, **_):
    return f"deleting {called(path)}" if Path(path).is_dir() else None


def _opened(handle):
    return os.readlink(f"/proc/self/fd/{handle}")
