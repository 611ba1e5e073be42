"""A table of corruptions: each is told and passed over, and the run goes on from the older one.

Half of them are a stranger's or a bug's: their checksums are right.
"""

import json
import os
import random
import shutil
import struct
import warnings

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import load_file, save_file

from rlcomp.checkpoint.manifest import check_files, write_manifest
from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.checkpoint.state import collect
from rlcomp.checkpoint.state_fields import join_tree, split_tree
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.component import Component
from rlcomp.errors import CheckpointError
from rlcomp.metrics import keep_best, record
from rlcomp.pareto.aggregator import RunningMeans
from rlcomp.run.phase import Phase
from rlcomp.run.program import run_phases
from rlcomp.run.resume import checkpoint_to_resume
from rlcomp.seed import new_generator
from rlcomp.trackers.tracker import JsonLines

NAN, NEWEST, OLDER = float("nan"), "step-00000005", "step-00000004"


class Learn(Component):
    """A weight that walks by all kinds of state: a buffer, a generator, a count, running means."""

    weight: torch.Tensor

    def __init__(self, means) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(2))
        self.generator = new_generator()
        self.means = means
        self.seen = []

    def forward(self, batch):
        self.seen.append(float(self.weight.sum()))
        draws = torch.rand(2, generator=self.generator) + torch.rand(2)
        self.weight += draws + random.random() + np.random.rand() + len(self.seen)
        self.means.update("weight", float(self.weight.sum()))
        record("learn/weight", self.weight)
        record("learn/mean", self.means.get("weight"))
        keep_best(metric="learn/mean", better="higher", value=self.means.get("weight"))
        return batch

    def run_state(self):
        return {"seen": torch.tensor(self.seen, dtype=torch.float64), "pairs": {(1, "a"): 2}}

    def load_run_state(self, state):
        self.seen = state["seen"].tolist()
        self.pairs = state["pairs"][1, "a"]


def config_of(directory):
    return OmegaConf.create({"seed": 0, "directory": str(directory), "resume": "auto", "rate": 1})


def go_on(directory):
    """Run, or go on, as the command line does."""
    config = config_of(directory)
    means = RunningMeans(0.5)
    checkpoint = Checkpoint(
        directory=f"{directory}/checkpoints", keep=9, config=OmegaConf.to_yaml(config)
    )
    # The means come last: the others are loaded when they are refused.
    nodes = {"learn": Learn(means), "means": means, "checkpoint": checkpoint}
    beside = {"checkpoint": (1, checkpoint)}
    phases = {name: Phase(3, [nodes["learn"]], beside) for name in ("one", "two")}
    run_phases(
        phases,
        nodes=nodes,
        seed=0,
        trackers=[JsonLines(directory=str(directory))],
        checkpoint=checkpoint,
        saved=checkpoint_to_resume(config, checkpoint),
    )


def left(directory):
    """What a run has left, to the bit, but for its times."""
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    last = open_checkpoint(directory / "checkpoints" / "step-00000006")
    state, means = last.tensors(), last.state()["nodes"]["means:"]
    metrics = [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]
    return metrics, {name: t.tolist() for name, t in state.items()}, means, last.state()["random"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole") / "run"
    go_on(directory)
    return directory


@pytest.fixture
def cut(whole, tmp_path):
    """The run as if it had been killed after the fifth step of six."""
    shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000006")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "best" / "step-00000006")
    return tmp_path / "run"


# Ways to corrupt. What is resealed has right checksums.


def reseal(path):
    (path / "manifest.json").unlink()
    write_manifest(path)


def at(value, keys):
    for key in keys:
        value = value[key]
    return value


def put(*keys, value, file="state.json"):
    def corrupt(path):
        whole = json.loads((path / file).read_text())
        at(whole, keys[:-1])[keys[-1]] = value
        (path / file).write_text(json.dumps(whole))
        if file != "manifest.json":
            reseal(path)

    return corrupt


def drop(*keys, file="state.json"):
    def corrupt(path):
        whole = json.loads((path / file).read_text())
        del at(whole, keys[:-1])[keys[-1]]
        (path / file).write_text(json.dumps(whole))
        if file != "manifest.json":
            reseal(path)

    return corrupt


def manifest(*keys, value):
    return put(*keys, value=value, file="manifest.json")


def listed(*keys, value):
    return manifest("files", *keys, value=value)


def write(file, content, seal=True):
    def corrupt(path):
        (path / file).write_bytes(content(path) if callable(content) else content)
        if seal:
            reseal(path)

    return corrupt


def replaced(file, old, new):
    def corrupt(path):
        text = (path / file).read_text()
        assert old in text
        (path / file).write_text(text.replace(old, new, 1))
        reseal(path)

    return corrupt


def tensors(change):
    def corrupt(path):
        held = load_file(path / "tensors.safetensors")
        change(held)
        save_file(held, path / "tensors.safetensors")
        reseal(path)

    return corrupt


def tree(*keys, change):
    """Change the state of a part, or of the generators, as Python sees it."""

    def corrupt(path):
        held = load_file(path / "tensors.safetensors")
        state = json.loads((path / "state.json").read_text())
        parent = at(state, keys[:-1])
        value = change(join_tree(parent[keys[-1]], held))
        parent[keys[-1]], more = split_tree(value, f"state/{keys[-1]}")
        save_file(held | more, path / "tensors.safetensors")
        (path / "state.json").write_text(json.dumps(state))
        reseal(path)

    return corrupt


def numpy_state(*items):
    """NumPy's state with some of its five items changed, by place."""

    def change(state):
        state["numpy"] = [dict(items).get(n, item) for n, item in enumerate(state["numpy"])]
        return state

    return tree("random", change=change)


def python_state(change):
    return tree("random", change=lambda state: {**state, "python": change(state["python"])})


def means(change):
    return tree("nodes", "means:", change=change)


def header(change):
    """Rewrite the header of the tensors' file as text."""

    def content(path):
        raw = (path / "tensors.safetensors").read_bytes()
        size = struct.unpack("<Q", raw[:8])[0]
        new = change(raw[8 : 8 + size].decode()).encode()
        return struct.pack("<Q", len(new)) + new + raw[8 + size :]

    return write("tensors.safetensors", content)


def link(file):
    def corrupt(path):
        shutil.move(path / file, path.parent.parent / file)
        (path / file).symlink_to(path.parent.parent / file)

    return corrupt


def linked_directory(path):
    shutil.move(path, path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def a_file_instead(path):
    shutil.rmtree(path)
    path.write_text("")


def swapped(path):
    shutil.rmtree(path)
    shutil.copytree(path.parent / OLDER, path)


def remove(file, seal=False):
    def corrupt(path):
        (path / file).unlink()
        if seal:
            reseal(path)

    return corrupt


def flip(file):
    def content(path):
        raw = bytearray((path / file).read_bytes())
        raw[len(raw) // 2] ^= 1
        return bytes(raw)

    return write(file, content, seal=False)


def shorter(file):
    return write(file, lambda path: (path / file).read_bytes()[:-1], seal=False)


def deep(node, levels=450):
    """A tree of a part that JSON can still read."""
    nested = '{"list": [' * levels + "]}" * levels

    def corrupt(path):
        put("nodes", node, value="deep")(path)
        replaced("state.json", '"deep"', nested)(path)

    return corrupt


def twice(text):
    """A header in which the first tensor has its entry twice."""
    start = text.index('"learn:weight"')
    entry = text[start : text.index("}", start) + 1]
    return text[:start] + entry + "," + text[start:]


def resized(name, size, dtype=torch.uint8):
    return tensors(lambda held: held.update({name: torch.zeros(size, dtype=dtype)}))


BEST = ("place", "best", "one")
LINES = ("place", "trackers", "json_lines")
MANY = {"metrics": [[size, "0" * 64] for size in range(1, 66)], "samples": []}


def turned_round(*keys):
    def corrupt(path):
        whole = json.loads((path / "state.json").read_text())
        at(whole, keys).reverse()
        (path / "state.json").write_text(json.dumps(whole))
        reseal(path)

    return corrupt


TENSORS, STATE, CONFIG = "tensors.safetensors", "state.json", "config.yaml"

# What is done to the newest checkpoint, and what is said when it is passed over.
CORRUPTIONS = {
    # Files.
    "no tensors": (remove(TENSORS), "tensors.safetensors is missing"),
    "no state": (remove(STATE), "state.json is missing"),
    "no manifest": (remove("manifest.json"), "manifest.json is missing"),
    "no config": (remove(CONFIG), "config.yaml is missing"),
    "no config, resealed": (remove(CONFIG, True), "has no config.yaml"),
    "a weight that is not a number": (
        tensors(lambda held: held["learn:weight"].fill_(NAN)),
        "'learn:weight' is not finite",
    ),
    "an endless weight": (
        tensors(lambda held: held["learn:weight"][0:1].fill_(float("-inf"))),
        "'learn:weight' is not finite",
    ),
    "a shown text": (
        put("place", "trackers", "display", value={"latest": {"kl": "x"}}),
        "'latest' of 'kl' is 'x': must be a number",
    ),
    "no tensors, resealed": (remove(TENSORS, True), "'files' are config.yaml, state.json"),
    "a bit of the tensors": (flip(TENSORS), "size or checksum differ"),
    "a bit of the state": (flip(STATE), "size or checksum differ"),
    "a bit of the config": (flip(CONFIG), "size or checksum differ"),
    "the last byte of the tensors": (shorter(TENSORS), "size or checksum differ"),
    "an unlisted file": (write("more.py", b"", seal=False), "more.py is not of this checkpoint"),
    "a listed stranger": (write("more.py", b""), "'files' are config.yaml, more.py"),
    "a directory in it": (lambda path: (path / "more").mkdir(), "more is a link or no file"),
    "a linked file": (link(TENSORS), "tensors.safetensors is a link or no file"),
    "a pipe": (lambda path: os.mkfifo(path / "pipe"), "pipe is a link or no file"),
    "a link": (linked_directory, "is not a directory: a checkpoint is a directory, not a link"),
    "a file of its name": (a_file_instead, "is not a directory"),
    "another step's": (swapped, "'total' is 4, but the checkpoint's name is step-00000005"),
    # Manifest.
    "manifest of nothing": (write("manifest.json", b"", seal=False), "Expecting value"),
    "manifest a list": (write("manifest.json", b"[]", seal=False), "must be a mapping"),
    "manifest not UTF-8": (write("manifest.json", b"\xff", seal=False), "can't decode"),
    "a newer format": (manifest("format", value=2), "format 2, this version reads format 1"),
    "format a truth": (manifest("format", value=True), "'format' is True: must be an integer"),
    "no format": (drop("format", file="manifest.json"), "'format' is missing"),
    "threads a text": (manifest("threads", value="1"), "'threads' is '1'"),
    "torch a number": (manifest("torch", value=2.13), "'torch' is 2.13: must be a text"),
    "files a list": (manifest("files", value=[]), "'files' is .*: must be a mapping"),
    "a path outside": (listed("../../metrics.jsonl", value=[1, "0" * 64]), "'files' are"),
    "an absolute path": (listed("/etc/passwd", value=[1, "0" * 64]), "'files' are"),
    "a size a text": (listed(STATE, 0, value="9"), "must be an integer"),
    "a size below 0": (listed(STATE, 0, value=-1), "must be at least 0"),
    "a size of thousands of digits": (listed(STATE, 0, value=10**4000), "size or checksum"),
    "no checksum": (listed(STATE, value=[9]), "must be a list of 2"),
    "a checksum of another kind": (listed(STATE, 1, value="0" * 40), "no SHA-256"),
    # State: its JSON.
    "state of nothing": (write(STATE, b""), "state.json is not what was written"),
    "state a list": (write(STATE, b"[]"), "state.json: the state is .*: must be a mapping"),
    "state too deep": (write(STATE, b"[" * 10**5), "state.json is not what was written"),
    "a number of 5000 digits": (write(STATE, b'{"place": 1' + b"0" * 5000 + b"}"), "state.json"),
    "a name twice": (replaced(STATE, '"total": 5', '"total": 4, "total": 5'), "'total' twice"),
    "a field more": (put("hook", value="os.system"), "'hook' is no field of this state"),
    "no place": (drop("place"), "'place' is missing"),
    "no random state": (drop("random"), "'random' is missing"),
    "nodes a list": (put("nodes", value=[]), "'nodes' is"),
    "passing a number": (put("passing", value=3), "'passing' must be a list"),
    # Place.
    "place a list": (put("place", value=[]), "the state is .*: must be a mapping"),
    "a field more in the place": (put("place", "x", value=1), "'x' is no field"),
    "phase a text": (put("place", "phase", value="one"), "'phase' is 'one': must be an integer"),
    "phase below 0": (put("place", "phase", value=-1), "'phase' is -1"),
    "phase a share": (put("place", "phase", value=1.0), "'phase' is 1.0: must be an integer"),
    "a phase behind the last": (put("place", "phase", value=3), "but the run has 2 phases"),
    "a step of no phase": (put("place", "phase", value=2), "step 2 of phase 3, but the run has 2"),
    "a step behind the phase": (put("place", "step", value=4), "phase 'two', which has 3 steps"),
    "step not a number": (put("place", "step", value=NAN), "'step' is nan"),
    "step below 0": (put("place", "step", value=-1), "'step' is -1"),
    "more steps than all": (put("place", "step", value=6), "'step' is 6, but 'total' is 5"),
    "total below 0": (put("place", "total", value=-5), "'total' is -5"),
    "a total of hundreds of digits": (put("place", "total", value=10**400), "a huge number"),
    "total of another step": (put("place", "total", value=4), "the checkpoint's name is step-"),
    "no total": (drop("place", "total"), "'total' is missing"),
    "seed a text": (put("place", "seed", value="0"), "'seed' is '0'"),
    "seed of another run": (
        put("place", "seed", value=1),
        "'seed' is 1, but 0 in config.yaml beside it: put back the file that is of another run",
    ),
    "trackers a list": (put("place", "trackers", value=[]), "'trackers' is"),
    "a tracker a number": (put(*LINES, value=3), "'json_lines' is 3"),
    "length below 0": (put(*LINES, "metrics", value=-1), "'metrics' is -1"),
    "length a share": (put(*LINES, "samples", value=0.5), "'samples' is 0.5"),
    "no length": (drop(*LINES, "samples"), "'samples' is missing"),
    "a digest of no file": (put(*LINES, "digests", "other", value=[]), "'other' is no field"),
    "digests no list": (put(*LINES, "digests", "metrics", value=3), "'metrics' is 3"),
    "digests of another size": (
        put(*LINES, "digests", "metrics", value=[[5, "0" * 64]]),
        "'digests' of 'metrics' do not lead to its size",
    ),
    "digests in another order": (
        turned_round(*LINES, "digests", "metrics"),
        "'digests' of 'metrics' do not lead to its size",
    ),
    "more digests than there are": (
        put(*LINES, value={"metrics": 65, "samples": 0, "digests": MANY}),
        "'digests' of 'metrics' do not lead to its size",
    ),
    "a digest that is none": (
        put(*LINES, "digests", "metrics", 0, 1, value="0" * 63 + "G"),
        "must be a size and a SHA-256",
    ),
    "a digest at no size": (put(*LINES, "digests", "metrics", 0, value=[0, "0" * 64]), "a SHA-256"),
    "an end without a reason": (put(*LINES, "ended", value=[{"phase": "one"}]), "'reason' is miss"),
    "an id of W&B a path": (
        put("place", "trackers", "wandb", value={"id": "../../x"}),
        "no id of a W&B run",
    ),
    "best a list": (put("place", "best", value=[]), "'best' is"),
    "a best value not a number": (put(*BEST, "value", value=NAN), "'value' is nan: must be finite"),
    "a best in the future": (put(*BEST, "total", value=6), "the best step of 'one'"),
    "a best of a path": (put(*BEST, "total", value="/../x"), "'total' is '/../x'"),
    "a best of another phase": (put(*BEST, "phase", value="two"), "the best step of 'one'"),
    "a best better sideways": (put(*BEST, "better", value="sideways"), "'better' is 'sideways'"),
    # Trees.
    "a mark nobody knows": (put("nodes", "means:", value={"set": [1]}), "no dict, list, tuple"),
    "two marks": (put("nodes", "means:", value={"list": [], "tuple": []}), "nor a mark of split"),
    "a list without a mark": (put("nodes", "means:", value=[1]), "nor a mark of split"),
    "a dict of no pairs": (put("nodes", "means:", value={"dict": [[1]]}), "no pair of a key"),
    "a key that cannot be one": (
        put("nodes", "means:", value={"dict": [[{"list": []}, 1]]}),
        "cannot be a key",
    ),
    "a key twice": (put("nodes", "means:", value={"dict": [["a", 1], ["a", 2]]}), "there twice"),
    "a tree too deep": (deep("means:"), "means:|recursion"),
    "a tensor that is not there": (put("nodes", "means:", value={"tensor": "x"}), "'x' is not th"),
    "a tensor in two places": (
        put("nodes", "means:", value={"dict": [["weight", {"tensor": "state/random.torch"}]]}),
        "in two places",
    ),
    "a tensor of no place": (resized("state/more", 3), "no state has the tensor 'state/more'"),
    # Tensors.
    "no header": (write(TENSORS, b""), "tensors.safetensors cannot be read"),
    "a header longer than the file": (write(TENSORS, b"\xff" * 64), "cannot be read"),
    "a dtype nobody knows": (header(lambda h: h.replace('"F32"', '"F99"')), "cannot be read"),
    "a dtype torch lacks": (
        header(lambda h: h.replace('"dtype":"F32","shape":[2]', '"dtype":"F6_E2M3","shape":[8]')),
        "cannot be read",
    ),
    "offsets that overlap": (header(lambda h: h.replace("[0,", "[1,", 1)), "cannot be read"),
    "a tensor's name twice": (
        header(twice),
        "'learn:weight' twice",
    ),
    "a weight of another shape": (resized("learn:weight", 1, torch.float32), r"is \[1\] torch.f"),
    "a weight of another dtype": (resized("learn:weight", 2, torch.float64), "float64 there"),
    "no weight": (tensors(lambda held: held.pop("learn:weight")), "differ in 'learn:weight'"),
    "a weight more": (resized("other:weight", 2), "differ in 'other:weight'"),
    # Generators.
    "a generator too short": (resized("learn:generator", 9), "the generator 'learn:generator' is"),
    "a generator of floats": (resized("learn:generator", 5056, torch.float32), "generator"),
    "torch's generator too short": (
        tree("random", change=lambda state: {**state, "torch": torch.zeros(9, dtype=torch.uint8)}),
        "the generator 'torch' is invalid",
    ),
    "torch's generator a number": (
        tree("random", change=lambda state: {**state, "torch": 3}),
        "'torch' is invalid: it is 3, no tensor",
    ),
    "no generator of Python": (
        tree("random", change=lambda s: {k: v for k, v in s.items() if k != "python"}),
        "'python' is missing",
    ),
    "Python's words too few": (python_state(lambda s: (3, s[1][:9], None)), "624 words"),
    "Python's words too large": (
        python_state(lambda s: (3, (2**32, *s[1][1:]), None)),
        "words of 32 bits",
    ),
    "Python's place behind the end": (python_state(lambda s: (3, (*s[1][:-1], 700), None)), "624"),
    "Python's version": (python_state(lambda s: (2, *s[1:])), "'python' is"),
    "Python's Gaussian a text": (python_state(lambda s: (*s[:2], "x")), "'python' is"),
    "NumPy's words too few": (numpy_state((1, torch.zeros(9, dtype=torch.int64))), r"\[9\]"),
    "NumPy's words below 0": (numpy_state((1, -torch.ones(624, dtype=torch.int64))), "32 bits"),
    "NumPy's words of floats": (numpy_state((1, torch.zeros(624))), "torch.float32: must be"),
    "NumPy's place behind the end": (numpy_state((2, 625)), "no position and Gaussian"),
    "NumPy's other generator": (numpy_state((0, "PCG64")), "'numpy' is"),
    "NumPy's Gaussian a text": (numpy_state((4, "x")), "no position and Gaussian"),
    # States of parts.
    "a part without its state": (drop("nodes", "means:"), "differ in 'means:'"),
    "a part's state a number": (put("nodes", "learn:", value=3), "state.json"),
    "an average a text": (means(lambda s: {"weight": "x"}), "'means:': 'weight' is 'x'"),
    "an average not a number": (means(lambda s: {"weight": NAN}), "'means:': 'weight' is nan"),
    "averages a list": (means(lambda s: [1]), "the state of 'means:'"),
    "a field of a user's own part": (
        tree("nodes", "learn:", change=lambda s: {"seen": s["seen"]}),
        "the state of 'learn:': KeyError: 'pairs'",
    ),
    "a tensor a number": (
        tree("nodes", "learn:", change=lambda s: {**s, "seen": 3}),
        "the state of 'learn:': AttributeError",
    ),
    # Config.
    "a config of a tag": (write(CONFIG, b"a: !!python/name:os.system"), "not a config that rlcomp"),
    "a config of nothing": (write(CONFIG, b""), "not a config that rlcomp wrote"),
    "a config with a name twice": (
        write(CONFIG, b"a: 1\na: 2\n"),
        "not a config that rlcomp wrote",
    ),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_is_told_and_the_older_checkpoint_is_used(whole, cut, name):
    corrupt, reason = CORRUPTIONS[name]
    corrupt(cut / "checkpoints" / NEWEST)

    with pytest.warns(UserWarning, match=f"(?s)passed over: .*{NEWEST}.*{reason}") as told:
        go_on(cut)

    assert len(told) == 1
    assert left(cut) == left(whole)
    # What could not be read is still there, beside the new one.
    assert os.path.lexists(cut / "checkpoints" / f"unreadable-{NEWEST}")


def lengths(metrics):
    marks = {"metrics": [[metrics, "0" * 64]], "samples": []}
    return {"metrics": metrics, "samples": 0, "digests": marks}


# What is no damage, but another run's: nothing is passed over, and the run is refused.
REFUSED = {
    "another config": (replaced(CONFIG, "rate: 1", "rate: 2"), "rate was 2, is 1"),
    "a longer record": (put(*LINES, value=lengths(10**6)), "a part of the record was lost"),
    "a record that ends elsewhere": (put(*LINES, value=lengths(9)), "no line that ends at byte"),
    "a record of other bytes": (
        put(*LINES, "digests", "metrics", -1, 1, value="0" * 64),
        r"metrics\.jsonl, line 5 \(bytes .*\), is not what the run wrote; continue from an older "
        r"checkpoint, resume=.*step-00000004",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_belongs_to_another_run_is_refused(cut, name):
    corrupt, reason = REFUSED[name]
    corrupt(cut / "checkpoints" / NEWEST)
    before = (cut / "metrics.jsonl").read_bytes()

    with pytest.raises(CheckpointError, match=reason):
        go_on(cut)

    assert (cut / "metrics.jsonl").read_bytes() == before


def test_an_intact_checkpoint_is_used(whole, cut):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        go_on(cut)

    assert left(cut) == left(whole)
    assert not list((cut / "checkpoints").glob("unreadable*"))


def test_where_none_can_be_read_the_run_is_refused_and_nothing_deleted(cut):
    paths = sorted((cut / "checkpoints").glob("step-*"))
    for path in paths:
        manifest("format", value=2)(path)

    with pytest.raises(
        CheckpointError, match=r"(?s)format 2.*rlcomp that wrote it.*overwrite=true"
    ):
        go_on(cut)

    assert sorted((cut / "checkpoints").glob("step-*")) == paths


@pytest.mark.parametrize("name", ["an average a text", "a field of a user's own part"])
def test_a_refused_checkpoint_leaves_nothing_behind(cut, name):
    CORRUPTIONS[name][0](cut / "checkpoints" / NEWEST)
    torch.manual_seed(8)
    nodes = {"learn": Learn(RunningMeans(0.5)), "means": RunningMeans(0.5)}
    nodes["means"].update("weight", 0.25)
    nodes["learn"].seen, nodes["learn"].pairs = [1.5], 2
    before = collect(nodes)

    with pytest.raises(CheckpointError):
        open_checkpoint(cut / "checkpoints" / NEWEST).restore(nodes)

    after = collect(nodes)
    assert after[1] == before[1]
    assert all(torch.equal(after[0][key], tensor) for key, tensor in before[0].items())


def test_nothing_is_opened_through_a_pipe(cut):
    path = cut / "checkpoints" / NEWEST
    (path / STATE).unlink()
    os.mkfifo(path / STATE)

    with pytest.raises(CheckpointError, match=r"state\.json is a link or no file"):
        open_checkpoint(path)


def test_the_table_has_fifty_corruptions_at_least():
    assert len(CORRUPTIONS) + len(REFUSED) >= 50


def test_a_checkpoint_that_is_gone_is_told_with_those_there_are(tmp_path):
    for name in ("step-00000002", "step-00000011", "other"):
        (tmp_path / name).mkdir()

    with pytest.raises(CheckpointError, match=r"09 is not there; .* has step-00000002, step-0000"):
        check_files(tmp_path / "step-00000009")
    with pytest.raises(CheckpointError, match=r"is not there; .*other has no checkpoint$"):
        check_files(tmp_path / "other" / "step-00000009")
