"""Best checkpoints: which stay, which are taken along, and where they are looked for."""

import pytest
from torch import nn

from rlcomp.checkpoint.best import best_checkpoint, retain_best, save_best
from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.errors import CheckpointError


def record(phase, total, value=0.5):
    told = {"phase": phase, "metric": "evaluation/x", "better": "higher"}
    return {**told, "value": value, "step": 1, "total": total}


def place(total, *records):
    best = {record["phase"]: record for record in records}
    return {"phase": 0, "step": 1, "total": total, "trackers": {}, "best": best}


def saver(run):
    return Checkpoint(directory=str(run / "checkpoints"), keep=9)


def node(weight):
    part = nn.Linear(1, 1, bias=False)
    nn.init.constant_(part.weight, weight)
    return {"part": part}


def weights(folder):
    """The weight in each checkpoint of a folder, by its name."""
    return {
        path.name: open_checkpoint(path).tensors()["part:weight"].item()
        for path in sorted(folder.glob("*"))
    }


def test_the_best_step_of_each_phase_stays_and_what_is_beaten_goes(tmp_path):
    checkpoint, home = saver(tmp_path), tmp_path / "checkpoints" / "best"
    one, better, two = record("one", 1), record("one", 3, 0.75), record("two", 4)

    save_best(checkpoint, node(1.0), place(1, one), [one])
    assert weights(home) == {"step-00000001": 1.0}
    save_best(checkpoint, node(3.0), place(3, better), [better])
    assert weights(home) == {"step-00000003": 3.0}
    save_best(checkpoint, node(4.0), place(4, better, two), [better, two])
    assert weights(home) == {"step-00000003": 3.0, "step-00000004": 4.0}


def test_what_a_kill_has_left_of_a_copy_is_deleted(tmp_path):
    home = tmp_path / "checkpoints" / "best"
    (home / ".tmp-step-00000001-7").mkdir(parents=True)

    save_best(saver(tmp_path), node(1.0), place(1, record("one", 1)), [record("one", 1)])

    assert weights(home) == {"step-00000001": 1.0}


def test_a_run_that_goes_on_has_the_best_steps_of_its_records_only(tmp_path):
    checkpoint, home = saver(tmp_path), tmp_path / "checkpoints" / "best"
    one, two = record("one", 1), record("two", 4)
    save_best(checkpoint, node(1.0), place(1, one), [one])
    save_best(checkpoint, node(4.0), place(4, one, two), [one, two])

    retain_best(checkpoint, [one], None)
    assert weights(home) == {"step-00000001": 1.0}
    retain_best(checkpoint, [], None)
    assert weights(home) == {}


@pytest.mark.parametrize("folder", ["checkpoints", "checkpoints/best"])
@pytest.mark.parametrize("source", ["checkpoints/step-00000005", "checkpoints/best/step-00000005"])
def test_a_best_step_is_copied_from_wherever_it_lies_beside_the_source(tmp_path, folder, source):
    best, old, new = record("one", 2), tmp_path / "old", tmp_path / "new"
    saver(old).write(old / folder, node(2.0), place(2, best))
    # Of the same step, but of a run with another best, and no checkpoint at all.
    beside = "checkpoints/best" if folder == "checkpoints" else "checkpoints"
    saver(old).write(old / beside, node(9.0), place(2, record("one", 2, 0.25)))

    retain_best(saver(new), [best, record("two", 4)], old / source)

    assert weights(new / "checkpoints" / "best") == {"step-00000002": 2.0}


def test_what_is_there_already_stays_as_it_is(tmp_path):
    best, old, new = record("one", 2), tmp_path / "old", tmp_path / "new"
    saver(old).write(old / "checkpoints", node(9.0), place(2, best))
    saver(new).write(new / "checkpoints" / "best", node(2.0), place(2, best))

    retain_best(saver(new), [best], old / "checkpoints" / "step-00000002")

    assert weights(new / "checkpoints" / "best") == {"step-00000002": 2.0}


def test_without_a_source_nothing_is_looked_for(tmp_path):
    retain_best(saver(tmp_path), [record("one", 2)], None)

    assert not (tmp_path / "checkpoints").exists()


def test_a_best_directory_that_cannot_be_written_is_told(tmp_path):
    best, old, new = record("one", 2), tmp_path / "old", tmp_path / "new"
    source = saver(old).write(old / "checkpoints", node(2.0), place(2, best))
    (new / "checkpoints").mkdir(parents=True)
    (new / "checkpoints" / "best").write_text("in the way")

    with pytest.raises(CheckpointError, match=r"new/checkpoints/best cannot be written \(.*\): is"):
        retain_best(saver(new), [best], source)


def test_a_best_checkpoint_is_named_from_the_run_while_it_is_there(tmp_path):
    checkpoint, best = saver(tmp_path), record("one", 2)
    save_best(checkpoint, node(2.0), place(2, best), [best])

    assert best_checkpoint(checkpoint, best) == "checkpoints/best/step-00000002"
    assert best_checkpoint(checkpoint, record("one", 3)) is None
    assert best_checkpoint(None, best) is None
