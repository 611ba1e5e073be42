"""TensorBoard's event files of a run that has died."""

import pytest

from rlcomp.trackers.tensorboard import TensorBoard


def test_the_error_of_a_dead_run_takes_none_of_its_steps_away(tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with TensorBoard.outlive({"directory": str(tmp_path)}) as close:
        tracker = TensorBoard(directory=str(tmp_path))
        tracker.start({"one": 9}, 0)
        for total in (1, 2, 3):
            tracker.log(total, "one", total, {"loss": total / 2}, [{"prompt": str(total)}])
        tracker.phase_ended(3, {"phase": "one", "reason": "patience"})
        tracker.finish()
        # Two files of one second are read in an order that does not tell which is newer.
        (old,) = (tmp_path / "tensorboard").iterdir()
        old.rename(old.with_name("events.out.tfevents.0000000001.host"))
        close(ValueError("boom"))

    events = reader.EventAccumulator(str(tmp_path / "tensorboard")).Reload()

    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(1, 0.5), (2, 1.0), (3, 1.5)]
    samples = events.Tensors("samples/text_summary")
    assert [(e.step, e.tensor_proto.string_val[0]) for e in samples] == [
        (n, f'[\n {{\n  "prompt": "{n}"\n }}\n]'.encode()) for n in (1, 2, 3)
    ]
    (ended,) = events.Tensors("ended/one/text_summary")
    assert (ended.step, ended.tensor_proto.string_val) == (3, [b"patience"])
    (told,) = events.Tensors("error/text_summary")
    assert told.tensor_proto.string_val == [b"ValueError: boom"]
