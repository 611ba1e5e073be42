"""A run that stopped at a step which was not finite leaves it behind; rlcomp-replay repeats it."""

import json
import re
import sys

import pytest
import torch
from omegaconf import OmegaConf
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from rlcomp.checkpoint.dump import read_dump
from rlcomp.cli import replay as command
from rlcomp.cli.replay import dumped_learner, replay
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import CheckpointError, NonFiniteSteps, UserError
from rlcomp.metrics import recording
from rlcomp.run.launch import launch

SMALL = [
    "recipe=ppo",
    "phases.warm_start.steps=2",
    "phases.value_warm_up.steps=1",
    "phases.rl.steps=2",
    "prompts.batch_size=16",
    "demonstrations.batch_size=8",
    "evaluation.num_prompts=8",
    "model.hidden_size=16",
    "model.intermediate_size=16",
    "model.num_hidden_layers=1",
    "+poison._target_=poison.Poison",
    "+phases.rl.insert.poison.after=advantage",
    # Draws: what a repeated step must draw again.
    "loss/trust_region=clip_cov",
    "loss.trust_region.share=0.5",
    "loss.trust_region.covariance_low=-9",
    "loss.trust_region.covariance_high=9",
]
PART = """
from rlcomp.component import Component


class Poison(Component):
    '''From its second call on the advantage of each row is infinite at its last token.'''

    reads = ("advantage", "response_mask")
    writes = ("advantage",)

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, batch):
        self.calls += 1
        if self.calls > 1:
            last = batch["response_mask"].cumsum(1).argmax(1)
            advantage = batch["advantage"].clone()
            advantage[range(len(last)), last] = float("inf")
            batch["advantage"] = advantage
        return batch
"""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The error of a run, and the folder that it names."""
    where = tmp_path_factory.mktemp("replay")
    (where / "poison.py").write_text(PART)
    sys.path.append(str(where))
    try:
        config = compose_config([f"directory={where / 'run'}", *SMALL])
        with pytest.raises(NonFiniteSteps) as error:
            launch(config, plan_of(config))
    finally:
        sys.path.remove(str(where))
        sys.modules.pop("poison", None)
    return error.value, where / "run" / "checkpoints" / "dump-00000005"


@pytest.fixture
def folder(stopped, tmp_path):
    """A copy of the dump that a test may change."""
    import shutil

    return shutil.copytree(stopped[1], tmp_path / "dump")


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["rlcomp-replay", *map(str, words)])
    code = 0
    try:
        command.main()
    except SystemExit as leaving:
        code = leaving.code
    return code, capsys.readouterr()


def test_the_error_names_the_key_the_dump_and_the_command(stopped):
    error, folder = stopped

    # 16 rows in 4 minibatches: 4 rows a step.
    assert re.search(r"first bad key: 'advantage' is inf at \[0, \d+\] \(4 of \d+ val", str(error))
    assert f"rlcomp-replay {folder}" in "\n".join(error.__notes__)
    assert folder.is_dir()


def test_the_dump_holds_the_rows_of_the_step_bit_by_bit(stopped):
    error, folder = stopped

    dump = read_dump(folder)

    assert dump.node == "learner"
    assert dump.progress == 2 / 3  # the second of two steps
    assert set(dump.batch.keys()) == set(error.batch.keys())
    for key, entry in error.batch.items():
        assert torch.equal(dump.batch[key], entry), key
        assert dump.batch[key].dtype == entry.dtype


def test_the_step_is_repeated_with_the_same_numbers(stopped):
    error, folder = stopped

    # Here and there the same: stages, keys, places, values and how many.
    assert replay(folder) == error.learner.trace(error.batch)


def gradients(learner, batch):
    """The gradients of the step, with what is not finite in the rows mended."""
    rows = batch.copy().set("advantage", batch["advantage"].nan_to_num(posinf=1.0))
    learner.optimizer.zero_grad()
    with recording():
        losses = learner.differentiate(rows)
    return losses, {n: p.grad.clone() for n, p in learner.named_parameters() if p.grad is not None}


def test_parameters_moments_and_what_is_drawn_are_those_of_the_step(stopped):
    error, folder = stopped
    there, dump = dumped_learner(folder)
    generator = error.learner.losses["policy"].trust_region.generator

    assert torch.equal(
        there.losses["policy"].trust_region.generator.get_state(), generator.get_state()
    )
    for name, parameter in error.learner.named_parameters():
        assert torch.equal(dict(there.named_parameters())[name], parameter), name
    here, own = error.learner.optimizer.state_dict(), there.optimizer.state_dict()
    assert here["state"].keys() == own["state"].keys() != set()
    for index, moments in here["state"].items():
        for key, value in moments.items():
            assert torch.equal(own["state"][index][key], value)
    before = generator.get_state()
    losses, found = gradients(error.learner, error.batch)
    again, other = gradients(there, dump.batch)
    assert losses == again
    assert all(torch.equal(other[name], gradient) for name, gradient in found.items())
    assert not torch.equal(generator.get_state(), before)  # it did draw


def test_the_command_prints_stage_by_stage_and_the_first_bad_key(stopped, monkeypatch, capsys):
    code, printed = run(monkeypatch, capsys, stopped[1])

    lines = printed.out.splitlines()
    assert code == 0
    assert re.fullmatch(r"batch       'advantage' is inf at \[0, \d+\] .*", lines[0])
    assert lines[1:3] == ["parameters  finite", "outputs     finite"]
    assert lines[3] == "losses      'policy' is -inf"  # -A w r, all but A above 0
    assert lines[4].startswith("gradients   the gradient of model.")
    assert lines[5] == "first bad key: " + lines[0].removeprefix("batch       ")
    assert len(lines) == 6


def test_a_step_that_is_finite_after_all_is_said_to_be(folder, monkeypatch, capsys):
    file = folder / "batch.safetensors"
    with safe_open(file, framework="pt") as stored:
        said = stored.metadata()
    tensors = {key: value.nan_to_num(posinf=1.0) for key, value in load_file(file).items()}
    save_file(tensors, file, metadata=said)

    code, printed = run(monkeypatch, capsys, folder)

    assert code == 0
    assert printed.out.splitlines()[-1] == "every number is finite"


def change(folder, **values):
    """Change the saved config, and its checksum with it, as a stranger would."""
    import hashlib

    (checkpoint,) = folder.glob("step-*")
    config = OmegaConf.load(checkpoint / "config.yaml")
    for path, value in values.items():
        OmegaConf.update(config, path.replace("__", "."), value, force_add=True)
    OmegaConf.save(config, checkpoint / "config.yaml")
    text = (checkpoint / "config.yaml").read_bytes()
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    manifest["files"]["config.yaml"] = [len(text), hashlib.sha256(text).hexdigest()]
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))


def test_a_stranger_s_part_in_the_learner_is_named_and_does_not_run(
    folder, tmp_path, monkeypatch, capsys
):
    ran = tmp_path / "ran"
    gadget = {"_target_": "shutil.copy", "src": __file__, "dst": str(ran)}
    change(folder, learner__losses__other=gadget)

    code, printed = run(monkeypatch, capsys, folder)

    assert code == 2
    assert "learner.losses.other._target_ shutil.copy" in printed.err
    assert "rlcomp-replay: --trust" in printed.err
    assert not ran.exists()
    run(monkeypatch, capsys, folder, "--trust")
    assert ran.exists()  # so the test can fail


def test_what_only_other_stages_name_is_not_built(stopped):
    # The run's own part is a stranger's here: it is not importable any more.
    assert "poison" not in sys.modules
    assert replay(stopped[1])["parameters"] is None


@pytest.mark.parametrize("node", ["evaluation", "prompts", "policy"])
def test_only_a_learner_s_step_is_repeated(folder, node):
    file = folder / "batch.safetensors"
    save_file(load_file(file), file, metadata={"node": node, "progress": "0.5", "rows": "4"})

    with pytest.raises(CheckpointError, match=f"names code.*{node}|{node} is a .* no learner"):
        replay(folder)


@pytest.mark.parametrize(
    ("metadata", "name", "told"),
    [
        ({"node": "learner", "progress": "x", "rows": "4"}, None, "could not convert"),
        ({"node": "learner", "progress": "0.5", "rows": "5"}, None, "batch dimension"),
        ({"node": "learner", "progress": "0.5"}, None, "rows"),
        ({"node": "learner", "progress": "nan", "rows": "4"}, None, "progress is nan: must be"),
        ({"node": "learner", "progress": "1.5", "rows": "4"}, None, "progress is 1.5: must be"),
        ({"node": "nobody", "progress": "0.5", "rows": "4"}, None, "no node 'nobody'"),
        ({"node": "learner", "progress": "0.5", "rows": "4"}, "{}", "no key"),
        ({"node": "learner", "progress": "0.5", "rows": "4"}, "value", "Expecting value"),
    ],
)
def test_a_damaged_batch_is_told(folder, metadata, name, told):
    file = folder / "batch.safetensors"
    tensors = load_file(file)
    if name is not None:
        tensors[name] = torch.zeros(4)
    save_file(tensors, file, metadata=metadata)

    with pytest.raises(CheckpointError, match=told):
        replay(folder)


SAID = {"node": "learner", "progress": "0.5", "rows": "4"}


def without(name):
    return lambda tensors: tensors.pop(json.dumps([name]))


def instead(name, change):
    def corrupt(tensors):
        tensors[json.dumps([name])] = change(tensors[json.dumps([name])]).contiguous()

    return corrupt


@pytest.mark.parametrize(
    "change",
    [
        without("tokens"),
        without("advantage"),
        without("attention_mask"),
        lambda tensors: tensors.clear(),
        instead("tokens", lambda entry: entry[:, :3]),
        instead("tokens", lambda entry: entry + 10**6),
        instead("tokens", lambda entry: entry.float()),
        instead("tokens", lambda entry: entry[:, None]),
        instead("advantage", lambda entry: entry.repeat(1, 2)),
        instead("response_mask", lambda entry: entry[..., None]),
        instead("old_log_probs", lambda entry: entry[:, :0]),
    ],
    ids=lambda change: change.__qualname__.partition(".")[0],
)
def test_a_batch_of_another_learner_is_one_message(folder, change):
    file = folder / "batch.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file, metadata=SAID)

    with pytest.raises(UserError) as told:
        replay(folder)
    assert len(str(told.value).splitlines()) == 1


def test_with_trust_the_lines_of_an_error_are_told(folder, monkeypatch):
    def out_of_range(learner, batch):
        raise IndexError("index 7 is out of range")

    monkeypatch.setattr("components.learner.gradient.trace_step", out_of_range)

    with pytest.raises(IndexError):
        replay(folder, trust=True)
    with pytest.raises(CheckpointError, match=r"the batch does not fit the learner .* \(IndexErr"):
        replay(folder)


def test_what_is_no_dump_is_told(tmp_path, folder):
    with pytest.raises(CheckpointError, match="no dump of an optimiser step"):
        replay(tmp_path)
    (folder / "batch.safetensors").write_bytes(b"\x00" * 64)
    with pytest.raises(CheckpointError, match="is not what rlcomp wrote"):
        replay(folder)


def test_a_dump_by_hand_has_no_config(folder):
    (checkpoint,) = folder.glob("step-*")
    (checkpoint / "config.yaml").unlink()
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    del manifest["files"]["config.yaml"]
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))

    with pytest.raises(CheckpointError, match=r"has no config\.yaml"):
        replay(folder)
