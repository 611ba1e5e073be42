import contextlib
import inspect
import json
import os
import random
import re
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from rlcomp.checkpoint import writer
from rlcomp.checkpoint.best import retain_best, save_best
from rlcomp.checkpoint.reader import list_checkpoints, open_checkpoint
from rlcomp.checkpoint.state import check_saved, check_tensors, collect, generators, owned_tensors
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.component import Component
from rlcomp.errors import CheckpointError, ConfigError
from rlcomp.files.untrusted import parse_json
from rlcomp.seed import new_generator


class Part(Component):
    """A weight, a buffer, a generator and a count."""

    buffer: torch.Tensor

    def __init__(self, *, inner=None, width=2) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width))
        self.register_buffer("buffer", torch.rand(width))
        self.generator = new_generator()
        self.inner = inner
        self.count = 0

    def forward(self, batch):
        return batch

    def run_state(self):
        return {"count": self.count}

    def load_run_state(self, state):
        self.count = state["count"]


class Plain:
    """No module, but with a state."""

    def __init__(self):
        self.seen = [1.5, (2, None)]

    def run_state(self):
        return {"seen": self.seen}

    def load_run_state(self, state):
        self.seen = state["seen"]


PLACE = {"phase": 0, "step": 1, "trackers": {}}


def place(total):
    return {**PLACE, "total": total}


def saver(tmp_path, keep=3, config=None):
    return Checkpoint(directory=str(tmp_path), keep=keep, config=config)


def test_a_tensor_belongs_to_the_node_that_owns_it():
    policy = Part()
    user = Part(inner=policy)

    assert list(owned_tensors({"policy": policy, "user": user})) == [
        "policy:weight",
        "policy:buffer",
        "user:weight",
        "user:buffer",
    ]


def test_the_owner_does_not_depend_on_the_order_of_the_nodes():
    policy = Part()
    user = Part(inner=policy)
    one, other = {"policy": policy, "user": user}, {"user": user, "policy": policy}

    assert set(owned_tensors(one)) == set(owned_tensors(other))


def test_a_part_inside_a_node_belongs_to_that_node():
    assert "user:inner.weight" in owned_tensors({"user": Part(inner=Part())})


class Drawing(Component):
    """A generator and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = new_generator()


class Stateful(Component):
    """A state and nothing else."""

    def run_state(self):
        return {}

    def load_run_state(self, state):
        pass


class Buffered(nn.Module):
    """A buffer and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (nn.Linear(2, 1), "Linear"),
        (Buffered(), "Buffered"),
        (Drawing(), "Drawing"),
        (Stateful(), "Stateful"),
        (nn.Sequential(nn.Identity(), Buffered(), nn.Tanh()), "Buffered"),
    ],
)
def test_a_state_that_no_node_holds_is_told_by_the_class_of_its_part(part, kind):
    stages = [nn.Identity(), part]

    for nodes in ({}, {"plain": Plain(), "other": nn.Linear(2, 1)}):
        with pytest.raises(ConfigError, match=f'{kind} has state .* make."a name", {kind}, '):
            check_saved(stages, nodes)
    check_saved(stages, {"plain": Plain(), "whole": nn.ModuleList([part])})
    check_saved([nn.Identity()], {})


def test_tied_weights_are_saved_once_and_stay_tied(tmp_path):
    model = nn.Module()
    model.embedding, model.head = nn.Embedding(3, 2), nn.Linear(2, 3, bias=False)
    model.head.weight = model.embedding.weight
    before = model.head.weight.detach().clone()

    saved = saver(tmp_path).save({"model": model}, place(1))
    with torch.no_grad():
        model.head.weight.zero_()
    open_checkpoint(saved).restore({"model": model})

    names = open_checkpoint(saved).tensors().keys()
    assert [n for n in names if not n.startswith("state/")] == ["model:embedding.weight"]
    assert torch.equal(model.head.weight, before)
    assert model.head.weight is model.embedding.weight


def test_generators_of_nested_components_are_found():
    assert list(generators({"user": Part(inner=Part())})) == [
        "user:generator",
        "user:inner.generator",
    ]


def test_states_of_nested_components_and_of_plain_objects_are_saved():
    _, state = collect({"user": Part(inner=Part()), "plain": Plain()})

    assert set(state["nodes"]) == {"user:", "user:inner.", "plain:"}


def test_a_round_trip_is_bit_identical(tmp_path):
    torch.manual_seed(1)
    nodes = {"user": Part(inner=Part()), "plain": Plain()}
    nodes["user"].count, nodes["plain"].seen = 7, [float("nan"), (-0.0, float("inf")), {3: "x"}]
    torch.rand(5, generator=nodes["user"].inner.generator)
    path = saver(tmp_path).save(nodes, place(4))
    expected = {name: tensor.clone() for name, tensor in owned_tensors(nodes).items()}
    draws = [torch.rand(3, generator=g) for g in generators(nodes).values()]

    fresh = {"user": Part(inner=Part()), "plain": Plain()}
    found = open_checkpoint(path).restore(fresh)

    assert found == place(4)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in owned_tensors(fresh).items())
    for drawn, generator in zip(draws, generators(fresh).values(), strict=True):
        assert torch.equal(torch.rand(3, generator=generator), drawn)
    assert fresh["user"].count == 7
    assert repr(fresh["plain"].seen) == "[nan, (-0.0, inf), {3: 'x'}]"


def test_the_global_generators_come_back(tmp_path):
    path = saver(tmp_path).save({}, place(1))
    expected = torch.rand(2).tolist(), random.random(), np.random.rand()
    np.random.rand(700)  # past one block of the Mersenne twister

    open_checkpoint(path).restore({})

    assert (torch.rand(2).tolist(), random.random(), np.random.rand()) == expected


def test_a_learner_comes_back_with_its_optimizer(tmp_path):
    class Trained(Part):
        def __init__(self, **given):
            super().__init__(**given)
            self.optimizer = torch.optim.AdamW([self.weight], lr=0.1)

        def step(self):
            self.optimizer.zero_grad()
            (self.weight**2).sum().backward()
            self.optimizer.step()

        def run_state(self):
            return {"optimizer": self.optimizer.state_dict()}

        def load_run_state(self, state):
            self.optimizer.load_state_dict(state["optimizer"])

    one, other = Trained(), Trained()
    one.step()
    path = saver(tmp_path).save({"learner": one}, place(1))
    open_checkpoint(path).restore({"learner": other})
    one.step()
    other.step()

    assert torch.equal(one.weight, other.weight)


def test_only_the_newest_are_kept(tmp_path):
    checkpoint = saver(tmp_path, keep=2)
    for total in (9, 10, 11):
        checkpoint.save({}, place(total))

    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000010", "step-00000011"]


def test_a_new_checkpoint_is_never_the_one_that_goes(tmp_path):
    checkpoint = saver(tmp_path, keep=1)
    checkpoint.save({}, place(9))  # of a future that the resumed run has left
    checkpoint.save({}, place(4))

    assert [p.name for p in tmp_path.iterdir()] == ["step-00000004"]


@pytest.mark.parametrize("keep", [0, -1, "two"])
def test_keeping_none_is_refused(tmp_path, keep):
    with pytest.raises(ConfigError, match="keep is"):
        saver(tmp_path, keep=keep)


def test_a_checkpoint_of_the_same_step_replaces_the_other(tmp_path):
    part = Part()
    checkpoint = saver(tmp_path)
    checkpoint.save({"part": part}, place(1))
    with torch.no_grad():
        part.weight.fill_(3.0)
    path = checkpoint.save({"part": part}, place(1))

    assert open_checkpoint(path).tensors()["part:weight"].tolist() == [3.0, 3.0]


FILES = ["tensors.safetensors", "state.json", "manifest.json", "config.yaml"]


def damage(file, how):
    content = file.read_bytes()
    if how == "missing":
        file.unlink()
    elif how == "empty":
        file.write_bytes(b"")
    elif how == "cut short":
        file.write_bytes(content[: len(content) // 2])
    else:
        changed = bytearray(content)
        # Of a manifest, in a name of its first entry: what it tells of the environment is text.
        changed[len(changed) // 2 if file.name != "manifest.json" else 5] ^= 1
        file.write_bytes(changed)


@pytest.mark.parametrize("how", ["missing", "empty", "cut short", "one bit"])
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path, file, how):
    checkpoint = saver(tmp_path, config="".join(f"a{n}: 0\n" for n in range(20)))
    checkpoint.save({"part": Part()}, place(1))
    newest = checkpoint.save({"part": Part()}, place(2))
    damage(newest / file, how)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = checkpoint.newest()

    assert found.path.name == "step-00000001"
    (warning,) = caught
    assert str(warning.message).startswith("passed over: ")
    assert "step-00000002" in str(warning.message)


def test_a_checkpoint_of_another_format_is_refused(tmp_path):
    path = saver(tmp_path).save({}, place(1))
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))

    with pytest.raises(CheckpointError, match="format 99, this version reads format 1"):
        open_checkpoint(path)


def test_without_any_whole_checkpoint_there_is_nothing_to_resume(tmp_path):
    assert saver(tmp_path / "nowhere").newest() is None


@pytest.mark.parametrize("inside", ["", "checkpoints"])
def test_a_runs_directory_stands_for_its_newest_whole_checkpoint(tmp_path, inside):
    checkpoint = saver(tmp_path / inside)
    checkpoint.save({}, place(1))
    (checkpoint.save({}, place(2)) / "state.json").unlink()

    with pytest.warns(UserWarning, match="passed over"):
        assert open_checkpoint(tmp_path).path.name == "step-00000001"


def test_a_place_without_a_checkpoint_says_what_to_name(tmp_path):
    with pytest.raises(CheckpointError, match="there is no such folder: name a run's directory"):
        open_checkpoint(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="no whole checkpoint there: name a run's directory"):
        open_checkpoint(tmp_path)


def test_a_checkpoint_of_a_run_with_other_nodes_is_refused(tmp_path):
    path = saver(tmp_path).save({"part": Part()}, place(1))

    with pytest.raises(
        CheckpointError, match=r"is of another run: .*'other:buffer'; resume with the"
    ):
        open_checkpoint(path).restore({"part": Part(), "other": Part()})


class Counting(torch.nn.Module):
    def __init__(self, since=("updates",)):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([3.0]))
        for name in since:
            self.register_buffer(name, torch.zeros((), dtype=torch.int64))


def test_a_checkpoint_of_0_1_lacks_the_count_of_updates_and_is_loaded(tmp_path):
    path = saver(tmp_path).save({"policy": Counting(()), "outer": Outer(Counting(()))}, place(7))
    nodes = {"policy": Counting(), "outer": Outer(Counting())}
    with torch.no_grad():
        nodes["policy"].weight.zero_()

    found = open_checkpoint(path).restore(nodes)

    assert found == place(7)
    assert nodes["policy"].weight.item() == 3.0
    assert nodes["policy"].updates.item() == nodes["outer"].inner.updates.item() == 0


def test_only_the_count_of_updates_may_be_missing_and_it_too_has_its_shape():
    here = {"policy:weight": torch.ones(2), "policy:updates": torch.zeros(())}
    where = Path("step-00000001")

    check_tensors(where, here, {"policy:weight": torch.zeros(2)})
    with pytest.raises(CheckpointError, match=r"'policy:weight' is not there, \[2\] torch.float32"):
        check_tensors(where, here, {"policy:updates": torch.zeros(())})
    with pytest.raises(CheckpointError, match=r"'policy:updates' is \[1\] torch.float32 there"):
        check_tensors(where, here, {**here, "policy:updates": torch.zeros(1)})


def test_any_other_buffer_must_be_there(tmp_path):
    path = saver(tmp_path).save({"policy": Counting(())}, place(1))

    with pytest.raises(CheckpointError, match=r"differ in 'policy:last_updates'"):
        open_checkpoint(path).restore({"policy": Counting(["last_updates"])})


class Outer(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner


def test_a_checkpoint_of_a_run_with_fewer_states_is_refused(tmp_path):
    path = saver(tmp_path).save({}, place(1))

    with pytest.raises(CheckpointError, match=r"is of another run: .*'plain:'"):
        open_checkpoint(path).restore({"plain": Plain()})


class Passing(Plain):
    """A state that a run may begin without."""

    begins_anew = True


@pytest.mark.parametrize("state", [Plain, Passing])
def test_only_a_state_that_may_begin_anew_may_be_missing_on_either_side(tmp_path, state):
    with_it, without = (
        saver(tmp_path / name).save(nodes, place(1))
        for name, nodes in {"with": {"part": state()}, "without": {}}.items()
    )
    told = contextlib.nullcontext()
    if state is Plain:
        told = pytest.raises(CheckpointError, match=r"is of another run: .*'part:'")
    fresh = state()
    fresh.seen = []

    with told:
        open_checkpoint(with_it).restore({})
    with told:
        open_checkpoint(without).restore({"part": fresh})
    open_checkpoint(with_it).restore({"part": (again := state())})

    assert fresh.seen == []
    assert again.seen == [1.5, (2, None)]


def test_a_tensor_of_another_shape_is_refused_with_both(tmp_path):
    path = saver(tmp_path).save({"part": Part(width=2)}, place(1))

    with pytest.raises(
        CheckpointError, match=r"'part:weight' is \[2\] torch.float32 there, \[3\] torch"
    ):
        open_checkpoint(path).restore({"part": Part(width=3)})


def test_a_tensor_of_another_dtype_is_refused(tmp_path):
    path = saver(tmp_path).save({"layer": nn.Linear(1, 1)}, place(1))

    with pytest.raises(CheckpointError, match=r"'layer:weight' is .*float32 there, .*float64 here"):
        open_checkpoint(path).restore({"layer": nn.Linear(1, 1).double()})


@pytest.mark.parametrize("where", ["save_file", "write_manifest", "sync"])
def test_a_run_that_dies_while_saving_leaves_the_older_checkpoint_only(
    tmp_path, monkeypatch, where
):
    checkpoint = saver(tmp_path)
    checkpoint.save({"part": Part()}, place(1))

    def die(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(writer, where, die)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save({"part": Part()}, place(2))
    monkeypatch.undo()

    assert checkpoint.newest().path.name == "step-00000001"
    assert sorted(p.name for p in tmp_path.glob("step-*")) == ["step-00000001"]


def test_what_a_dead_run_left_is_cleared_by_the_next_save(tmp_path):
    (tmp_path / ".tmp-step-00000001-99").mkdir()

    saver(tmp_path).save({}, place(2))

    assert [p.name for p in tmp_path.iterdir()] == ["step-00000002"]


def drafts_of(directory):
    """What may stand in the way of drafts: files of their very names, a link, and another file."""
    elsewhere = directory.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    directory.mkdir(exist_ok=True)
    for step in range(1, 4):
        (directory / f".tmp-step-0000000{step}-{os.getpid()}").write_text("no draft")
        (directory / f".tmp-step-0000000{step}-deleted-{os.getpid()}").write_text("no draft")
    (directory / ".tmp-step-x").write_text("somebody's")
    (directory / ".tmp-step-link").symlink_to(elsewhere)
    return elsewhere


def test_files_that_are_named_like_drafts_are_in_nobody_s_way(tmp_path):
    elsewhere = drafts_of(tmp_path / "checkpoints")
    checkpoint = Checkpoint(directory=str(tmp_path / "checkpoints"), keep=1)

    for step in range(1, 4):
        newest = checkpoint.save({}, PLACE | {"total": step})
        checkpoint.tidy(newest)

    assert list_checkpoints(checkpoint.directory) == [newest]
    assert (checkpoint.directory / ".tmp-step-x").read_text() == "somebody's"
    assert elsewhere.is_dir()


def test_nor_are_they_where_the_best_are_kept(tmp_path):
    checkpoint = Checkpoint(directory=str(tmp_path / "checkpoints"), keep=9)
    best = {"phase": "rl", "metric": "m", "better": "higher", "value": 1.0, "step": 1, "total": 1}
    source = checkpoint.save({}, PLACE | {"total": 1, "best": {"rl": best}})
    drafts_of(checkpoint.directory / "best")

    retain_best(checkpoint, [best], source)
    save_best(checkpoint, {}, PLACE | {"total": 2}, [best | {"total": 2, "step": 2}])

    assert [path.name for path in list_checkpoints(checkpoint.directory / "best")] == [
        "step-00000002"
    ]


def test_drafts_of_a_dead_process_of_the_same_number_are_in_nobodys_way(tmp_path):
    saver(tmp_path, keep=1).save({}, place(1))
    for draft in ("step-00000002", "step-00000001-deleted"):
        (tmp_path / f".tmp-{draft}-{os.getpid()}").mkdir()
        (tmp_path / f".tmp-{draft}-{os.getpid()}" / "half.json").touch()

    path = saver(tmp_path, keep=1).save({}, place(2))

    assert [p.name for p in tmp_path.iterdir()] == ["step-00000002"]
    assert not (path / "half.json").exists()


def test_a_run_that_dies_while_deleting_leaves_no_half_of_a_checkpoint(tmp_path, monkeypatch):
    checkpoint = saver(tmp_path, keep=1)
    checkpoint.save({}, place(1))

    def die(path, **_):
        if path.is_dir():
            (path / "manifest.json").unlink()
            raise KeyboardInterrupt

    monkeypatch.setattr(writer.shutil, "rmtree", die)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save({}, place(2))
    monkeypatch.undo()

    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-00000002"]
    saver(tmp_path, keep=1).tidy(tmp_path / "step-00000002")
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]


def test_tidying_keeps_what_is_newer_and_as_many_as_are_to_be_kept(tmp_path):
    for total in (1, 2, 3, 4):
        saver(tmp_path, keep=9).save({}, place(total))

    saver(tmp_path, keep=2).tidy(tmp_path / "step-00000003")
    saver(tmp_path, keep=1).tidy(tmp_path / "elsewhere" / "step-00000003")

    names = ["step-00000002", "step-00000003", "step-00000004"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_the_files_are_on_disk_before_the_checkpoint_has_its_name(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(writer.os, "fsync", lambda handle: done.append("fsync"))
    rename = os.rename
    monkeypatch.setattr(writer.os, "rename", lambda *a: (done.append("rename"), rename(*a)))

    saver(tmp_path, config="a: 1").save({}, place(1))

    # Four files and their folder before, the folder above after.
    assert done == ["fsync"] * 5 + ["rename", "fsync"]


def test_the_runs_config_is_stored_beside_the_tensors(tmp_path):
    path = saver(tmp_path, config="name: é\n").save({}, place(1))

    assert (path / "config.yaml").read_text(encoding="utf-8") == "name: é\n"


def test_nothing_in_a_checkpoint_is_a_pickle(tmp_path):
    path = saver(tmp_path, config="a: 1").save({"part": Part(), "plain": Plain()}, place(1))

    assert {file.suffix for file in path.iterdir()} == {".safetensors", ".json", ".yaml"}


def test_a_checkpoint_can_be_moved(tmp_path):
    part = Part()
    shutil.move(saver(tmp_path / "a").save({"part": part}, place(1)), tmp_path / "b")

    assert torch.equal(open_checkpoint(tmp_path / "b").tensors()["part:weight"], part.weight)


GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoint" / "step-00000002"


def test_a_checkpoint_of_the_first_format_is_read():
    # Written by the version of 2026-11-22 with the nodes below; the draws are those that followed.
    part, plain = Part(), Plain()
    plain.seen = []

    found = open_checkpoint(GOLDEN).restore({"part": part, "plain": plain})

    lines = {"metrics": 70, "samples": 0, "ended": []}
    assert found == {
        **place(2),
        "step": 2,
        "seed": 5,
        "best": {},
        "trackers": {"json_lines": lines},
    }
    assert (part.weight.tolist(), part.buffer.tolist(), part.count) == ([1.5, -2.0], [0.25, 8.0], 7)
    assert plain.seen == [1.5, (2, None)]
    draws = [0.004263520240783691, 0.10556936264038086, 0.2858424782752991]
    assert torch.rand(3, generator=part.generator).tolist() == draws
    assert torch.rand(2).tolist() == [0.9201034307479858, 0.1166452169418335]
    assert (random.random(), np.random.rand()) == (0.6229016948897019, 0.22199317108973948)


def test_a_state_too_large_to_be_read_back_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "MAX_JSON_BYTES", 100)

    with pytest.raises(CheckpointError, match="would not be read back: save large states as tens"):
        saver(tmp_path).save({"plain": Plain()}, place(1))

    assert list(tmp_path.iterdir()) == []


def test_a_file_too_large_for_ours_is_not_read(tmp_path, monkeypatch):
    path = saver(tmp_path).save({}, place(1))
    monkeypatch.setattr("rlcomp.files.untrusted.MAX_JSON_BYTES", 100)

    with pytest.raises(CheckpointError, match="it is larger than 100 bytes"):
        open_checkpoint(path)


def test_a_name_that_an_object_has_twice_is_told():
    with pytest.raises(ValueError, match=r"^it has 'c' twice$"):
        parse_json(b'{"a": 1, "b": {"a": 2, "c": 3, "d": 4, "c": 3}}')


def test_checkpoints_are_ordered_by_number_and_nothing_else_is_one(tmp_path):
    for name in ("step-00000003", "step-100000000", "step-99999999", "step-3", "step-00000007.bak"):
        (tmp_path / name).mkdir()

    names = [path.name for path in list_checkpoints(tmp_path)]

    assert names == ["step-100000000", "step-99999999", "step-00000003"]


def test_the_newest_knows_all_that_are_older(tmp_path):
    checkpoint = saver(tmp_path)
    for total in (1, 2, 3):
        checkpoint.save({}, place(total))

    newest = checkpoint.newest()

    names = [path.name for path in (newest.path, *newest.older)]
    assert names == ["step-00000003", "step-00000002", "step-00000001"]


def test_a_checkpoint_may_be_named_by_a_link(tmp_path):
    path = saver(tmp_path / "a").save({}, place(1))
    (tmp_path / "step-00000001").symlink_to(path)

    assert open_checkpoint(tmp_path / "step-00000001").path == path


def test_a_place_that_would_not_be_read_back_is_not_written(tmp_path):
    with pytest.raises(CheckpointError, match="'phase' is missing"):
        saver(tmp_path).save({}, {"total": 1})

    assert list(tmp_path.iterdir()) == []


ENDED = {"phase": "rl", "reason": "enough", "total": 1, "step": 1, "steps": 2, "best": None}
BEST = {"phase": "rl", "metric": "a", "better": "lower", "value": 0.5, "step": 1, "total": 1}
LINES = {"metrics": 0, "samples": 0}


def in_lines(**changes):
    return {"trackers": {"json_lines": {**LINES, **changes}}}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"phase": -1}, "'phase' is -1"),
        ({"step": "1"}, "'step' is '1'"),
        ({"total": 1.5}, "'total' is 1.5"),
        ({"total": 10**11}, "'total' is 1"),
        ({"step": 2}, "'step' is 2, but 'total' is 1"),
        ({"seed": -1}, "'seed' is -1"),
        ({"mine": 1}, "'mine' is no field"),
        ({"trackers": []}, "'trackers' is "),
        ({"trackers": {"mine": 3}}, "'mine' is 3"),
        ({"trackers": {"json_lines": {"metrics": 0}}}, "'samples' is missing"),
        (in_lines(mine=0), "'mine' is no field"),
        (in_lines(metrics=-1), "'metrics' is -1"),
        (in_lines(samples=True), "'samples' is True"),
        (in_lines(ended={}), "'ended' is {}"),
        (in_lines(ended=[ENDED, 3]), "the state is 3"),
        (in_lines(ended=[ENDED | {"phase": ""}]), "'phase' is ''"),
        (in_lines(ended=[ENDED | {"reason": 3}]), "'reason' is 3"),
        (in_lines(ended=[ENDED | {"total": 0}]), "'total' is 0"),
        (in_lines(ended=[ENDED | {"step": 0}]), "'step' is 0"),
        (in_lines(ended=[ENDED | {"steps": -2}]), "'steps' is -2"),
        (in_lines(ended=[ENDED | {"best": 3}]), "'best' is 3"),
        ({"trackers": {"wandb": {"id": 3}}}, "'id' is 3"),
        ({"trackers": {"wandb": {"id": "a", "spent": {"t": -1.0}}}}, "'t' is -1.0"),
        ({"trackers": {"wandb": {"id": "a", "spent": [1]}}}, "'spent' is [1]"),
        ({"trackers": {"wandb": {"id": "a", "best": {"m": "x"}}}}, "'m' is 'x'"),
        ({"trackers": {"wandb": {"id": "a/b"}}}, "'id' is 'a/b': no id of a W&B run"),
        ({"trackers": {"wandb": {"id": "a" * 65}}}, "'id' is 'aaaa"),
        ({"best": 3}, "'best' is 3"),
        ({"best": {"rl": 3}}, "'rl' is 3"),
        ({"best": {"rl": BEST | {"mine": 1}}}, "'mine' is no field"),
        ({"best": {"rl": BEST | {"metric": ""}}}, "'metric' is ''"),
        ({"best": {"rl": BEST | {"value": "a"}}}, "'value' is 'a'"),
        ({"best": {"rl": BEST | {"step": 0}}}, "'step' is 0"),
        ({"best": {"rl": BEST | {"better": "no"}}}, "'better' is 'no'"),
        ({"best": {"rl": BEST | {"phase": "sft"}}}, "the best step of 'rl' is "),
        ({"best": {"rl": BEST | {"total": 2}}}, "the best step of 'rl' is "),
        ({"best": {"rl": BEST | {"total": 0}}}, "'total' is 0"),
    ],
)
def test_a_place_with_a_field_that_is_none_is_not_written(tmp_path, changes, told):
    with pytest.raises(CheckpointError, match=f"^{re.escape(told)}"):
        saver(tmp_path).save({}, place(1) | changes)

    assert list(tmp_path.iterdir()) == []


def test_a_place_with_all_fields_comes_back(tmp_path):
    trackers = in_lines(ended=[ENDED, ENDED | {"best": BEST}])["trackers"]
    where = {"phase": 0, "step": 0, "total": 10**11 - 1, "seed": 0, "best": {"rl": BEST}}
    where["trackers"] = {**trackers, "wandb": {"id": "a" * 64}}

    assert open_checkpoint(saver(tmp_path).save({}, where)).position() == where


@pytest.mark.parametrize("run", [None, "a1b2c3d4", "my-run_1"])
def test_the_id_of_a_run_elsewhere_is_part_of_the_place(tmp_path, run):
    where = {**place(1), "trackers": {"wandb": {"id": run}, "mine": {"rows": 6}}}

    assert open_checkpoint(saver(tmp_path).save({}, where)).position() == where


@pytest.mark.parametrize(("part", "numbers"), [(Checkpoint, {"keep": 2})])
def test_numbers_that_nobody_gives(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers
