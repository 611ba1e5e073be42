"""Minari folders in their Arrow format, as Minari's own storage lays them out."""

import json
import shutil
import struct

import pytest

from rlcomp.data.transitions import read_transitions
from rlcomp.errors import DataError

pyarrow = pytest.importorskip("pyarrow")


def episode(data, number, observations, actions, rewards, terminated, truncated):
    """One more observation than steps; the other columns have a padded last entry."""
    from pyarrow import dataset

    def vectors(values):
        flat = pyarrow.array([float(each) for row in values for each in row], pyarrow.float32())
        return pyarrow.FixedSizeListArray.from_arrays(flat, len(values[0]))

    steps = len(rewards)
    batch = pyarrow.RecordBatch.from_pydict(
        {
            "episode_id": pyarrow.array([number] * (steps + 1), pyarrow.int32()),
            "observations": vectors(observations),
            "actions": vectors([*actions, [0.0] * len(actions[0])]),
            "rewards": pyarrow.array([*rewards, 0.0]),
            "terminations": pyarrow.array([*[False] * (steps - 1), terminated, False]),
            "truncations": pyarrow.array([*[False] * (steps - 1), truncated, False]),
        }
    )
    dataset.write_dataset(
        batch,
        data,
        format="arrow",
        partitioning=["episode_id"],
        existing_data_behavior="overwrite_or_ignore",
    )
    (data / str(number) / "metadata.json").write_text("{}")


@pytest.fixture
def folder(tmp_path):
    data = tmp_path / "set" / "data"
    data.mkdir(parents=True)
    (data / "metadata.json").write_text(json.dumps({"data_format": "arrow"}))
    episode(data, 0, [[0, 1], [2, 3], [4, 5]], [[0.5], [0.25]], [1.0, 2.0], True, False)
    episode(data, 10, [[8, 8], [9, 9]], [[1.0]], [4.0], False, False)
    episode(data, 2, [[6, 6], [7, 7]], [[-1.0]], [3.0], False, True)
    return tmp_path / "set"


def test_steps_of_all_episodes_in_the_order_of_their_numbers(folder):
    rows = read_transitions(str(folder))

    assert rows["observation"].tolist() == [[0, 1], [2, 3], [6, 6], [8, 8]]
    assert rows["next", "observation"].tolist() == [[2, 3], [4, 5], [7, 7], [9, 9]]
    assert rows["action"].flatten().tolist() == [0.5, 0.25, -1.0, 1.0]
    assert rows["next", "reward"].flatten().tolist() == [1.0, 2.0, 3.0, 4.0]
    assert rows["next", "terminated"].flatten().tolist() == [False, True, False, False]
    assert rows["next", "truncated"].flatten().tolist() == [False, False, True, False]
    assert len(read_transitions(str(folder / "data"))) == 4


def test_an_invalid_step_is_refused_with_file_and_number(folder):
    data = folder / "data"
    episode(data, 3, [[6], [7]], [[-1.0]], [3.0], False, False)

    with pytest.raises(DataError, match=r"3/.*\.arrow, step 0: 'observation' has 1 numbers, but 2"):
        read_transitions(str(folder))


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ('{"data_format": "hdf5"}', "data_format is 'hdf5', and only 'arrow' can be read: save"),
        ("{}", "data_format is None"),
        ("[1]", "data_format is None"),
        ("{", "is not JSON"),
    ],
)
def test_another_format_is_refused_with_the_remedy(folder, metadata, told):
    (folder / "data" / "metadata.json").write_text(metadata)

    with pytest.raises(DataError, match=told):
        read_transitions(str(folder))


def test_any_other_folder_is_refused(tmp_path, folder):
    with pytest.raises(DataError, match=r"no metadata\.json of a Minari data set: give"):
        read_transitions(str(tmp_path))
    (folder / "data" / "metadata.json").write_text(" " * ((1 << 20) + 1))
    with pytest.raises(DataError, match=r"no metadata\.json"):
        read_transitions(str(folder))


def test_episodes_that_are_none_are_refused(folder):
    data = folder / "data"
    file = next((data / "2").glob("*.arrow"))
    content = file.read_bytes()
    file.write_bytes(b"not arrow at all")
    with pytest.raises(DataError, match="is no episode of a Minari data set"):
        read_transitions(str(folder))
    file.unlink()
    with pytest.raises(DataError, match=r"2 has 0 \.arrow files"):
        read_transitions(str(folder))
    for name in ("a.arrow", "b.arrow"):
        (data / "2" / name).write_bytes(content)
    with pytest.raises(DataError, match=r"2 has 2 \.arrow files"):
        read_transitions(str(folder))


LISTS = {
    "observations": [[1.0], [2.0]],
    "actions": [[1.0], [0.0]],
    "rewards": [1.0, 0.0],
    "terminations": [False, False],
    "truncations": [False, False],
}


def write_episode(file, **changes):
    from pyarrow import ipc

    table = pyarrow.table({**LISTS, **changes})
    with pyarrow.OSFile(str(file), "wb") as sink, ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


@pytest.fixture
def lists(folder):
    """The folder with one episode, whose observations are lists with offsets."""
    for number in ("10", "2"):
        shutil.rmtree(folder / "data" / number)
    file = next((folder / "data" / "0").glob("*.arrow"))
    write_episode(file)
    return file


def test_offsets_that_lead_out_of_the_file_are_not_followed(lists, folder):
    assert len(read_transitions(str(folder))) == 1
    content, offsets = lists.read_bytes(), struct.pack("<iii", 0, 1, 2)
    assert offsets in content

    lists.write_bytes(content.replace(offsets, struct.pack("<iii", 0, 1, 2**20)))

    with pytest.raises(DataError, match=r"is no episode of a Minari data set: .*offsets"):
        read_transitions(str(folder))


UNREAD = {
    "no UTF-8": pyarrow.array([b"\xff", b"\xfe"], pyarrow.binary()).view(pyarrow.string()),
    "beyond all times": pyarrow.array([2**62, 2**62], pyarrow.timestamp("s")),
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_python_cannot_hold_is_refused(lists, folder, name):
    write_episode(lists, observations=UNREAD[name])

    with pytest.raises(DataError, match="is no episode of a Minari data set"):
        read_transitions(str(folder))


def test_an_episode_without_a_step_and_a_set_without_an_episode_are_refused(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "metadata.json").write_text('{"data_format": "arrow"}')
    with pytest.raises(DataError, match="has no episodes"):
        read_transitions(str(tmp_path))
    from pyarrow import ipc

    (data / "0").mkdir()
    table = pyarrow.table(
        {
            "observations": [[1.0]],
            "actions": [[1.0]],
            "rewards": [1.0],
            "terminations": [False],
            "truncations": [False],
        }
    )
    with ipc.new_file(str(data / "0" / "a.arrow"), table.schema) as file:
        file.write_table(table)
    with pytest.raises(DataError, match="has 1 observations: an episode has at least two"):
        read_transitions(str(tmp_path))
