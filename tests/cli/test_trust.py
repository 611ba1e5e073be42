"""A checkpoint, run or folder of a stranger runs no code: gadgets, none of which executes."""

import hashlib
import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from rlcomp.config.compose import compose_config
from rlcomp.config.plan import below
from rlcomp.config.resolve import plan_of
from rlcomp.config.trust import check_targets
from rlcomp.errors import CheckpointError, ConfigError, DataError
from rlcomp.files.untrusted import read_saved_config
from rlcomp.model.build import load_causal_lm
from rlcomp.model.load_model import load_policy, pretrained_tokenizer
from rlcomp.model.model_soup import soup
from rlcomp.model.text_classifier import load_classifier
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import character_tokenizer, load_tokenizer

# By target: arguments. PICKLE is a file whose reading writes RAN; TOUCH is a command that does.
GADGETS = {
    # Those of the issue, and how each is called.
    "numpy.load": {"file": "PICKLE", "allow_pickle": True},
    "joblib.load": {"filename": "PICKLE"},
    "pandas.read_pickle": {"filepath_or_buffer": "PICKLE"},
    "torch.load": {"f": "PICKLE", "weights_only": False},
    "sympy.sympify": {"a": "__import__('os').system('TOUCH')"},
    # The shell, and what starts programs.
    "os.system": {"command": "TOUCH"},
    "subprocess.run": {"args": "TOUCH", "shell": True},
    "subprocess.Popen": {"args": "TOUCH", "shell": True},
    "subprocess.check_output": {"args": "TOUCH", "shell": True},
    "os.popen": {"cmd": "TOUCH"},
    # Code as text, and files that are run.
    "runpy.run_path": {"path_name": "SCRIPT"},
    "code.InteractiveInterpreter.runsource": {"self": None, "source": "TOUCH"},
    "timeit.timeit": {"stmt": "import os; os.system('TOUCH')", "number": 1},
    "importlib.import_module": {"name": "evil_module"},
    "importlib.machinery.SourceFileLoader": {"fullname": "evil", "path": "SCRIPT"},
    "pydoc.importfile": {"path": "SCRIPT"},
    "imaplib.IMAP4_stream": {"command": "TOUCH"},
    # What calls or finds something by its name.
    "hydra.utils.get_method": {"path": "os.system"},
    "hydra.utils.instantiate": {"config": {"command": "TOUCH"}},
    "hydra.utils.call": {"config": {"command": "TOUCH"}},
    "functools.partial": {"func": "os.system"},
    "operator.methodcaller": {"name": "system"},
    "rlcomp.config.build.make": {"node": None, "arguments": {}, "seed": 0},
    "rlcomp.cli.run.main": {},
    # Attributes of what is ours or allowed.
    "components.reward.function.importlib.import_module": {"name": "evil_module"},
    "components.loss.policy.PolicyLoss.mro": {},
    "rlcomp.checkpoint.writer.shutil.rmtree": {"path": "VICTIM"},
    "torch.nn.modules.torch.load": {"f": "PICKLE", "weights_only": False},
    "torch.optim.os.system": {"command": "TOUCH"},
    "torch.nn.init.torch.load": {"f": "PICKLE", "weights_only": False},
    "torch.hub.load": {"repo_or_dir": "FOLDER", "model": "x", "source": "local"},
    # Ours, but no part of a policy: these import, fetch or write what their arguments name.
    "components.environment.control.GymnasiumEnvironment": {"name": "evil_module:Env-v0"},
    "components.task.file.HubTask": {"name": "FOLDER"},
    "components.reward.reward_model.LearnedReward": {"path": "FOLDER"},
    "rlcomp.trackers.tensorboard.TensorBoard": {"directory": "RAN"},
    # Files and the network.
    "shutil.rmtree": {"path": "VICTIM"},
    "pathlib.Path.unlink": {"self": "VICTIM"},
    "shutil.copy": {"src": "PICKLE", "dst": "RAN"},
    "urllib.request.urlretrieve": {"url": "http://127.0.0.1:9/x", "filename": "RAN"},
    "transformers.AutoModel.from_pretrained": {"pretrained_model_name_or_path": "FOLDER"},
    "transformers.pipeline": {"model": "FOLDER", "trust_remote_code": True},
    "ctypes.CDLL": {"name": "FOLDER/evil.so"},
    "logging.config.fileConfig": {"fname": "FOLDER/log.ini"},
}
# What does run when its reader vouches for it: the list can fail.
LIVE = ["numpy.load", "pandas.read_pickle", "torch.load", "sympy.sympify", "shutil.copy"]


CLUSTER = ("rlcomp/cluster", "components/cluster")


class Evil:
    """Unpickling one runs a command."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.fixture(scope="module")
def run_directory(play, tmp_path_factory):
    return play(tmp_path_factory.mktemp("trust") / "run", "~phases.rl", "resume=never")


@pytest.fixture
def files(tmp_path):
    """What the gadgets name, by its word."""
    ran, victim = tmp_path / "ran", tmp_path / "victim"
    victim.mkdir()
    touch = f"touch {ran}"
    (tmp_path / "evil.pkl").write_bytes(pickle.dumps(Evil(touch)))
    (tmp_path / "evil_module.py").write_text(f"import os\nos.system('{touch}')\n")
    return {
        "PICKLE": str(tmp_path / "evil.pkl"),
        "SCRIPT": str(tmp_path / "evil_module.py"),
        "FOLDER": str(tmp_path),
        "VICTIM": str(victim),
        "TOUCH": touch,
        "RAN": str(ran),
    }


def filled(value, files):
    if isinstance(value, dict):
        return {key: filled(item, files) for key, item in value.items()}
    if isinstance(value, str):
        for word, meant in files.items():
            value = value.replace(word, meant)
    return value


@pytest.fixture
def forged(run_directory, tmp_path):
    """A copy of the checkpoint with another config, and the checksums that belong to it."""

    def write(change):
        (saved,) = sorted((run_directory / "checkpoints").glob("step-*"))[-1:]
        where = tmp_path / "forged"
        shutil.rmtree(where, ignore_errors=True)
        shutil.copytree(saved, where)
        file = where / "config.yaml"
        text = change(file.read_text())
        file.write_text(text)
        manifest = json.loads((where / "manifest.json").read_text())
        digest = hashlib.sha256(text.encode()).hexdigest()
        manifest["files"]["config.yaml"] = [len(text.encode()), digest]
        (where / "manifest.json").write_text(json.dumps(manifest))
        return where

    return write


def with_node(path, target, arguments):
    def change(text):
        config = OmegaConf.create(text)
        OmegaConf.update(config, path, {"_target_": target, **arguments}, merge=False)
        return OmegaConf.to_yaml(config)

    return change


def untouched(files):
    return not Path(files["RAN"]).exists() and Path(files["VICTIM"]).exists()


@pytest.mark.parametrize("target", GADGETS)
def test_a_gadget_is_named_and_not_run(forged, files, target):
    where = forged(with_node("tokenizer", target, filled(GADGETS[target], files)))

    with pytest.raises(CheckpointError, match="trust=true") as told:
        load_policy(where)

    assert f"tokenizer._target_ {target}" in str(told.value)
    assert untouched(files)


@pytest.mark.parametrize(
    "place", ["policy", "model", "decoding", "policy.engine", "model.overrides"]
)
def test_a_gadget_is_refused_wherever_it_stands(forged, files, place):
    where = forged(with_node(place, "os.system", {"command": files["TOUCH"]}))

    with pytest.raises(CheckpointError, match=r"os\.system"):
        load_policy(where)
    assert untouched(files)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("tokenizer", "rlcomp.text.tokenizer.load_tokenizer"),
        ("model", "rlcomp.model.build.load_causal_lm"),
    ],
)
@pytest.mark.parametrize("name", ["nobody/nothing", "PICKLE", "./nowhere", 3])
def test_what_it_names_is_not_fetched(forged, files, monkeypatch, path, target, name):
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("opens the network"))
    given = {"path": filled(name, files)}
    if path == "model":
        given |= {"tokenizer": "${tokenizer}", "context_length": None}

    with pytest.raises(CheckpointError, match=rf"{path}\.path is .*, no folder here") as told:
        load_policy(forged(with_node(path, target, given)))
    assert "trust=true" in str(told.value)


def test_a_folder_that_it_names_is_read(forged, model_folder):
    given = {"path": str(model_folder[0])}
    where = forged(with_node("tokenizer", "rlcomp.text.tokenizer.load_tokenizer", given))

    # It has 12 tokens, and that of the run had 24.
    with pytest.raises(CheckpointError, match=r"is \[24, 64\] .* there, \[12, 64\]"):
        load_policy(where)


def put(path, value):
    def change(text):
        config = OmegaConf.create(text)
        OmegaConf.update(config, path, value, merge=False)
        return OmegaConf.to_yaml(config)

    return change


# A value in the config of a checkpoint, and what is said of it.
UNFIT = {
    "wide": ("model.intermediate_size", 10**12, "out of proportion to its weights"),
    "deep": ("model.num_hidden_layers", 10**9, "1000000000, more than 10,000: set fewer"),
    "as deep as may be": ("model.num_hidden_layers", 10_000, "out of proportion to its weights"),
    "many tokens": ("model.vocab_size", 10**10, "out of proportion to its weights"),
    "width a text": ("model.hidden_size", "x", "model.hidden_size is 'x': must be an integer"),
    "width negative": ("model.hidden_size", -8, "model.hidden_size is -8: must be greater"),
    "no such argument": ("model.width", 8, "takes no such argument"),
    "a reference to nothing": ("model.hidden_size", "${nothing}", "no node 'nothing'"),
    "a part missing": ("model.hidden_size", "???", "model.hidden_size is missing"),
    "a model that is a list": ("model", [1], "model is [1]: must be a PreTrainedModel"),
    "seed a text": ("seed", "x", "seed is 'x': must be an integer"),
    "no seed": ("seed", None, "seed is None: must be an integer"),
    "an engine of torch": (
        "policy.engine",
        {"_target_": "torch.nn.Parameter", "data": 1},
        "is not a config that rlcomp wrote",
    ),
    "a module without what it needs": (
        "policy.engine",
        {"_target_": "torch.nn.Module"},
        "is not a config that rlcomp wrote",
    ),
    "decoding of torch": (
        "policy.decoding",
        {"_target_": "torch.nn.Identity"},
        "is not a config that rlcomp wrote",
    ),
    "a linear layer": (
        "model",
        {"_target_": "torch.nn.Linear", "in_features": 10**9, "out_features": 10**9},
        "out of proportion to its weights",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_config_that_does_not_fit_is_one_message(forged, name):
    path, value, said = UNFIT[name]

    with pytest.raises((CheckpointError, ConfigError, DataError)) as told:
        load_policy(forged(put(path, value)))

    assert said in str(told.value)
    assert len(str(told.value).splitlines()) == 1


@pytest.mark.parametrize("value", ["x", -1, None, [1]])
def test_a_length_that_is_none_is_told(forged, monkeypatch, capsys, value):
    from rlcomp.cli.sample import main

    where = forged(put("max_new_tokens", value))
    monkeypatch.setattr("sys.argv", ["rlcomp-sample", str(where), "12="])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    assert "max_new_tokens in its config is" in capsys.readouterr().err


@pytest.mark.parametrize("target", LIVE)
def test_with_trust_it_is_run(forged, files, target):
    if target.startswith(("sympy", "pandas")):
        pytest.importorskip(target.partition(".")[0])
    where = forged(with_node("tokenizer", target, filled(GADGETS[target], files)))

    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it returns is no tokenizer
        load_policy(where, trust=True)

    assert not untouched(files)


def test_the_flag_of_the_command_line_vouches_for_it(forged, files, monkeypatch):
    from rlcomp.cli.sample import main

    where = forged(with_node("tokenizer", "shutil.copy", filled(GADGETS["shutil.copy"], files)))
    monkeypatch.setattr("sys.argv", ["rlcomp-sample", str(where), "12=", "--trust"])

    with pytest.raises((SystemExit, AttributeError)):  # a path is no tokenizer
        main()
    assert not untouched(files)


def test_a_config_cannot_vouch_for_another(forged, files, tmp_path):
    evil = forged(with_node("tokenizer", "shutil.copy", filled(GADGETS["shutil.copy"], files)))
    evil = evil.rename(tmp_path / "evil")
    own = {"runs": {"a": str(evil)}, "weights": {"a": 1.0}, "trust": True}
    where = forged(
        with_node("model", "rlcomp.model.model_soup.soup", {**own, "tokenizer": "${tokenizer}"})
    )

    with pytest.raises(CheckpointError, match=r"tokenizer\._target_ shutil\.copy"):
        load_policy(where)
    assert untouched(files)

    with pytest.raises(Exception):  # noqa: B017, PT011 - a path is no tokenizer
        load_policy(where, trust=True)
    assert not untouched(files)


@pytest.mark.parametrize(
    "words",
    [
        ["recipe=grpo"],
        ["recipe=grpo", "adapter=lora", "reference=adapter_off"],
        ["recipe=pretrain", "tokenizer=bpe"],
        ["recipe=conditioned", "conditioning=embedding", "tokenizer=character_preference"],
        ["recipe=rpt", "base=FOLDER"],
        ["recipe=grpo", "base=FOLDER"],
        ["recipe=grpo", "model=soup", "model.runs={a: FOLDER}", "model.weights={a: 1.0}"],
    ],
)
def test_policies_of_what_is_shipped_need_no_trust(words, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    plan = plan_of(compose_config([word.replace("FOLDER", str(tmp_path)) for word in words]))
    policy = plan.nodes["policy"]

    check_targets([policy, *below(policy)], Path("config.yaml"), trust=False)


def test_every_reader_of_a_run_refuses_it(forged, files, run_directory):
    where = forged(with_node("tokenizer", "os.system", {"command": files["TOUCH"]}))
    policy, _ = load_policy(run_directory)

    for read in (
        lambda: pretrained_tokenizer(path=str(where)),
        lambda: soup(runs={"a": str(where)}, weights={"a": 1.0}, tokenizer=policy.tokenizer),
    ):
        with pytest.raises(CheckpointError, match=r"os\.system"):
            read()
    assert untouched(files)


def test_the_command_lines_refuse_it(forged, files, rlcomp, monkeypatch, capsys, tmp_path):
    from rlcomp.cli.sample import main

    where = forged(with_node("tokenizer", "os.system", {"command": files["TOUCH"]}))
    monkeypatch.setattr("sys.argv", ["rlcomp-sample", str(where), "12="])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    code = rlcomp(f"base={where}", f"directory={tmp_path}/r")

    assert code == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 2
    assert all("os.system" in line and "trust" in line for line in told)
    assert untouched(files)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x [1]\nb: *x\n", "it has anchors"),
        ("a: !!python/object/apply:os.system ['touch ran']\n", "could not determine a constructor"),
        ("a: !!python/name:os.system\n", "could not determine a constructor"),
        ("a: " + "[" * 60 + "]" * 60, "levels deep"),
        ("a: " + "x" * (1 << 20), "larger than"),
        ("- 1\n", "it is not a mapping"),
        ("a: [1\n", "expected"),
        ("a: 1\na: 2\n", "duplicate key"),
        ("a: ${oc.env:HOME}\n", "a is '${oc.env:HOME}' and calls a resolver"),
        ("a: {b: [x, '${oc.decode:${c}}']}\n", "a.b.1 is"),
        ("a: ${ oc.env:HOME }\n", "calls a resolver"),
        ("a: ${hydra:runtime.cwd}\n", "calls a resolver"),
        ("f: oc.env\na: ${${f}:HOME}\n", "calls a resolver"),
        ("f: env\na: ${oc.${f}:HOME}\n", "calls a resolver"),
        ("a: ${b}/${oc.env:HOME}\n", "calls a resolver"),
    ],
)
def test_a_config_is_plain_values(tmp_path, text, said):
    (tmp_path / "config.yaml").write_text(text)

    with pytest.raises(
        CheckpointError, match=r"config\.yaml is not a config that rlcomp wrote"
    ) as told:
        read_saved_config(tmp_path / "config.yaml")
    assert said in str(told.value)
    assert len(str(told.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("fits", "said"),
    [
        # 2**20 bytes, with "a: " in front; 40 levels, of which the mapping and 1 are two.
        (("x" * (2**20 - 3), "x" * (2**20 - 2)), "it is larger than 1,048,576 bytes"),
        (("[" * 38 + "1" + "]" * 38, "[" * 39 + "1" + "]" * 39), "more than 40 levels deep"),
    ],
    ids=["bytes", "levels"],
)
def test_a_config_is_read_up_to_its_limits(tmp_path, fits, said):
    file, (text, beyond) = tmp_path / "config.yaml", fits
    file.write_text(f"a: {text}")
    assert OmegaConf.to_container(read_saved_config(file)) == {"a": yaml.safe_load(text)}

    file.write_text(f"a: {beyond}")
    with pytest.raises(CheckpointError, match=said):
        read_saved_config(file)


def test_a_config_that_is_no_text_is_told(tmp_path):
    (tmp_path / "config.yaml").write_bytes(b"a: \xff\n")

    with pytest.raises(CheckpointError, match="not a config that rlcomp wrote"):
        read_saved_config(tmp_path / "config.yaml")


def test_a_config_comes_back_as_it_was_saved(run_directory):
    (file,) = sorted((run_directory / "checkpoints").glob("step-*/config.yaml"))[-1:]

    assert read_saved_config(file) == OmegaConf.load(file)


@pytest.fixture
def model_folder(tmp_path):
    tokenizer = character_tokenizer(characters="0123456789")
    folder = tmp_path / "model"
    tiny_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder, tokenizer


def test_pickled_weights_are_refused_in_one_line(model_folder, files):
    folder, tokenizer = model_folder
    (folder / "model.safetensors").unlink()
    shutil.copy(files["PICKLE"], folder / "pytorch_model.bin")

    for read in (
        lambda: load_causal_lm(path=str(folder), tokenizer=tokenizer, context_length=None),
        lambda: load_classifier(str(folder)),
    ):
        with pytest.raises(DataError, match=r"pickled \(pytorch_model.bin\)") as told:
            read()
        assert len(str(told.value).splitlines()) == 1
    assert untouched(files)


def test_an_index_of_weights_names_no_pickle(model_folder, files):
    folder, tokenizer = model_folder
    (folder / "model.safetensors").rename(folder / "weights.safetensors")
    shutil.copy(files["PICKLE"], folder / "evil.bin")
    for name in ("evil.bin", files["PICKLE"]):
        index = {"metadata": {}, "weight_map": {"lm_head.weight": name}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))

        for read in (
            lambda: load_causal_lm(path=str(folder), tokenizer=tokenizer, context_length=None),
            lambda: load_classifier(str(folder)),
        ):
            with pytest.raises(DataError, match="which is no safetensors file in its folder"):
                read()
    assert untouched(files)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("attn_implementation", "stranger/kernels"),
        ("_attn_implementation", {"": "stranger/kernels"}),
        ("_experts_implementation", "stranger/kernels"),
        ("quantization_config", {"quant_method": "gptq", "bits": 4}),
        ("transformers_weights", "../evil.pkl"),
        ("auto_map", {"AutoModelForCausalLM": "stranger/repo--modeling_evil.EvilModel"}),
    ],
)
def test_a_model_that_names_other_code_opens_no_network(model_folder, monkeypatch, name, value):
    folder, tokenizer = model_folder
    config = json.loads((folder / "config.json").read_text()) | {name: value}
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("opens the network"))

    if name in ("quantization_config", "transformers_weights"):
        with pytest.raises(DataError, match=name):
            load_causal_lm(path=str(folder), tokenizer=tokenizer, context_length=None)
        return
    model = load_causal_lm(path=str(folder), tokenizer=tokenizer, context_length=None)

    assert type(model).__module__.startswith("transformers.models.qwen2.")
    assert model.config._attn_implementation == "sdpa"


def test_code_that_comes_with_a_model_is_not_run_nor_asked_about(
    model_folder, files, monkeypatch, capsys
):
    folder, tokenizer = model_folder
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a question on the terminal"))
    own = f"import os\nos.system('{files['TOUCH']}')\n"
    for name in ("configuration_evil", "modeling_evil", "tokenization_evil"):
        (folder / f"{name}.py").write_text(own)
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "evil",
        "auto_map": {
            "AutoConfig": "configuration_evil.EvilConfig",
            "AutoModelForCausalLM": "modeling_evil.EvilModel",
            "AutoModelForSequenceClassification": "modeling_evil.EvilModel",
        },
    }
    (folder / "config.json").write_text(json.dumps(config))
    named = json.loads((folder / "tokenizer_config.json").read_text())
    named |= {
        "tokenizer_class": "EvilTokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_evil.EvilTokenizer", None]},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(named))

    for read in (
        lambda: load_causal_lm(path=str(folder), tokenizer=tokenizer, context_length=None),
        lambda: load_classifier(str(folder)),
        lambda: load_tokenizer(path=str(folder)),
    ):
        with pytest.raises(DataError, match="code of its own"):
            read()
    assert untouched(files)


def test_no_source_reads_pickles_or_evaluates_text():
    import re

    home = Path(__file__).resolve().parents[2]
    forbidden = re.compile(
        r"\bimport (pickle|marshal|shelve|dill)|\b(?<![.\w])(eval|exec)\(|torch\.load\(|"
        r"yaml\.(load|unsafe_load|full_load)\((?!text, _Plain)|allow_pickle=True|"
        r"trust_remote_code=(?!False)|weights_only=False"
    )
    found = [
        f"{file.relative_to(home)}: {match[0]}"
        for package in ("rlcomp", "components", "experiments", "benchmarks", "docs")
        for file in (home / package).rglob("*.py")
        # The sandbox is there to execute text, in processes that are shut in; a run's workers are
        # its own processes, to which it hands its parts (docs/adr/0033).
        if file.parent not in [home / folder for folder in ("rlcomp/sandbox", *CLUSTER)]
        for match in forbidden.finditer(file.read_text())
    ]

    assert found == []


def test_two_nodes_of_one_path_are_refused(forged, files):
    """What is checked by its path must be what is built."""

    def change(text):
        config = OmegaConf.to_container(OmegaConf.create(text), resolve=False)
        gadget = {"_target_": "shutil.copy", **filled(GADGETS["shutil.copy"], files)}
        twin = {"_target_": "torch.nn.Identity", "x": "${policy.m.n}"}
        policy = config["policy"]
        target = policy.pop("_target_")
        config["policy"] = {"_target_": target, "m.n": twin, "m": {"n": gadget}, **policy}
        return OmegaConf.to_yaml(config)

    with pytest.raises((CheckpointError, ConfigError)):
        load_policy(forged(change))
    assert untouched(files)
