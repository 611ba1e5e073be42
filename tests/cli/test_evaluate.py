import json
import re
import shutil
import subprocess
import sys

import pytest

from rlcomp.cli.evaluate import column_names, main, read_words
from rlcomp.config.compose import compose_config
from rlcomp.config.options import config_directory
from rlcomp.config.resolve import plan_of
from rlcomp.config.source import source_of
from rlcomp.errors import UserError
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch
from rlcomp.run.suites import open_suites
from rlcomp.testing.tiny import tiny_model
from rlcomp.text.tokenizer import byte_tokenizer

TINY = [
    "recipe=sft",
    "phases.warm_start.steps=2",
    "phases.warm_start.every.evaluation=null",
    "phases.warm_start.every.checkpoint=1",
    "task=addition",
    "task.digits=1",
    "demonstrations.batch_size=4",
    "model.hidden_size=16",
    "model.intermediate_size=16",
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run, a folder of save_pretrained that reads bytes, and problems."""
    where = tmp_path_factory.mktemp("evaluate")
    config = compose_config([f"directory={where}/run", *TINY])
    launch(config, plan_of(config))
    tokenizer = byte_tokenizer()
    tiny_model(tokenizer, context_length=256).save_pretrained(where / "bytes")
    tokenizer.save_pretrained(where / "bytes")
    rows = [{"question": f"{n}+1=", "answer": str(n + 1)} for n in range(9)]
    (where / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rules = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    asked = [{"key": n, "prompt": f"Say {n}.", **rules} for n in range(3)]
    (where / "input_data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    return where


@pytest.fixture
def evaluate(place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*words):
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["rlcomp-evaluate", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code
        printed = capsys.readouterr()
        return printed.out, printed.err, code

    return run


def sums(place):
    return ["suite=jsonl", f"jsonl.task.path={place}/sums.jsonl", "max_new_tokens=4"]


def lines_of(folder):
    (file,) = folder.iterdir()
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_two_models_side_by_side(evaluate, place, tmp_path):
    out, _, code = evaluate(place / "bytes", place / "run", *sums(place), "samples=2")

    assert code == 0
    assert "right answers, with 95 % intervals over problems" in out
    header = next(line for line in out.splitlines() if "decoding" in line)
    assert header.split()[:3] == ["suite", "decoding", "n"]
    assert "bytes" in header
    assert [line.split()[:3] for line in out.splitlines() if line.startswith("  jsonl")] == [
        ["jsonl", "greedy", "9"],
        ["jsonl", "sampled", "9"],
    ]
    told = json.loads((tmp_path / "evaluations" / "summary.json").read_text())
    assert [(line["suite"], line["decoding"]) for line in told] == [
        ("jsonl", "greedy"),
        ("jsonl", "sampled"),
    ]
    assert [len(line["means"]) for line in told] == [2, 2]
    assert [len(line["differences"]) for line in told] == [1, 1]
    assert len([*(tmp_path / "evaluations" / "jsonl").iterdir()]) == 2


def test_verdicts_are_kept_and_other_settings_stand_beside_them(evaluate, place, tmp_path):
    words = [place / "run", *sums(place)]
    first, _, _ = evaluate(*words, "limit=3")
    (file,) = (tmp_path / "evaluations" / "jsonl").iterdir()
    before = file.stat().st_mtime_ns

    again, _, _ = evaluate(*words, "limit=3")
    assert "9 problems" not in first
    assert "3 problems" in first
    assert f"kept from evaluations/jsonl/{file.name}" in again
    assert first.splitlines()[1:] == again.splitlines()[1:]
    evaluate(*words, "limit=4")
    evaluate(*words, "limit=3", "seed=1")
    files = {*(tmp_path / "evaluations" / "jsonl").iterdir()}
    assert len(files) == 3
    assert file.stat().st_mtime_ns == before


def test_other_rules_or_another_verifier_are_another_evaluation(evaluate, place, tmp_path):
    # The same prompts, to be answered by other rules; and a verifier that the suite refers to.
    rows = [json.loads(line) for line in (place / "input_data.jsonl").read_text().splitlines()]
    rules = {"instruction_id_list": ["startend:quotation"]}
    more = "".join(json.dumps({**row, **rules}) + "\n" for row in rows)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "input_data.jsonl").write_text(more)
    words = [place / "bytes", "suite=ifeval", "max_new_tokens=4", "ifeval.reward=${reward}"]

    for own in (
        [f"data={place}", "reward=ifeval"],
        [f"data={tmp_path}/data", "reward=ifeval"],
        [f"data={place}", "reward=ifeval_loose"],
    ):
        out, err, code = evaluate(*words, *own)
        assert (code, "kept" in out) == (0, False), err

    assert len([*(tmp_path / "evaluations" / "ifeval").iterdir()]) == 3


def test_an_edited_verifier_is_another_evaluation(evaluate, place, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    judge = tmp_path / "edited_judge.py"
    words = [place / "run", *sums(place), "limit=2", "reward_pool=in_process"]
    words += ["reward@jsonl.reward=function", "jsonl.reward.function=edited_judge.passed"]
    words += ["jsonl.reward.correct_by=function"]

    said = []
    for value in ("0.0", "0.0", "1.0"):
        judge.write_text(f"def passed(response):\n    return {value}\n")
        sys.modules.pop("edited_judge", None)
        source_of.cache_clear()  # another process reads it anew
        out, err, code = evaluate(*words)
        assert code == 0, err
        said.append("kept" in out)

    assert said == [False, True, False]


def test_other_weights_at_the_same_place_are_another_evaluation(evaluate, place, tmp_path):
    shutil.copytree(place / "bytes", tmp_path / "model")

    def kept():
        out, err, code = evaluate("model", *sums(place), "limit=2")
        assert code == 0, err
        return "kept" in out

    assert [kept(), kept()] == [False, True]
    other = tiny_model(byte_tokenizer(), context_length=256, seed=1)
    other.save_pretrained(tmp_path / "model")
    assert not kept()


def test_weights_are_told_by_the_files_of_a_folder_and_not_by_its_path(place, monkeypatch):
    monkeypatch.chdir(place)
    words = ["+suite=[jsonl]", "jsonl.task.path=sums.jsonl", "jsonl.max_new_tokens=4"]

    def weights(model):
        (opened,) = open_suites(str(model), ["jsonl"], words, (), trust=False)
        return opened.settings["weights"]

    assert weights("bytes") == weights(place / "bytes") != weights("run")


def test_levels_are_lines_of_the_table(evaluate, place, tmp_path):
    rows = [{"question": f"{n}+1=", "answer": str(n + 1)} for n in (1, 2, 10)]
    own = tmp_path / "own.jsonl"
    own.write_text("".join(json.dumps(row) + "\n" for row in rows))
    by = [*sums(place), f"jsonl.task.path={own}", "jsonl.by=prompt_length"]

    out, err, code = evaluate(place / "run", *by)

    assert code == 0, err
    assert "greedy, 5" in out
    told = json.loads((tmp_path / "evaluations" / "summary.json").read_text())
    counts = [(line["decoding"], *(mean["n"] for mean in line["means"].values())) for line in told]
    assert counts == [("greedy", 3), ("greedy, 4", 2), ("greedy, 5", 1)]


def test_a_file_holds_settings_and_a_verdict_a_problem(evaluate, place, tmp_path):
    evaluate(place / "run", *sums(place), "limit=3", "--out", tmp_path / "kept")

    head, *verdicts = lines_of(tmp_path / "kept" / "jsonl")
    assert (head["suite"], head["seed"], head["sampled"]) == ("jsonl", 0, False)
    assert head["settings"]["num_prompts"] == 3
    assert head["decoding"]["temperature"] == 1.0
    assert head["prompt"]["_target_"] == "rlcomp.text.prompt.TextPrompt"
    assert [each["problem"] for each in verdicts] == [0, 1, 2]
    for each in verdicts:
        assert each["answer"] == str(int(each["prompt"][:-3]) + 1)
        assert [response["correct"] for response in each["responses"]] == [
            each["responses"][0]["text"].strip() == each["answer"]
        ]


def test_checkpoints_of_a_run_side_by_side(evaluate, place):
    out, err, code = evaluate(
        place / "run", *sums(place), "limit=2", "--checkpoint", 1, "--checkpoint", 2
    )

    assert (err, code) == ("", 0)
    assert "run@1" in "".join(out.split())
    assert "run@2" in "".join(out.split())
    _, err, code = evaluate(place / "run", *sums(place), "--checkpoint", 7)
    assert code == 2
    assert "has no checkpoint of step 7 (there are: 2, 1)" in err


def test_a_run_is_asked_as_it_was_trained_unless_told_otherwise(evaluate, place, tmp_path):
    words = [place / "run", *sums(place), "limit=2", "samples=1"]
    evaluate(*words, "decoding.temperature=0.5")
    head, *_ = lines_of(tmp_path / "evaluations" / "jsonl")
    assert head["decoding"]["temperature"] == 0.5

    template = tmp_path / "chat.jinja"
    template.write_text("{% for turn in messages %}{{ turn.content }}{{ eos_token }}{% endfor %}")
    out, err, code = evaluate(*words, "prompt=chat", f"prompt.template={template}")
    assert (err, code) == ("", 0)
    assert "2 problems" in out
    files = (tmp_path / "evaluations" / "jsonl").iterdir()
    heads = [json.loads(file.read_text().splitlines()[0]) for file in files]
    formats = {head["prompt"]["_target_"] for head in heads}
    assert formats == {"rlcomp.text.prompt.TextPrompt", "rlcomp.text.chat.ChatPrompt"}


def test_several_suites_of_one_folder(evaluate, place):
    out, _, code = evaluate(
        place / "bytes", "suite=[jsonl,ifeval]", *sums(place)[1:], f"data={place}", "limit=2"
    )

    assert code == 0
    assert [line.split()[:3] for line in out.splitlines() if "greedy" in line] == [
        ["jsonl", "greedy", "2"],
        ["ifeval", "greedy", "2"],
    ]


def test_a_suite_of_ones_own(evaluate, place, tmp_path):
    own = (config_directory() / "suite" / "jsonl.yaml").read_text().replace("jsonl", "mine")
    (tmp_path / "confs" / "suite").mkdir(parents=True)
    (tmp_path / "confs" / "suite" / "mine.yaml").write_text(own)
    words = [f"mine.task.path={place}/sums.jsonl", "limit=2", "max_new_tokens=2"]

    out, _, code = evaluate(place / "run", "-cd", tmp_path / "confs", "suite=mine", *words)
    assert code == 0
    assert "mine: " in out

    (tmp_path / "confs" / "suite" / "other.yaml").write_text(own)
    _, err, code = evaluate(place / "run", "-cd", tmp_path / "confs", "suite=other", words[0])
    assert code == 2
    assert "suite=other: its yaml has no node 'other'" in err


def test_what_asks_no_problems_is_no_suite(evaluate, place, tmp_path):
    (tmp_path / "confs" / "suite").mkdir(parents=True)
    own = "# @package _global_\nbad:\n  _target_: components.worlds.addition.task.Addition\n"
    (tmp_path / "confs" / "suite" / "bad.yaml").write_text(f"{own}  digits: 1\n  held_out: 0.1\n")

    _, err, code = evaluate(place / "run", "-cd", tmp_path / "confs", "suite=bad")

    assert code == 2
    assert "suite=bad: it is of class Addition, which asks no problems" in err


@pytest.mark.filterwarnings("always::rlcomp.errors.RlcompWarning")
def test_a_template_that_is_not_used_is_told(evaluate, place, tmp_path):
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = "{% for turn in messages %}{{ turn.content }}{% endfor %}"
    tiny_model(tokenizer, context_length=256).save_pretrained(tmp_path / "chat's")
    tokenizer.save_pretrained(tmp_path / "chat's")

    _, err, code = evaluate(tmp_path / "chat's", *sums(place), "limit=1")
    assert code == 0
    assert "rlcomp: its tokenizer has a chat template, and problems are asked as plain" in err
    _, err, code = evaluate(tmp_path / "chat's", *sums(place), "limit=1", "prompt=text")
    assert code == 0
    assert "chat template" not in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "no suite is named: add suite="),
        (["suite=gsm9k"], "suite=gsm9k: there is no such suite; did you mean 'gsm8k'?"),
        (["suite=gsm8k"], "no file of this benchmark in 'data' (no such folder)"),
        (["suite=gsm8k", "gsm8k.task.path=x.jsonl"], "there is no file 'x.jsonl'"),
        (["suite=jsonl"], "jsonl.task: path is not set; set jsonl.task.path=FILE of problems"),
        (["suite=jsonl", "jsonl.task.path=x", "limit=0"], "jsonl.num_prompts is 0"),
        (["suite=jsonl", "jsonl.task.path=x", "limits=5"], "limits is not in the config"),
    ],
)
def test_a_mistake_ends_with_2_and_says_which(evaluate, place, words, told):
    _, err, code = evaluate(place / "bytes", *words)

    assert told in err
    assert code == 2


def test_a_model_has_to_be_there(evaluate, place):
    _, err, code = evaluate("suite=gsm8k")
    assert (code, "no model is named" in err) == (2, True)

    _, err, code = evaluate("nowhere/at/all", *sums(place))
    assert code == 2
    assert "nowhere/at/all: there is no such folder" in err


def test_a_missing_file_is_told_before_a_model_is_read(evaluate, place, tmp_path):
    (tmp_path / "no_model").mkdir()
    shutil.copytree(place / "run", tmp_path / "no_weights")
    for weights in (tmp_path / "no_weights").rglob("*.safetensors"):
        weights.write_bytes(b"")

    for model in ("no_model", "no_weights"):
        _, err, code = evaluate(model, "suite=gsm8k", "data=there")

        assert code == 2
        assert "no file of this benchmark in 'there'" in err


def test_a_device_that_is_none_is_told_before_a_model_is_read(evaluate, place, tmp_path):
    (tmp_path / "no_model").mkdir()

    _, err, code = evaluate("no_model", *sums(place), "device=gpu")

    assert code == 2
    assert "device is 'gpu': must be auto, cpu or cuda; set device=cuda (a GPU)" in err


def test_a_folder_that_cannot_be_written_is_named(evaluate, place, tmp_path):
    (tmp_path / "taken").write_text("")
    words = [place / "run", *sums(place), "limit=1", "--out", "taken"]

    _, err, code = evaluate(*words)

    assert code == 2
    assert "--out taken cannot be written" in err
    assert "name another folder" in err


def test_parts_of_a_training_are_no_part_of_an_evaluation_without_its_recipe(evaluate, place):
    words = [place / "run", *sums(place), "limit=1", "advantage=leave_one_out"]

    _, err, code = evaluate(*words)
    assert (code, "advantage" in err) == (2, True)

    _, err, code = evaluate(*words, "recipe=grpo")
    assert code == 0, err


def test_short_words_set_every_suite():
    asked = read_words(["+suite=[gsm8k,ifeval]", "samples=4", "seed=1", "~x"])

    assert asked.suites == ["gsm8k", "ifeval"]
    assert asked.sampled is True
    assert asked.overrides == [
        "+suite=[gsm8k,ifeval]",
        "gsm8k.samples_per_prompt=4",
        "ifeval.samples_per_prompt=4",
        "seed=1",
        "~x",
    ]
    assert read_words(["suite=gsm8k", "gsm8k.samples_per_prompt=2"]).sampled is True
    assert read_words(["suite=gsm8k", "max_new_tokens=2"]) == (
        ["gsm8k"],
        ["+suite=[gsm8k]", "gsm8k.max_new_tokens=2"],
        False,
    )
    with pytest.raises(UserError, match="no suite is named"):
        read_words(["suite=[]"])


def test_long_names_of_columns_are_cut_where_they_stay_different():
    short, long = "a" * 40, "b" * 41
    both = ["one/" + "c" * 40, "two/" + "c" * 40]

    assert [*column_names([short, long]).values()] == [short, "…" + "b" * 39]
    assert [*column_names(both).values()] == both


def test_a_suite_in_the_loop_of_a_run(place, tmp_path):
    words = [*TINY, *sums(place)[1:2], "jsonl.max_new_tokens=4", "jsonl.num_prompts=2"]
    config = compose_config(
        [f"directory={tmp_path}/run", *words, "+suite=jsonl", "+phases.warm_start.every.jsonl=2"]
    )
    launch(config, plan_of(config))

    rows = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert [row["total"] for row in rows if "jsonl/greedy" in row] == [2]


def test_help_imports_no_torch():
    code = "import sys, rlcomp.cli.evaluate as own\nsys.argv = ['rlcomp-evaluate', '--help']\n"
    code += "try:\n    own.main()\nexcept SystemExit:\n    assert 'torch' not in sys.modules\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "--checkpoint N" in done.stdout


def test_mbpp_shows_its_tests_and_runs_them(evaluate, place, tmp_path, needs):
    needs("portable")
    problem = {"prompt": "Double.", "code": "def double(n): return 2 * n", "test_imports": []}
    row = {**problem, "test_list": ["assert double(2) == 4", "assert double(0) == 0"]}
    (tmp_path / "mbpp.jsonl").write_text(json.dumps(row) + "\n")
    words = ["suite=mbpp", "data=.", "max_new_tokens=4", "sandbox=portable"]

    out, err, code = evaluate(place / "bytes", *words)

    assert code == 0, err
    assert re.search(r"mbpp +greedy +1 +0.0 \[0.0, 0.8\]", out)  # Wilson, of one problem
    _, line = lines_of(tmp_path / "evaluations" / "mbpp")
    shown = "Your code should pass these tests:\n\nassert double(2) == 4\nassert double(0) == 0\n"
    assert line["prompt"] == f"Double.\n{shown}"
