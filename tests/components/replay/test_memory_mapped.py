import json

import pytest
import torch

from components.replay.memory_mapped import MemoryMappedReplay
from rlcomp.checkpoint.state import collect, restore
from rlcomp.errors import CheckpointError
from rlcomp.seed import seeded
from rlcomp.testing import make_batch


def replay(folder, capacity=10, seed=0):
    with seeded(seed, "replay"):
        return MemoryMappedReplay(capacity=capacity, directory=str(folder))


def steps(first, last):
    """Steps whose observations are numbered."""
    number = torch.arange(first, last).float()[:, None]
    return make_batch(observation=number, next={"reward": -number})


def numbers(buffer):
    return buffer.rows()["observation"].flatten().tolist()


def names(folder):
    return sorted(file.name for file in (folder / "segments").iterdir())


def part(first, last):
    return f"rows-{first:015d}-{last:015d}.safetensors"


def through_a_file(state):
    return json.loads(json.dumps(state))


def test_rows_are_in_files_once_there_are_some(tmp_path):
    memory = replay(tmp_path)
    assert [*tmp_path.rglob("*.memmap")] == []

    memory.extend(steps(0, 3))

    files = {file.stem for file in tmp_path.rglob("*.memmap")}
    assert {"observation", "reward"} <= files


def test_a_checkpoint_writes_the_rows_that_are_new_and_no_others(tmp_path):
    buffer = replay(tmp_path)
    buffer.extend(steps(0, 4))
    first = buffer.run_state()
    buffer.extend(steps(4, 6))
    second = buffer.run_state()

    assert names(tmp_path) == [part(0, 4), part(4, 6)]
    assert [entry[0] for entry in first["segments"]] == [part(0, 4)]
    assert [entry[0] for entry in second["segments"]] == [part(0, 4), part(4, 6)]
    again = replay(tmp_path)
    again.load_run_state(through_a_file(first))
    assert numbers(again) == [0.0, 1.0, 2.0, 3.0]


def test_of_a_million_rows_only_the_new_ones_are_written(tmp_path):
    buffer = replay(tmp_path, capacity=1_000_000)
    buffer.extend(steps(0, 1_000_000))
    buffer.run_state()
    buffer.extend(steps(0, 1_000))
    state = buffer.run_state()

    sizes = [(tmp_path / "segments" / name).stat().st_size for name in names(tmp_path)]
    # Two numbers of four bytes a row, and a header.
    assert 8_000_000 <= sizes[0] < 8_001_000
    assert 8_000 <= sizes[1] < 9_000
    assert state["total"] == 1_001_000
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "segments").iterdir()}
    buffer.run_state()
    assert {f: f.stat().st_mtime_ns for f in (tmp_path / "segments").iterdir()} == before


@pytest.mark.parametrize("stored", [3, 10, 14, 25])
def test_a_restored_replay_draws_and_overwrites_as_the_first(tmp_path, stored):
    first, again = replay(tmp_path / "a"), replay(tmp_path / "a", seed=9)
    for start in range(0, stored, 3):
        first.extend(steps(start, min(start + 3, stored)))
        first.run_state()
    first.sample(2)
    restore(tmp_path, {"replay": again}, *collect({"replay": first}), keep_generators=False)

    assert numbers(again) == numbers(first)
    assert again.cursor == first.cursor == stored % 10
    one, other = first.sample(5), again.sample(5)
    assert torch.equal(one["observation"], other["observation"])
    # Each into files of its own from here on.
    first.directory = tmp_path / "b"
    for buffer in (again,):
        buffer.extend(steps(100, 102))
    expected = numbers(first)
    for row in (100, 101):
        place = (stored + row - 100) % 10
        expected[place : place + 1] = [float(row)]
    assert numbers(again) == expected


def test_an_empty_replay_is_restored_as_such(tmp_path):
    again = replay(tmp_path)

    again.load_run_state(through_a_file(replay(tmp_path / "other").run_state()))

    assert len(again) == 0
    assert not (tmp_path / "segments").exists()
    assert not (tmp_path / "live").exists()


def test_what_a_resumed_run_has_overtaken_is_deleted(tmp_path):
    buffer = replay(tmp_path)
    buffer.extend(steps(0, 3))
    kept = through_a_file(buffer.run_state())
    buffer.extend(steps(3, 8))
    buffer.run_state()
    assert names(tmp_path) == [part(0, 3), part(3, 8)]

    again = replay(tmp_path)
    again.load_run_state(kept)
    assert names(tmp_path) == [part(0, 3), part(3, 8)]  # whoever only looks deletes nothing
    again.extend(steps(50, 52))
    again.run_state()

    assert names(tmp_path) == [part(0, 3), part(3, 5)]
    assert numbers(again) == [0.0, 1.0, 2.0, 50.0, 51.0]


def test_segments_go_when_twice_as_many_rows_are_newer(tmp_path):
    buffer = replay(tmp_path, capacity=4)
    for start in range(0, 14, 2):
        buffer.extend(steps(start, start + 2))
        state = buffer.run_state()

    # 14 rows: those before row 6 are older than 8 rows.
    assert names(tmp_path) == [part(n, n + 2) for n in (6, 8, 10, 12)]
    assert [entry[0] for entry in state["segments"]] == [part(10, 12), part(12, 14)]


def test_more_new_rows_than_it_holds_are_the_last_ones(tmp_path):
    buffer = replay(tmp_path, capacity=4)
    for start in (0, 3, 6):
        buffer.extend(steps(start, start + 3))
    state = buffer.run_state()

    assert names(tmp_path) == [part(5, 9)]
    again = replay(tmp_path, capacity=4)
    again.load_run_state(through_a_file(state))
    assert numbers(again) == numbers(buffer) == [8.0, 5.0, 6.0, 7.0]


def test_a_run_that_goes_on_elsewhere_brings_its_segments(tmp_path):
    buffer = replay(tmp_path / "old")
    buffer.extend(steps(0, 3))
    state = through_a_file(buffer.run_state())

    moved = replay(tmp_path / "new")
    moved.load_run_state(state)
    moved.extend(steps(3, 4))
    moved.run_state()

    assert names(tmp_path / "new") == [part(0, 3), part(3, 4)]
    assert names(tmp_path / "old") == [part(0, 3)]


@pytest.mark.parametrize("damage", ["missing", "changed", "shorter"])
def test_a_damaged_segment_is_told_by_name(tmp_path, damage):
    buffer = replay(tmp_path)
    buffer.extend(steps(0, 3))
    state = through_a_file(buffer.run_state())
    file = tmp_path / "segments" / part(0, 3)
    content = file.read_bytes()
    file.unlink()
    if damage != "missing":
        file.write_bytes(content[:-1] + (b"" if damage == "shorter" else b"\x01"))

    told = "is missing" if damage == "missing" else "has changed since"
    with pytest.raises(CheckpointError, match=rf"{part(0, 3)}.*{told}"):
        replay(tmp_path).load_run_state(state)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"total": 4}, "end at row 3 of 4"),
        ({"total": 2}, "end at row 0 of 2"),
        ({"segments": []}, "end at row 0 of 3"),
        ({"segments": [["../x.safetensors", 1, "a"]]}, "no segment of a replay"),
        ({"segments": [1]}, "no segment of a replay"),
        ({"segments": [[part(0, 3), "1", "a"]]}, "must be an integer and a text"),
        ({"segments": [[part(0, 3), 1, 2]]}, "must be an integer and a text"),
        ({"total": -1}, "total"),
        ({"folder": 3}, "folder"),
    ],
)
def test_a_state_that_is_none_is_refused(tmp_path, change, told):
    buffer = replay(tmp_path)
    buffer.extend(steps(0, 3))
    state = through_a_file(buffer.run_state())

    with pytest.raises(CheckpointError, match=told):
        replay(tmp_path).load_run_state({**state, **change})


def test_a_replay_of_another_capacity_is_refused(tmp_path):
    buffer = replay(tmp_path, capacity=4)
    buffer.extend(steps(0, 4))
    buffer.extend(steps(4, 7))
    state = through_a_file(buffer.run_state())

    with pytest.raises(CheckpointError, match=r"not fit capacity=10"):
        replay(tmp_path).load_run_state(state)


def test_a_file_in_the_way_is_told(tmp_path):
    buffer = replay(tmp_path)
    buffer.extend(steps(0, 3))
    (tmp_path / "segments").write_text("")

    with pytest.raises(CheckpointError, match=r"segments: the rows .* cannot be written"):
        buffer.run_state()
