"""Steps of control from files of others: JSON Lines, safetensors, Minari folders."""

import gzip
import json
import math

import pytest
import torch
from safetensors.torch import save_file

from rlcomp.data.transitions import read_transitions, write_transitions
from rlcomp.errors import DataError
from rlcomp.testing import make_batch

STEP = {
    "observation": [1.0, 2],
    "action": [0.5],
    "reward": -1,
    "next_observation": [3.0, 4.0],
    "terminated": False,
}


def lines(path, *steps):
    path.write_text("".join(json.dumps(step) + "\n" for step in steps))
    return str(path)


def tensors(rows=3, **changed):
    found = {
        "observation": torch.arange(2.0 * rows).view(rows, 2),
        "action": torch.ones(rows, 1),
        "reward": torch.arange(float(rows)),
        "next_observation": torch.zeros(rows, 2),
        "terminated": torch.tensor([False] * (rows - 1) + [True]),
    }
    return {name: value for name, value in {**found, **changed}.items() if value is not None}


def saved(path, **changed):
    save_file(tensors(**changed), path)
    return str(path)


def test_a_line_is_a_step(tmp_path):
    cut = {**STEP, "truncated": True, "reward": 2.5}
    ended = {**STEP, "terminated": True, "truncated": True}

    rows = read_transitions(lines(tmp_path / "a.jsonl", STEP, cut, ended))

    assert rows.batch_size == (3,)
    assert rows["observation"].tolist() == [[1.0, 2.0]] * 3
    assert rows["action"].tolist() == [[0.5]] * 3
    after = rows["next"]
    assert after["observation"].tolist() == [[3.0, 4.0]] * 3
    assert after["reward"].tolist() == [[-1.0], [2.5], [-1.0]]
    assert after["terminated"].tolist() == [[False], [False], [True]]
    # What terminated was not cut as well.
    assert after["truncated"].tolist() == [[False], [True], [False]]
    assert after["done"].tolist() == [[False], [True], [True]]
    assert rows["observation"].dtype == torch.float32


def test_a_packed_file_is_read_as_well(tmp_path):
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write(json.dumps(STEP) + "\n")

    assert len(read_transitions(str(tmp_path / "a.jsonl.gz"))) == 1


WRONG = [
    ({"action": None}, r"a\.jsonl:2: 'action' is None: must be a list of numbers"),
    ({"action": []}, r"a\.jsonl:2: 'action' is \[\]"),
    ({"action": ["1"]}, r"a\.jsonl:2: 'action' holds '1': must be a number"),
    ({"action": [True]}, r"a\.jsonl:2: 'action' holds True: must be a number"),
    ({"reward": True}, r"a\.jsonl:2: 'reward' holds True: must be a number"),
    ({"reward": 1e39}, r"a\.jsonl:2: 'reward' holds 1e\+39: must be finite"),
    ({"reward": -(10**400)}, r"a\.jsonl:2: 'reward' holds -10+\.\.\.: must be finite"),
    ({"reward": math.nan}, r"a\.jsonl:2: 'reward' holds nan: must be finite"),
    ({"terminated": 0}, r"a\.jsonl:2: 'terminated' is 0: must be true or false"),
    ({"truncated": "no"}, r"a\.jsonl:2: 'truncated' is 'no': must be"),
    (
        {"observation": [1.0]},
        r"a\.jsonl:2: 'observation' has 1 numbers, but 2 at .*a\.jsonl:1: all steps must",
    ),
    ({"rewards": 1}, r"a\.jsonl:2: 'rewards' is no entry of a step.*did you mean 'reward'"),
]


@pytest.mark.parametrize(("change", "told"), WRONG)
def test_a_wrong_step_is_refused_with_file_and_line(tmp_path, change, told):
    path = lines(tmp_path / "a.jsonl", STEP, {**STEP, **change})

    with pytest.raises(DataError, match=told):
        read_transitions(path)


@pytest.mark.parametrize("name", STEP)
def test_a_step_without_one_of_its_entries_is_refused(tmp_path, name):
    path = lines(tmp_path / "a.jsonl", {key: value for key, value in STEP.items() if key != name})

    with pytest.raises(DataError, match=rf"a\.jsonl:1: the step has no '{name}'.*it needs"):
        read_transitions(path)


def test_what_follows_has_as_many_numbers_as_what_was_seen(tmp_path):
    path = lines(tmp_path / "a.jsonl", {**STEP, "next_observation": [1.0, 2.0, 3.0]})

    with pytest.raises(DataError, match="'observation' has 2 numbers, 'next_observation' 3"):
        read_transitions(path)


def test_tensors_are_steps_a_row(tmp_path):
    path = saved(tmp_path / "a.safetensors", truncated=torch.tensor([True, False, True]))

    rows = read_transitions(path)

    assert rows["next", "reward"].tolist() == [[0.0], [1.0], [2.0]]
    assert rows["next", "truncated"].tolist() == [[True], [False], [False]]
    assert rows["next", "done"].tolist() == [[True], [False], [True]]
    assert rows["observation"].tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_narrow_and_wide_floats_become_float32(tmp_path):
    path = saved(
        tmp_path / "a.safetensors",
        action=torch.ones(3, 1, dtype=torch.float64),
        observation=torch.ones(3, 2, dtype=torch.bfloat16),
    )

    rows = read_transitions(path)

    assert rows["action"].dtype == rows["observation"].dtype == torch.float32
    assert not rows["next", "truncated"].any()


def test_any_byte_but_zero_is_true(tmp_path):
    odd = torch.tensor([0, 1, 6], dtype=torch.uint8).view(torch.bool)

    rows = read_transitions(saved(tmp_path / "a.safetensors", terminated=odd))

    assert rows["next", "terminated"].view(torch.uint8).flatten().tolist() == [0, 1, 1]


BAD = [
    ({"code": torch.zeros(3)}, "'code' is no entry of a step"),
    ({"action": None}, "the step has no 'action'"),
    ({"action": torch.ones(2, 1)}, r"'action' has shape \[2, 1\]: must be \[3, numbers\]"),
    ({"action": torch.ones(3)}, r"'action' has shape \[3\]: must be \[3, numbers\]"),
    ({"action": torch.ones(3, 0)}, r"'action' has shape \[3, 0\]"),
    ({"next_observation": torch.ones(3, 3)}, "'observation' has 2 numbers, 'next_observation' 3"),
    ({"reward": torch.ones(3, 2)}, r"'reward' has shape \[3, 2\]: must be \[3\]"),
    ({"reward": torch.tensor(1.0)}, "it has no steps"),
    ({"terminated": torch.zeros(3)}, r"'terminated' is torch.float32: must be bool"),
    (
        {"action": torch.ones(3, 1, dtype=torch.int64)},
        r"'action' is torch.int64: must be of floats",
    ),
    (
        {"observation": torch.tensor([[0.0, 1.0], [2.0, math.nan], [1.0, 1.0]])},
        r"'observation' of step 1 \(from 0\) is not finite",
    ),
    (
        {"reward": torch.tensor([0.0, 0.0, 1e300], dtype=torch.float64)},
        r"'reward' of step 2 \(from 0\) is not finite",
    ),
]


@pytest.mark.parametrize(("change", "told"), BAD)
def test_wrong_tensors_are_refused_by_name(tmp_path, change, told):
    path = saved(tmp_path / "a.safetensors", **change)

    with pytest.raises(DataError, match=told):
        read_transitions(path)


def test_no_steps_no_file_and_no_tensors_are_refused(tmp_path):
    empty = {name: value[:0] for name, value in tensors().items()}
    save_file(empty, tmp_path / "empty.safetensors")
    (tmp_path / "junk.safetensors").write_bytes(b"\x80\x04" * 40)

    with pytest.raises(DataError, match="it has no steps"):
        read_transitions(str(tmp_path / "empty.safetensors"))
    with pytest.raises(DataError, match="not a file of tensors"):
        read_transitions(str(tmp_path / "junk.safetensors"))
    with pytest.raises(DataError, match="there is no file"):
        read_transitions(str(tmp_path / "none.safetensors"))
    with pytest.raises(DataError, match="there is no file"):
        read_transitions(str(tmp_path / "none.jsonl"))


def test_too_large_a_file_is_not_opened(tmp_path, monkeypatch):
    path = saved(tmp_path / "a.safetensors")
    monkeypatch.setattr("rlcomp.data.transitions._MOST_BYTES", 10)

    with pytest.raises(DataError, match="more than 0 MiB: take a part of it"):
        read_transitions(path)


def test_what_a_replay_holds_goes_to_a_file_and_back(tmp_path):
    after = {
        "observation": torch.randn(4, 2),
        "reward": torch.randn(4, 1),
        "terminated": torch.tensor([[False], [True], [False], [False]]),
        "done": torch.tensor([[False], [True], [True], [False]]),
    }
    rows = make_batch(observation=torch.randn(4, 2), action=torch.randn(4, 1), next=after)
    write_transitions(tmp_path / "a.safetensors", rows)

    back = read_transitions(str(tmp_path / "a.safetensors"))

    assert torch.equal(back["action"], rows["action"])
    for key in after:
        assert torch.equal(back["next", key], rows["next", key])
    assert back["next", "truncated"].tolist() == [[False], [False], [True], [False]]
