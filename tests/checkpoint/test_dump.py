import pytest
import torch
from tensordict import TensorDict

from rlcomp.checkpoint.dump import read_dump, write_dump
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.component import Component
from rlcomp.errors import CheckpointError, NonFiniteSteps
from rlcomp.run.phase import Phase
from rlcomp.run.program import run_phases
from rlcomp.seed import new_generator

PLACE = {"phase": 0, "step": 6, "total": 6, "seed": 0, "trackers": {}, "best": {}}


class Stops(Component):
    """A learner that stops at once."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        raise NonFiniteSteps("the third", self, rows())


def rows():
    shared = torch.tensor([[1.0, float("nan")], [float("-inf"), -0.0], [3.0, 4.0]])
    nested = {"next": {"reward": torch.tensor([0.5, 1.5, 2.5], dtype=torch.float64)}}
    entries = {
        "old_log_probs": shared,
        "rollout_log_probs": shared,  # the same memory
        "advantage": torch.tensor([2.0, 3.0, 4.0])[:, None].expand(3, 2),
        "correct": torch.tensor([True, False, True]),
        "tokens": torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])[:, ::2],
    }
    return TensorDict({**entries, **nested}, batch_size=[3])


def test_a_batch_comes_back_bit_by_bit(tmp_path):
    checkpoint, learner = Checkpoint(directory=str(tmp_path), keep=1), Stops()

    folder = write_dump(checkpoint, "mine", learner, rows(), PLACE, 0.3)
    dump = read_dump(folder)

    assert folder == tmp_path / "dump-00000007"  # the step behind six
    assert (dump.node, dump.progress, dump.batch.batch_size) == ("mine", 0.3, torch.Size([3]))
    for key, entry in rows().items(include_nested=True, leaves_only=True):
        assert dump.batch[key].dtype == entry.dtype
        assert dump.batch[key].numpy().tobytes() == entry.contiguous().numpy().tobytes()


def test_the_learner_comes_back_as_it_was(tmp_path):
    learner = Stops()
    folder = write_dump(Checkpoint(directory=str(tmp_path), keep=1), "x", learner, rows(), PLACE, 0)
    drawn = torch.rand(1, generator=learner.generator)
    with torch.no_grad():
        learner.weight += 5

    read_dump(folder).saved.restore({"x": learner})

    assert learner.weight.tolist() == [1.0, 2.0]
    assert torch.equal(torch.rand(1, generator=learner.generator), drawn)


def test_a_dump_of_the_same_step_is_replaced_and_no_checkpoint_of_the_run(tmp_path):
    checkpoint = Checkpoint(directory=str(tmp_path), keep=1)
    write_dump(checkpoint, "x", Stops(), rows(), PLACE, 0.0)

    folder = write_dump(checkpoint, "x", Stops(), rows()[:1], PLACE, 0.0)

    assert len(read_dump(folder).batch) == 1
    assert checkpoint.newest() is None


def stopped(checkpoint):
    learner = Stops()
    nodes = {"mine": learner} | ({"checkpoint": checkpoint} if checkpoint else {})
    with pytest.raises(NonFiniteSteps) as error:
        run_phases({"rl": Phase(4, [learner])}, nodes=nodes, seed=0, checkpoint=checkpoint)
    return error.value.__notes__[0]


def test_a_run_that_stops_names_its_dump(tmp_path):
    told = stopped(Checkpoint(directory=str(tmp_path), keep=1))

    assert told == f"the step is saved; repeat it with: rlcomp-replay {tmp_path / 'dump-00000001'}"
    dump = read_dump(tmp_path / "dump-00000001")
    assert (dump.node, dump.progress) == ("mine", 1 / 5)  # the first of four steps
    assert dump.saved.position()["total"] == 0


def test_a_run_without_checkpoints_says_that_nothing_is_kept():
    assert stopped(None) == "the step is not saved: the run has no checkpoint"


def test_a_dump_that_cannot_be_written_hides_no_error(tmp_path):
    (tmp_path / "file").write_text("")

    told = stopped(Checkpoint(directory=str(tmp_path / "file"), keep=1))

    assert told.startswith("the step is not saved: ")
    assert "cannot be written" in told


def test_rows_that_cannot_be_written_are_told(tmp_path):
    checkpoint = Checkpoint(directory=str(tmp_path), keep=1)
    (tmp_path / "dump-00000007" / "batch.safetensors").mkdir(parents=True)

    with pytest.raises(CheckpointError, match=r"batch\.safetensors cannot be written"):
        write_dump(checkpoint, "x", Stops(), rows(), PLACE, 0.0)
