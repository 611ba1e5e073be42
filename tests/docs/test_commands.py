"""Every command that a page or a script's head names: run in its smallest form, or composed.

A job whose words differ from those of a job that has run in values only is composed and its plan
resolved, not run: seeds, directories, numbers. Its directory is that of the one that has run.
"""

import gzip
import importlib
import json
import os
import re
import runpy
import shutil
import string
import subprocess
import sys
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from rlcomp import causal_lm, character_tokenizer
from rlcomp.config.compose import compose_config
from rlcomp.config.options import config_directory
from rlcomp.config.resolve import plan_of
from rlcomp.errors import NonFiniteSteps
from rlcomp.files.run_record import RUN_RECORD
from rlcomp.run.launch import launch
from rlcomp.sweep.search import offer_search

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
for folder in ("docs", "benchmarks", "experiments"):
    PAGES += sorted((ROOT / folder).rglob("*.md")) + sorted((ROOT / folder).rglob("*.py"))
# Commands that no test here runs, by their first words, and why.
ALLOWED = {
    "torchrun": "tests/parallel/test_worker_rank.py starts it",
    "rlcomp recipe=constitutional ++phases": "its stores need whole runs; tests/recipe makes them",
    "rlcomp recipe=deepseek_v32_specialists ++phases": "as the one above",
    "make": "each target is made of commands that CI runs",
    "pip install": "CI is installed by it, and needs no network afterwards",
    "python3 -m venv": "CI is installed by it",
    "pre-commit install": "it changes the clone; its hooks are those of make lint",
    "python -m pytest": "CI is that",
    "python -m rlcomp.engine.native.build": "CI's installation does it; tests/engine/native has it",
    "python -m sglang.launch_server": "another project's server, in an environment of its own",
    "python -m rlcomp.sweep.wandb_sweep": "tests/sweep/test_wandb_sweep.py runs it",
    "python tests/faults/": "it takes half an hour; tests/faults/test_faults.py has a few of each",
    "python docs/mechanisms.py": "it reads whole runs; test_mechanisms.py has its functions",
    "python docs/make_": "tests compare the pages that they write, and look for the pictures",
    "python experiments/by_hand/sort_digits.py": "tests/test_by_hand.py runs it",
    "rlcomp-audit": "it leaves with 1 where it finds something; tests/cli/test_audit.py runs it",
    "rlcomp-evaluate": "it needs benchmarks; tests/cli/test_evaluate.py has files of its own",
    "rlcomp-software-tasks": "it needs a repository; tests/cli/test_software_tasks.py makes some",
    "rlcomp recipe=agent task=file": "it needs such tasks; tests/components/environment has some",
    "rlcomp recipe=agent task=form": "it needs a browser; tests/components/environment has one",
    "rlcomp recipe=grpo sampler_engine": "tests/recipe/test_sampler_engine.py runs them",
    "rlcomp -m hydra/launcher=submitit_local": "tests/sweep/test_submitit.py runs such jobs",
    "rlcomp recipe=rlvr_code sandbox=remote": "tests/sandbox/test_remote.py has such a server",
    "rlcomp recipe=sac environment.name=HalfCheetah-v5": "it needs MuJoCo, which is not for dev",
    "rlcomp rollout.group_size=1": "it is refused; test_readme.py has the message",
}
# The smallest form of each benchmark. Those that put a clock on torch, or read their peak of memory
# (which a child begins with its parent's), get a process of their own.
SMALLEST = {
    "run_all.py": "--smallest step",
    "rollout.py": "tiny 1 1",
    "scoring.py": "log_probs tiny 1",
    "step.py": None,  # run_all.py starts it, and it step_rlcomp.py and step_trl.py
    "head.py": "8 1 20000",
    "plumbing.py": "1 tiny",
    "scaling.py": "1 tiny",
    "limit.py": "1 tiny",
    "checkpoint.py": "1 tiny",
    "checkpointing.py": "tiny 1",
    "dead_groups.py": "tiny 1",
    "reward_pool.py": "16 0.5",
    "sandbox.py": "4 1",
    "gemm.py": "1",
    "overhead.py": "1 1",
    "turns.py": "tiny 2 1",
    "endpoint.py": "4 2",
    "cluster.py": "1 1 prompts.batch_size=4 model.hidden_size=16",
    "overlap.py": "--check 2",
    "trees.py": "tiny 2 1",
    "gpu.py": "--quick",
    "house.py": "--sizes",
}
OWN_PROCESS = ("plumbing.py", "overhead.py", "head.py")
WITH_PEER = ("run_all.py", "scoring.py")
# No command: parts of those above.
IMPORTED = {
    "measure",
    "parity",
    "workloads",
    "peer_trl",
    "turn",
    "endpoint_agent",
    "step_rlcomp",
    "step_trl",
    "gpu_models",
    "gpu_peers",
    "gpu_phases",
    "gpu_steps",
}
# What stands for a folder, by the key that is given one.
FOLDERS = {
    "model.path": "pretrained",
    "tokenizer.path": "pretrained",
    "corpus.path": "texts",
    "objectives.parts.learned.path": "judge",
    "base": "base",
    "directory": "base",
}
MEANT = {"NAME": "dapo", "RUNS": "runs/methods", "DIR_A": "expert", "DIR_B": "expert"}
MEANT["DUMP"] = "stopped/checkpoints/dump-00000002"
TEMPLATE = (
    "{% for turn in messages %}{{ turn.role }}: {{ turn.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
# Its first step with it is not finite.
ENDLESS = """
from rlcomp import Component


class Endless(Component):
    reads = ("advantage",)
    writes = ("advantage",)

    def forward(self, batch):
        batch["advantage"] = batch["advantage"] + float("inf")
        return batch
"""
# Half of all answers are right, where otherwise none is worth learning from after one step.
LEARNABLE = ["reward=regex", "reward.pattern='^[0-4]'"]
SHRUNK = {"batch_size": 4, "num_prompts": 4, "group_size": 4, "num_hidden_layers": 1}
SHRUNK |= {"hidden_size": 16, "intermediate_size": 16, "max_new_tokens": 12, "size": 100, "rows": 8}
PLACES = {
    "directory",
    "base",
    "proxy.path",
    "seed",
    "hydra/launcher",
    "hydra.launcher.n_jobs",
    "resume",
}


def key_of(word):
    return word.partition("=")[0].lstrip("+")


def form(words):
    """What makes a job another one: which options are chosen, and which keys are set at all."""
    kept = set()
    for word in words:
        group = config_directory() / key_of(word).partition("@")[0]
        kept.add(word if group.is_dir() or "_target_" in word else key_of(word))
    return frozenset(kept - PLACES)


def parts_of(words):
    """Overrides, directories of configs, and options without either."""
    overrides, directories, options, rest = [], [], [], iter(words)
    for word in rest:
        if word == "-cd":
            directories.append(next(rest))
        elif word.startswith("-"):
            options += [word, *([next(rest)] if word == "--cfg" else [])]
        elif not key_of(word).startswith("hydra/"):
            overrides.append(word)
    for experiment in [word for word in overrides if word.startswith("experiment=")]:
        file = config_directory() / "experiment" / f"{experiment.partition('=')[2]}.yaml"
        if "-m" in options and file.is_file():
            swept = OmegaConf.select(OmegaConf.load(file), "hydra.sweeper.params") or {}
            overrides += [f"{key}={value}" for key, value in swept.items()]
    return overrides, directories, options


def meant(word, words):
    """A word with a folder or a name in the place of what stands for one."""
    key, _, value = word.partition("=")
    if word == "base=DIR" and {"recipe=gsm8k", "prompt=chat"} & set(words):
        return "base=pretrained"  # it has a chat template, and a context as long as the recipe's
    if word == "directory=DIR" and (own := [w for w in words if w.startswith("experiment=")]):
        return f"directory={own[0].partition('=')[2]}"  # another run than the base of the page
    if value == "DIR":
        return f"{key}={FOLDERS[key]}"
    return re.sub(r"\b(NAME|RUNS|DUMP|DIR_A|DIR_B)\b", lambda found: MEANT[found[1]], word)


def shrink(node):
    """One step of everything, on next to no rows: in place."""
    for key, value in node.items_ex(resolve=False):
        if isinstance(value, DictConfig):
            shrink(value)
        elif key == "every" or value is None or OmegaConf.is_interpolation(node, key):
            continue
        elif key in SHRUNK and isinstance(value, int):
            node[key] = min(value, SHRUNK[key])
    if node.get("_target_") == "components.task.text.TextTask" and node.path is None:
        node.path = "short.txt"
    for phase in filter(None, (node.get("phases") or {}).values()):  # one may be left out
        phase.steps = min(phase.steps, 1)
        for each in phase.get("every") or {}:
            phase.every[each] = phase.every[each] and 1


def copy(run, directory):
    """A run once more, for what reads it."""
    if not directory.exists():
        shutil.copytree(run, directory, copy_function=os.link)


def learnable(job):
    """What lets a refill or a store find groups that vary in answers of an untrained model."""
    if "recipe=expert_iteration" in job:  # which finds no proof
        return ["store.choose=all"]
    if {"recipe=r1", "recipe=llama3", "experiment=own_pairs"} & set(job):
        return LEARNABLE
    if not {"recipe=dapo", "recipe=rpt", "dynamic_sampling=refill"} & set(job):
        return []
    if "filter@varied=correct" in job:
        return ["reward=regex", "reward.pattern='(?s).*'"]
    fixed = any(word.startswith(("reward=", "experiment=", "recipe=rpt")) for word in job)
    return ["dynamic_sampling=none"] if fixed else LEARNABLE


class Place:
    """A directory in which the commands of a page run one after the other."""

    def __init__(self, jobs):
        self.jobs, self.ran, self.composed = jobs, {}, {}

    def job(self, words, directories, directory):
        """Run it, or compose it where only its values are new."""
        known, exact = form(words), frozenset(word for word in words if key_of(word) not in PLACES)
        if exact in self.composed:
            copy(self.composed[exact], directory)
            return
        own = [word for word in words if key_of(word) not in PLACES - {"base"}]
        config = compose_config([*own, f"directory={directory}"], directories)
        shrink(config)
        plan = plan_of(config)
        if known in self.ran:
            copy(self.ran[known], directory)
        else:
            launch(config, plan)
            self.ran[known] = directory
        self.composed[exact] = directory
        # As the app would, which knows the words.
        said = {"config": OmegaConf.to_container(config), "overrides": own, "choices": {}}
        (directory / RUN_RECORD).unlink()
        OmegaConf.save(OmegaConf.create(said), directory / RUN_RECORD)

    def sweep(self, words):
        """Every job of a command line."""
        overrides, directories, options = parts_of(words)
        given = [word for word in overrides if key_of(word) == "directory"]
        number = sum(1 for _ in Path("runs").glob("unnamed-*"))
        directory = Path(given[-1].partition("=")[2] if given else f"runs/unnamed-{number}")
        for number, job in enumerate(self.jobs([word for word in overrides if word not in given])):
            extra = learnable(job)
            where = directory / str(number) if "-m" in options else directory
            self.job([*job, *extra], directories, where)


@pytest.fixture
def place(jobs, tmp_path, monkeypatch):
    """The files that pages speak of, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    write_files(ROOT / "README.md")
    monkeypatch.syspath_prepend(tmp_path)
    sums = [
        {"question": f"{n}+1=", "answer": f"#### {n + 1}", "keywords": ["a"]} for n in range(40)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in sums)
    with gzip.open("train.jsonl.gz", "wt") as file:
        file.write(lines)
    essays = [{"question": f"{n}", "answer": f"{n}", "keywords": ["a"]} for n in range(40)]
    Path("essays.jsonl").write_text("".join(json.dumps(row) + "\n" for row in essays))
    labels = [{"prompt": f"Text {n}.", "H": n % 2, "V": None if n % 3 else 1} for n in range(60)]
    Path("moderation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labels))
    step = {"observation": [1.0, 0.0, 0.0], "action": [0.5], "reward": -1.0}
    step |= {"next_observation": [1.0, 0.0, 0.1], "terminated": False}
    Path("steps.jsonl").write_text((json.dumps(step) + "\n") * 8)
    dialogues = [
        {
            "chosen": f"\n\nHuman: {n}\n\nAssistant: Yes.",
            "rejected": f"\n\nHuman: {n}\n\nAssistant: No",
        }
        for n in range(60)
    ]
    ranked = {"responses": ["1", "2", "3", "4"], "ranking": [2, 0, 3, 1]}
    rankings = [{"prompt": str(n), **ranked} for n in range(60)]
    Path("rankings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rankings))
    Path("hh.jsonl").write_text("".join(json.dumps(row) + "\n" for row in dialogues))
    tests = {"test_list": ["assert double(2) == 4"], "test_imports": []}
    code = [
        {"prompt": f"Double {n}.", "code": "def double(n): return n", **tests} for n in range(40)
    ]
    Path("mbpp.jsonl").write_text("".join(json.dumps(row) + "\n" for row in code))
    Path("texts").mkdir()
    shipped = ROOT / "components" / "task" / "texts" / "the_tempest.txt"
    shutil.copy(shipped, "texts")
    # In place of all that is shipped: every job that reads it measures every position's prompt.
    Path("short.txt").write_text(shipped.read_text(encoding="utf-8")[:8_000])
    tokenizer = character_tokenizer(characters=string.printable)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 16}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "context_length": 2048}
    causal_lm(tokenizer=tokenizer, architecture="llama", **size, **heads).save_pretrained(
        "pretrained"
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained("pretrained")
    told = {"role": "assistant", "content": "2"}
    talks = [{"messages": [{"role": "user", "content": f"{n}+1="}, told]} for n in range(40)]
    Path("chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in talks))
    offer_search()
    return Place(jobs)


def prepare(place, lines):
    """The runs and models that a page takes for granted."""
    said = " ".join(word for line in lines for word in line)
    if "runs/mine" in said and "directory=runs/mine" not in said:
        place.sweep(["recipe=grpo", "directory=runs/mine"])
    if "base=DIR" in said:
        place.sweep(["recipe=pretrain", "directory=base"])
    if "DIR_A" in said:
        place.sweep(["recipe=linear_mo", "directory=expert"])
    if "rlcomp-replay DUMP" in said:
        Path("endless.py").write_text(ENDLESS)
        stage = ["+mine._target_=endless.Endless", "+phases.rl.insert.mine.after=advantage"]
        with pytest.raises(NonFiniteSteps):
            place.sweep([*stage, "learner/non_finite=stop", "directory=stopped"])
    if "learned.path=DIR" in said:
        script(["experiments/pareto/reward_model.py", "judge", "32", "1"])


def write_files(page):
    """The files that a page shows: blocks that begin with a name."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```(?:python|yaml)\n(.*?)^```$", text, re.M | re.S):
        if name := re.match(r"(?:# @package \S+\n)?# (\S+\.(?:py|yaml))\n", block):
            Path(name[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(name[1]).write_text(block)
            # Another page may have had a module of this name.
            sys.modules.pop(Path(name[1]).stem, None)


def called(words, run):
    """``run()`` in this process, under a command line; leaving it with an exit code is an error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words)
        patch.syspath_prepend(ROOT / Path(words[0]).parent)
        GlobalHydra.instance().clear()
        try:
            run()
        except SystemExit as leaving:
            if leaving.code:
                raise AssertionError(f"it left with {leaving.code}") from leaving


def script(words):
    """A script of ours."""
    called(words, lambda: runpy.run_path(str(ROOT / words[0]), run_name="__main__"))


def experiment(words):
    """A script of an experiment, on the runs that its page has made."""
    name, *arguments = words
    if name.endswith("reward_model.py"):
        arguments = ["judge", "32", "1"]
    elif name.endswith("best_of_n.py"):
        sizes = {"--pairs": "32 64", "--steps": "1", "--examples": "200", "--prompts": "4"}
        arguments = [arguments[0], "0", "1", "--draws", "8"]
        arguments += [word for key, value in sizes.items() for word in (key, *value.split())]
    elif name.endswith("ladder/data.py"):
        arguments += ["--texts", "200"]
    elif name.endswith("critics.py"):
        arguments += ["--starts", "2"]
    elif name.endswith("stationarity.py"):
        arguments += ["--batches", "4", "--prompts", "2"]
    script([name, *(Path(word).name if word.endswith(".png") else word for word in arguments)])


def follow(place, line, page):
    """Run a line of a page; of a script's own head its arguments, because its page runs it."""
    name, *words = line
    words = [meant(word, words) for word in words]
    if any(" ".join(line).startswith(each) for each in ALLOWED):
        return
    if name == "rlcomp" and not {"help", "--help", "--cfg"} & set(words):
        place.sweep(words)
    elif name.startswith("rlcomp"):
        module = "run" if name == "rlcomp" else name.removeprefix("rlcomp-")
        called([name, *words], importlib.import_module(f"rlcomp.cli.{module}").main)
    elif name == "python" and (words[0].startswith("benchmarks/") or page.suffix == ".py"):
        check_arguments(words)
    elif name == "python" and words[0].startswith("experiments/"):
        experiment(words)
    else:
        raise AssertionError("run it here, or list it in ALLOWED with the reason")


def check_arguments(words):
    """A script knows its arguments."""
    import argparse

    class Parsed(Exception):
        pass

    parse = argparse.ArgumentParser.parse_args

    def stop(parser):
        parse(parser)
        raise Parsed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", stop)
        with pytest.raises(Parsed):
            script(words)


# Runs of one step have no fifths, and may have no finite front.
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value encountered")
@pytest.mark.pages
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_runs(page, commands, request):
    if lines := commands(page):
        place = request.getfixturevalue("place")
        write_files(page)
        prepare(place, lines)
        failed = []
        for line in lines:
            try:
                follow(place, line, page)
            except Exception as error:
                failed.append(f"{' '.join(line)}\n  {type(error).__name__}: {error}")
        assert not failed, "\n".join(failed)


def test_every_command_is_one_that_is_run_or_is_listed_with_a_reason(commands):
    unknown, used = [], set()
    for page in PAGES:
        for line in commands(page):
            said = " ".join(line)
            listed = [words for words in ALLOWED if said.startswith(words)]
            used.update(listed)
            script = line[1] if line[0] == "python" else ""
            benchmark = script.startswith("benchmarks/") and Path(script).name in SMALLEST
            known = benchmark or (script.startswith("experiments/") and (ROOT / script).is_file())
            if not (listed or known or line[0].startswith("rlcomp")):
                unknown.append(f"{page.relative_to(ROOT)}: {said}")

    assert unknown == []
    assert used == ALLOWED.keys()


def test_every_benchmark_has_a_smallest_form_or_is_part_of_one():
    scripts = {file.name for file in (ROOT / "benchmarks").glob("*.py")}

    assert scripts == SMALLEST.keys() | {f"{name}.py" for name in IMPORTED}


def test_every_script_of_an_experiment_stands_on_its_page(commands, snippets):
    for file in (ROOT / "experiments").rglob("*.py"):
        name = str(file.relative_to(ROOT))
        if "__main__" not in file.read_text():  # a part that its commands name
            assert name in file.with_name("README.md").read_text()
            continue
        pages = (ROOT / "experiments").rglob("*.md")
        assert any(line[:2] == ["python", name] for page in pages for line in commands(page)), name
    for file in (ROOT / "experiments").rglob("*.sh"):
        assert str(file.relative_to(ROOT)) in " ".join(snippets(file.with_name("README.md")))


@pytest.mark.pages
@pytest.mark.parametrize("name", [name for name, words in SMALLEST.items() if words])
def test_every_benchmark_runs(name, capfd, monkeypatch):
    words = [f"benchmarks/{name}", *SMALLEST[name].split()]
    if name in WITH_PEER:
        pytest.importorskip("trl")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # the peer sets it
    before = set(sys.modules)

    if name in OWN_PROCESS:
        subprocess.run([sys.executable, *words], cwd=ROOT, check=True)
    else:
        script(words)

    for added in set(sys.modules) - before & IMPORTED:
        del sys.modules[added]
    printed = capfd.readouterr().out
    rows = json.loads(printed.splitlines()[-1]) if name != "run_all.py" else []
    assert not [x for x in rows if isinstance(x, dict) and "stopped" in x.get("note", "")]
    failed = [
        x for x in rows if isinstance(x, dict) and not all(p["ok"] for p in x.get("parity", []))
    ]
    assert failed == []
    assert "nan" not in printed.lower()
