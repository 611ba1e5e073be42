"""Digests of input files: a run does not continue with other files."""

import json
import os
import shutil
import sys
import warnings
from pathlib import Path

import pytest

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.config.source import source_of
from rlcomp.errors import CheckpointError, RlcompWarning
from rlcomp.run.input_files import check_inputs, input_files, source_files
from rlcomp.run.launch import launch

ROWS = "".join(json.dumps({"question": f"{n}", "answer": f"{n % 7}"}) + "\n" for n in range(20))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def inputs(*words, directory="run", build=None):
    plan = plan_of(compose_config([*words, f"directory={directory}"]))
    builder = Builder(plan, 0)
    if build:
        builder.build(plan.nodes[build])
    found = input_files(plan, builder.built, Path(directory))
    return sorted({file for files in found.values() for file in files})


def write(*files, text=ROWS):
    for file in files:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(text)


FILE = ("recipe=sft", "task=file", "tokenizer=byte")


def test_a_run_that_reads_nothing_has_none(here):
    write("group", "batch_mean", "x.txt")  # beside words of the config

    assert inputs("recipe=grpo") == []


def test_a_file_and_all_that_fit_a_pattern(here):
    write("rows.jsonl", "shards/b.jsonl", "shards/a.jsonl", "shards/a.txt")

    assert inputs(*FILE, "task.path=rows.jsonl") == ["rows.jsonl"]
    assert inputs(*FILE, f"task.path={here}/rows.jsonl") == [f"{here}/rows.jsonl"]
    assert inputs(*FILE, "task.path=shards/*.jsonl") == ["shards/a.jsonl", "shards/b.jsonl"]
    assert inputs(*FILE, "task.path=[rows.jsonl,shards/b.jsonl]") == [
        "rows.jsonl",
        "shards/b.jsonl",
    ]


def test_of_a_folder_of_benchmarks_the_one_that_is_read(here):
    write("data/mine.jsonl", "data/other.jsonl")

    words = ["task=benchmark", "task.folder=data", "task.names=[mine]", "task.form=rows"]

    assert inputs("recipe=grpo", *words, build="task") == ["data/mine.jsonl"]


def test_of_a_corpus_what_is_read(here):
    write("texts/a.txt", "texts/sub/b.txt", "texts/c.png", text="words " * 100)

    words = ["recipe=pretrain", "task@corpus=text", "corpus.path=texts"]

    assert inputs(*words, build="corpus") == ["texts/a.txt", "texts/sub/b.txt"]


def test_of_a_model_what_transformers_reads(here):
    read = ["chat_template.jinja", "config.json", "model.safetensors", "tokenizer.json"]
    write(*(f"model/{name}" for name in read), text="{}")
    write("model/README.md", "model/original/weights.pth", "model/.cache/x.json", "model/a.bin")
    write("model/additional_chat_templates/tools.jinja")

    found = inputs("recipe=grpo", "base=model", "model=pretrained", "tokenizer=pretrained")

    assert found == sorted(
        [*(f"model/{name}" for name in read), "model/additional_chat_templates/tools.jinja"]
    )


def test_of_a_run_the_newest_checkpoint_that_is_whole(here):
    place = {"phase": 0, "step": 0, "trackers": {}}
    for total in (1, 2):
        Checkpoint(directory="old/checkpoints", keep=9).save({}, {**place, "total": total})
    words = ["recipe=grpo", "base=old", "model=pretrained", "tokenizer=pretrained"]

    assert inputs(*words) == ["old/checkpoints/step-00000002/manifest.json"]
    # Its own checkpoints change with every step.
    assert inputs(*words, directory="old") == []


def test_a_template_and_the_source_of_a_reward(here, monkeypatch):
    write("judge_of_inputs.py", text="def passed(response):\n    return 1.0\n")
    write("chat.jinja", text="{{ messages }}")
    monkeypatch.syspath_prepend(str(here))

    words = ["prompt=chat", "prompt.template=chat.jinja"]
    function = ["reward=function", "reward.function=judge_of_inputs.passed"]

    found = inputs("recipe=grpo", *words, *function)

    assert sorted(map(os.path.basename, found)) == ["chat.jinja", "judge_of_inputs.py"]


def test_a_text_that_happens_to_be_a_folder_is_none(here):
    write("corpus/a.txt", text="words " * 100)

    words = ["recipe=pretrain", "task@corpus=text", "corpus.path=corpus/a.txt"]

    assert inputs(*words, "corpus.separator='/'") == ["corpus/a.txt"]


def test_a_data_set_beside_the_run_is_one_but_not_the_run_in_it(here):
    write("all/data/metadata.json", "all/run/metrics.jsonl", "all/.git/x")

    found = inputs("recipe=offline_to_online", "dataset.path=all", directory="all/run")

    assert found == ["all/data/metadata.json"]


def test_a_folder_of_a_part_counts_whatever_its_argument_is_called(here, monkeypatch):
    write("reader_of_inputs.py", text="class Reader:\n    def __init__(self, *, directory): ...\n")
    monkeypatch.syspath_prepend(str(here))
    write("words/a.txt", "run/words/b.txt")

    reader = "+reader={{_target_: reader_of_inputs.Reader, directory: {}}}".format

    found = inputs("recipe=grpo", reader("words"))
    assert [file for file in found if file.endswith(".txt")] == ["words/a.txt"]
    # What lies within the run's own directory it may have written.
    assert not any(file.endswith(".txt") for file in inputs("recipe=grpo", reader("run/words")))


def test_a_fifo_is_none(here):
    os.mkfifo("rows.jsonl")

    assert inputs(*FILE, "task.path=rows.jsonl") == []


OLD, NEW = "1" * 64, "2" * 64


def saved(tmp_path, **place):
    place = {"phase": 0, "step": 1, "total": 1, "trackers": {}, **place}
    Checkpoint(directory=str(tmp_path), keep=1).save({}, place)
    return open_checkpoint(tmp_path)


def test_a_change_is_refused_by_name_with_its_remedy(tmp_path):
    then = saved(tmp_path, inputs={"d": {f"d/{n}": OLD for n in range(8)}})

    with pytest.raises(CheckpointError, match=r"d/3 was changed.*accept_changed_files=true"):
        check_inputs(then, {"d": {f"d/{n}": NEW if n == 3 else OLD for n in range(8)}}, False)
    with pytest.raises(CheckpointError, match="d/4 was changed and 3 more: "):
        check_inputs(then, {"d": {f"d/{n}": NEW for n in range(8)}}, False)


def test_it_is_told_where_it_was_asked_for(tmp_path):
    then = saved(tmp_path, inputs={"d": {"d/a": OLD}})

    with pytest.warns(RlcompWarning, match="d/a is gone, d/b is new: accepted"):
        check_inputs(then, {"d": {"d/b": OLD}}, True)


def test_what_is_as_it_was_goes_on(tmp_path):
    then = saved(tmp_path, inputs={"d": {"d/a": OLD}})

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_inputs(then, {"d": {"d/a": f"{OLD} 1:2:3:4:5"}}, False)
        check_inputs(then, {"other": {"other/a": NEW}}, False)  # chosen on purpose


def test_a_checkpoint_without_digests_is_noted(tmp_path):
    with pytest.warns(RlcompWarning, match="has no digests of the files"):
        check_inputs(saved(tmp_path), {"d": {"d/a": OLD}}, False)


NOTES = '''
from rlcomp import Component

class Notes(Component):
    """A part that writes a line whenever it is called."""

    reads = ()
    writes = ()

    def __init__(self, *, path: str) -> None:
        super().__init__()
        self.path = path

    def forward(self, batch):
        with open(self.path, "a") as file:
            file.write("a step\\n")
        return batch
'''

WORDS = (
    *FILE,
    "task.path=rows.jsonl",
    "task.held_out=0.2",
    "evaluation.num_prompts=2",
    "demonstrations.batch_size=2",
    "context_length=32",
    "checkpoint.keep=9",
    "model.hidden_size=16",
    "model.intermediate_size=16",
)


def play(directory, *words):
    config = compose_config([*words, f"directory={directory}"])
    launch(config, plan_of(config))
    return directory


def test_what_a_run_itself_writes_does_not_stop_it(here, monkeypatch):
    write("rows.jsonl")
    write("notes_of_inputs.py", text=NOTES)
    monkeypatch.syspath_prepend(str(here))
    noted = here / "notes.txt"
    words = [*WORDS, f"+notes={{_target_: notes_of_inputs.Notes, path: {noted}}}"]
    words += ["phases.warm_start.stages=[demonstrations,sft_learner,notes]"]
    words += ["phases.warm_start.steps=3", "phases.warm_start.every={checkpoint: 1}"]

    run = play(here / "run", *words)
    for left in (2, 1):
        for path in sorted((run / "checkpoints").iterdir())[left:]:
            shutil.rmtree(path)
        play(run, *words)
        assert "notes.txt" not in str(open_checkpoint(run).position()["inputs"])

    assert "rows.jsonl" in open_checkpoint(run).position()["inputs"]


def test_a_run_goes_on_over_changed_rows_only_where_it_is_asked_to(here):
    write("rows.jsonl")
    words, steps = WORDS, "phases.warm_start.steps={}".format

    run = play(here / "run", *words, steps(1))
    write("rows.jsonl", text=ROWS.replace('"answer": "3"', '"answer": "4"', 1))

    further = [f"resume={run}/checkpoints/step-00000001", steps(2)]
    with pytest.raises(CheckpointError, match=r"rows\.jsonl was changed"):
        play(run, *words, steps(1))
    with pytest.raises(CheckpointError, match=r"rows\.jsonl was changed"):
        play(run, *words, *further)
    with pytest.warns(RlcompWarning, match=r"rows\.jsonl was changed: accepted"):
        play(run, *words, *further, "accept_changed_files=true")
    # From here on it is the run's: nothing was changed since.
    play(run, *words, steps(2))


SOURCES = {
    "mine_of_this_test/__init__.py": "",
    "mine_of_this_test/reward.py": "import json\nfrom .words import near\nfrom torch import nn\n",
    "mine_of_this_test/words.py": "def f():\n    import beside_of_this_test as b\n",
    "mine_of_this_test/unused.py": "",
    "beside_of_this_test.py": "import mine_of_this_test.reward\nimport not_there_at_all.x\n",
    "space_of_this_test/deep/part.py": "from rlcomp import Component\n",
    "broken_of_this_test.py": "def (",
}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    source_of.cache_clear()
    yield tmp_path
    source_of.cache_clear()


def found(mine, dotted):
    return {file.relative_to(mine).as_posix() for file in source_files(dotted)}


def test_they_are_the_module_its_packages_and_what_it_imports_of_the_users(mine):
    assert found(mine, "mine_of_this_test.reward.Judge") == {
        "mine_of_this_test/__init__.py",
        "mine_of_this_test/reward.py",
        "mine_of_this_test/words.py",
        "beside_of_this_test.py",
    }


def test_a_name_of_gymnasium_is_a_module_and_an_id(mine):
    assert found(mine, "space_of_this_test.deep.part:Maze-v0") == {
        "space_of_this_test/deep/part.py"
    }
    assert "beside_of_this_test.py" in found(mine, "beside_of_this_test:Maze-v0")


def test_a_package_need_not_have_a_file_of_its_own(mine):
    assert found(mine, "space_of_this_test.deep.part.Part") == {"space_of_this_test/deep/part.py"}


@pytest.mark.parametrize(
    "text",
    [
        "torch.optim.AdamW",
        "json.loads",
        "rlcomp.model.language_model.LanguageModel",
        "components.reward.answer.ExactMatch",
        "sys.exit",
        "not_there_at_all.f",
        "broken_of_this_test.f",
        "mine_of_this_test",
        "a text. With a dot",
        "beside_of_this_test: what follows",
        "." * 9,
        "a" * 100_000,
        "",
    ],
)
def test_what_is_installed_or_no_module_has_none(mine, text):
    assert source_files(text) == []
    assert "mine_of_this_test" not in sys.modules
