"""``rlcomp-export``: runs as folders of transformers, with their card."""

import json
import os
import shutil
import sys

import pytest
import torch
import yaml
from omegaconf import OmegaConf
from transformers import (
    AutoModelForCausalLM,
    AutoModelForTokenClassification,
    AutoTokenizer,
    GenerationConfig,
)

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.cli.export import _check_words, export, main
from rlcomp.cli.sample import sample
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import CheckpointError, ConfigError, UserError
from rlcomp.model import export as model_export
from rlcomp.report.model_card import model_card
from rlcomp.run.launch import launch
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import character_tokenizer

SMALL = [
    "phases.warm_start.steps=2",
    "phases.warm_start.every={evaluation: 1, checkpoint: 1}",
    "checkpoint.keep=5",
    "demonstrations.batch_size=4",
    "sft_learner.optimizer.lr=0.05",
    "evaluation.num_prompts=4",
    "prompts.batch_size=2",
    "rollout.group_size=2",
]
TINY = ["model.hidden_size=16", "model.intermediate_size=16", "model.num_hidden_layers=1"]
PROMPTS = ["314159>", "271828>", "000001>"]


def run(directory, *words):
    config = compose_config([*SMALL, *words, f"directory={directory}"])
    launch(config, plan_of(config))
    return directory


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    tokenizer = character_tokenizer(characters="0123456789+-*/=()>: ,?")
    tiny_model(tokenizer, seed=1, context_length=32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return run(tmp_path_factory.mktemp("plain"), *TINY, "phases.rl.steps=0", "seed=3")


@pytest.fixture(scope="module")
def adapted(tmp_path_factory, base):
    words = ["phases.rl.steps=0", "adapter=lora", f"base={base}"]
    return run(tmp_path_factory.mktemp("adapted"), *words)


def answers(folder, **own):
    """Greedy answers of transformers alone."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    for prompt in PROMPTS:
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        whole = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=8, **own
        )
        found.append([tokenizer.decode(whole[0, ids.shape[1] :], skip_special_tokens=True)])
    return found


def sampled(run):
    return sample(checkpoint=run, prompts=PROMPTS, n=1, temperature=0.0, max_new_tokens=8, seed=0)


@pytest.mark.filterwarnings("ignore")
def test_transformers_answers_as_rlcomp_sample_does(plain, tmp_path):
    export(run=plain, directory=tmp_path / "out")

    assert answers(tmp_path / "out") == sampled(plain)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out"]
    for name in ("config.json", "generation_config.json", "tokenizer.json", "model.safetensors"):
        assert (tmp_path / "out" / name).is_file()


@pytest.mark.filterwarnings("ignore")
def test_adapters_go_merged_or_alone(adapted, base, tmp_path):
    export(run=adapted, directory=tmp_path / "merged", merge=True)
    export(run=adapted, directory=tmp_path / "alone")

    ours = sampled(adapted)
    assert answers(tmp_path / "merged") == ours
    own = GenerationConfig.from_pretrained(tmp_path / "alone")
    assert answers(tmp_path / "alone", generation_config=own) == ours
    named = json.loads((tmp_path / "alone" / "adapter_config.json").read_text())
    assert named["base_model_name_or_path"] == str(base)


def test_it_reads_back_as_a_base(plain, tmp_path):
    export(run=plain, directory=tmp_path / "out")

    again = run(tmp_path / "again", f"base={tmp_path / 'out'}", "phases.rl.steps=0")

    assert (again / "metrics.jsonl").is_file()


def test_a_step_can_be_chosen(plain, tmp_path):
    export(run=plain, directory=tmp_path / "first", checkpoint=1)
    export(run=plain, directory=tmp_path / "last")

    first, last = (
        AutoModelForCausalLM.from_pretrained(tmp_path / name).lm_head.weight
        for name in ("first", "last")
    )
    assert not torch.equal(first, last)
    with pytest.raises(CheckpointError, match=r"no checkpoint of step 7 \(there are: 2, 1\)"):
        export(run=plain, directory=tmp_path / "none", checkpoint=7)


def test_the_card_tells_where_it_comes_from(plain, tmp_path):
    kept = OmegaConf.load(plain / "run.yaml")
    kept.overrides = ["recipe=grpo", "seed=3", "directory=here", "a='x|y'"]
    kept.choices = {"recipe": "grpo", "kl": "none", "loss": "grpo", "hydra/job_logging": "default"}
    OmegaConf.save(kept, plain / "run.yaml")
    metrics = [json.loads(line) for line in (plain / "metrics.jsonl").read_text().splitlines()]

    export(run=plain, directory=tmp_path / "out", checkpoint=1)

    card = (tmp_path / "out" / "README.md").read_text()
    head = yaml.safe_load(card.split("---")[1])
    assert head["library_name"] == "transformers"
    assert head["pipeline_tag"] == "text-generation"
    assert "base_model" not in head
    told = dict(
        line.strip("| ").split(" | ", 1)
        for line in card.splitlines()
        if line.count(" | ") == 1 and line != "| | |"
    )
    assert told["recipe"] == "grpo"
    assert told["command"] == "rlcomp recipe=grpo seed=3 a='x\\|y'"
    assert (told["seed"], told["step"]) == ("3", "1")
    assert told["trained from"] == "random weights"
    assert told["torch"] == torch.__version__
    ends = [f"{metrics[0][f'evaluation/greedy{end}']:.4g}" for end in ("", "_low", "_high")]
    assert told["evaluation/greedy"] == "{} ({} to {})".format(*ends)
    assert not [name for name in told if name.endswith(("_low", "_high"))]
    assert "Parts: `recipe=grpo`, `loss=grpo`" in card


def card_of(run, place):
    export(run=run, directory=place, merge=True)
    return (place / "README.md").read_text()


def test_the_card_names_the_base_and_no_folder_above_it(adapted, base, plain, tmp_path):
    card = card_of(adapted, tmp_path / "out")
    onto = run(tmp_path / "onto", f"base={plain}", "phases.rl.steps=0")

    assert "base_model" not in yaml.safe_load(card.split("---")[1])
    assert f"| trained from | a folder, {base.name} |" in card
    assert str(base.parent) not in card
    told = card_of(onto, tmp_path / "out2")
    assert f"| trained from | a run, {plain.name} |" in told


@pytest.mark.parametrize("name", ["Qwen/Qwen3-0.6B", "gpt2"])
def test_the_card_names_a_model_of_the_hub(name, plain):
    checkpoint = open_checkpoint(plain).path
    config = OmegaConf.create({"seed": 0})

    card = model_card(checkpoint, config, base=name)

    assert yaml.safe_load(card.split("---")[1])["base_model"] == name
    assert f"| trained from | {name} |" in card


def test_what_a_run_says_of_itself_is_plain_text_in_the_card(plain, tmp_path):
    stranger = tmp_path / "stranger"
    shutil.copytree(plain, stranger)
    kept = OmegaConf.load(stranger / "run.yaml")
    kept.overrides = [
        "recipe=`x` <img src=x onerror=y> [a](javascript:b)",
        "tracker.api_key=SECRET123",
        "task.path=/home/me/data.jsonl",
        "tokenizer=byte",
    ]
    kept.choices = {"recipe": "grpo\n\n# Owned", "loss": "`<script>`", "kl": "in_loss"}
    OmegaConf.save(kept, stranger / "run.yaml")
    rows = (stranger / "metrics.jsonl").read_text().splitlines()
    row = {**json.loads(rows[-1]), "evaluation/<h1>\n\n# Own": 1.0}
    (stranger / "metrics.jsonl").write_text("\n".join([*rows[:-1], json.dumps(row)]) + "\n")

    card = card_of(stranger, tmp_path / "out")

    body = card.split("---", 2)[2]
    for hostile in ("<img", "<script", "<h1", "[a]", "SECRET", "/home/me", "\n# Own"):
        assert hostile not in body, hostile
    assert "| evaluation/&lt;h1&gt; " in body
    assert "tracker.api_key=..." in body
    assert "task.path=.../data.jsonl tokenizer=byte" in body
    assert "Parts: `kl=in_loss`" in body


@pytest.mark.parametrize(
    "text",
    [
        "- 1",
        "overrides: 1",
        "choices: [1]",
        "overrides: [1]",
        "a: [",
        "\udcff",
        "a: &a [1, 1]\nb: [*a, *a]",
    ],
)
def test_a_record_that_rlcomp_did_not_write_is_one_error(text, plain, tmp_path):
    stranger = tmp_path / "stranger"
    shutil.copytree(plain, stranger)
    (stranger / "run.yaml").write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(
        CheckpointError, match=r"run\.yaml is not a (config|record) that rlcomp wrote"
    ):
        export(run=stranger, directory=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_outside_of_a_run_tells_of_no_run(plain, tmp_path):
    # Beside another run's record.
    shutil.copytree(open_checkpoint(plain).path, tmp_path / "other" / "mine" / "step-00000002")
    shutil.copy(plain / "run.yaml", tmp_path / "other" / "run.yaml")

    card = card_of(tmp_path / "other" / "mine", tmp_path / "out")

    assert "| recipe |" not in card
    assert "evaluation" not in card
    assert "| step | 2 |" in card


def test_weights_may_be_written_in_bfloat16(plain, tmp_path):
    export(run=plain, directory=tmp_path / "out", dtype="bfloat16")

    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert {value.dtype for value in model.parameters()} == {torch.bfloat16}


def test_a_critic_is_written_when_asked(tmp_path):
    words = [*TINY, "recipe=ppo", "phases.rl.steps=0", "phases.value_warm_up.steps=1"]
    finished = run(tmp_path / "run", *words)

    export(run=finished, directory=tmp_path / "out", critic=True)

    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "out")
    assert model.config.num_labels == 1
    export(run=finished, directory=tmp_path / "narrow", critic=True, dtype="bfloat16")
    narrow = AutoModelForTokenClassification.from_pretrained(tmp_path / "narrow")
    assert {value.dtype for value in narrow.parameters()} == {torch.bfloat16}
    assert "pipeline_tag: token-classification" in (tmp_path / "out" / "README.md").read_text()


def test_what_cannot_be_written_leaves_nothing(plain, adapted, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(UserError, match="already exists"):
        export(run=plain, directory=tmp_path / "full")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match="already exists"):
        export(run=plain, directory=tmp_path / "link")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        export(run=plain, directory=tmp_path / "file" / "out")
    with pytest.raises(CheckpointError, match="has no critic named 'critic'"):
        export(run=plain, directory=tmp_path / "out", critic=True)
    own = run(tmp_path / "own", *TINY, "adapter=lora", "phases.rl.steps=0")
    with pytest.raises(ConfigError, match=r"base model is neither .*--merge"):
        export(run=own, directory=tmp_path / "out")

    left = sorted(file.name for file in tmp_path.iterdir())
    assert left == ["file", "full", "link", "own"]


def test_a_folder_of_the_users_beside_it_stays(plain, tmp_path):
    (tmp_path / ".tmp-out").mkdir()
    (tmp_path / "out").mkdir(mode=0o700)

    export(run=plain, directory=tmp_path / "out")

    assert sorted(file.name for file in tmp_path.iterdir()) == [".tmp-out", "out"]
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o777 & ~umask


class Hub:
    """In place of ``huggingface_hub.HfApi``: keeps what it is asked."""

    asked: list = []
    refuses = False

    def create_repo(self, name, **more):
        if self.refuses:
            raise RuntimeError("401 Unauthorized")  # its HTTP library's own
        self.asked.append((name, more))

    def upload_folder(self, **more):
        self.asked.append(more)
        return f"https://huggingface.co/{more['repo_id']}"


def test_it_is_uploaded_when_asked(plain, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(model_export, "HfApi", Hub)
    monkeypatch.setattr(Hub, "asked", [])
    words = [str(plain), str(tmp_path / "out"), "--push-to-hub", "me/model", "--private"]
    monkeypatch.setattr(sys, "argv", ["rlcomp-export", *words])

    main()

    assert Hub.asked[0] == ("me/model", {"private": True, "exist_ok": True})
    assert Hub.asked[1]["folder_path"] == tmp_path / "out"
    assert "uploaded: https://huggingface.co/me/model" in capsys.readouterr().out

    monkeypatch.setattr(Hub, "refuses", True)
    with pytest.raises(UserError, match=r"is written, but was not uploaded .* `hf auth login`"):
        model_export.upload(tmp_path / "out", "me/model", private=False)


def test_a_step_that_is_no_number_is_told_with_those_there_are(
    plain, tmp_path, monkeypatch, capsys
):
    words = ["rlcomp-export", str(plain), str(tmp_path / "new"), "--checkpoint", "last"]
    monkeypatch.setattr(sys, "argv", words)

    with pytest.raises(SystemExit) as left:
        main()

    assert left.value.code == 2
    assert capsys.readouterr().err == (
        "rlcomp: --checkpoint last: without --checkpoint it is the last; else one of 2, 1\n"
    )


@pytest.mark.parametrize(
    ("words", "told", "line"),
    [
        ("r --output new", "--output: the new folder is", "r new"),
        ("r --out=new --merge", "--out: the new folder is", "r new --merge"),
        ("--checkpoint r/c/step-7 --output new", "--checkpoint takes a step", "r/c/step-7 new"),
        ("--checkpoint r/c/step-7 r --output new", "--output: the new", "r/c/step-7 new"),
        ("r new --checkpoint r/c/step-7", "--checkpoint takes a step", "r/c/step-7 new"),
        ("--model r --dtype float32 new", "--model: the run is", "r new --dtype float32"),
        ("r -o new --checkpoint 7", "-o: the new folder is", "r new --checkpoint 7"),
        ("--output", "--output: the new folder is", "RUN NEW_FOLDER"),
    ],
)
def test_options_for_what_stands_alone_are_told_with_the_whole_line(words, told, line):
    with pytest.raises(UserError) as raised:
        _check_words(words.split())

    assert told in str(raised.value)
    assert str(raised.value).endswith(f"\nthe whole line: rlcomp-export {line}")
