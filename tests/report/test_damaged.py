"""Directories that no run has left so: one message and code 2, or a row less and a warning."""

import json
import sys
import warnings

import pytest

from rlcomp.cli.report import main
from rlcomp.errors import RlcompWarning
from rlcomp.report.run_files import read_samples
from rlcomp.report.runs import read_run
from rlcomp.report.summary import summarise

BILLION = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
WHOLE = {"config": {"seed": 0, "phases": {"rl": {"steps": 1}}}, "overrides": [], "choices": {}}


def kept(**change):
    return json.dumps(WHOLE | change)  # JSON is yaml


# A file of a run's directory, what stands in it, and what is said.
REFUSED = {
    "run.yaml broken": ("run.yaml", "a: [1\n", "is damaged (ParserError"),
    "run.yaml empty": ("run.yaml", "", "is damaged"),
    "run.yaml a list": ("run.yaml", "- 1\n", "is damaged"),
    "run.yaml a text": ("run.yaml", "hello\n", "is damaged"),
    "run.yaml of others": ("run.yaml", "a: 1\n", "is damaged (KeyError: 'config')"),
    "run.yaml no text": ("run.yaml", b"a: \xff\n", "run.yaml is not a config that rlcomp wrote"),
    "run.yaml unfolds": (
        "run.yaml",
        BILLION,
        "run.yaml is not a config that rlcomp wrote: it has",
    ),
    "run.yaml large": ("run.yaml", "a: " + "x" * (1 << 20), "it is larger than 1,048,576 bytes"),
    "run.yaml deep": ("run.yaml", "a: " + "[" * 5000, "is damaged"),
    "no config": ("run.yaml", kept(config=3), "is damaged"),
    "phases a list": ("run.yaml", kept(config={"phases": [1]}), "is damaged"),
    "steps a text": (
        "run.yaml",
        kept(config={"phases": {"rl": {"steps": "x"}}}),
        "is damaged (TypeError",
    ),
    "choices a list": ("run.yaml", kept(choices=[1]), "is damaged"),
    "overrides numbers": ("run.yaml", kept(overrides=[3]), "is damaged (Attrib"),
    "Hydra's broken": (".hydra/config.yaml", "a: [1\n", "is damaged"),
    "Hydra's unfolds": (
        ".hydra/overrides.yaml",
        BILLION,
        "overrides.yaml is not a config that",
    ),
    "a sweep broken": ("multirun.yaml", "hydra: [1\n", "is damaged"),
    "a sweep of others": (
        "multirun.yaml",
        "a: 1\n",
        "is damaged (KeyError",
    ),
    "a sweep unfolds": (
        "multirun.yaml",
        BILLION,
        "multirun.yaml is not a config that rlcomp wrote",
    ),
    "metrics lists": ("metrics.jsonl", "[1]\n[2]\n", "metrics.jsonl, line 1: [1] is no object"),
    "metrics no text": ("metrics.jsonl", b"\xff\n\xff\n", "metrics.jsonl, line 1"),
    "an end a list": ("ended.jsonl", "[]\n", "ended.jsonl, line 1: [] is no object"),
}


@pytest.fixture
def told(monkeypatch, capsys):
    def report(folder):
        monkeypatch.setattr(sys, "argv", ["rlcomp-report", str(folder), "--out", str(folder / "o")])
        code = 0
        with warnings.catch_warnings():  # so that it shows them itself, as it does elsewhere
            warnings.simplefilter("default")
            try:
                main()
            except SystemExit as leaving:
                code = leaving.code
        return code, capsys.readouterr()

    return report


@pytest.mark.parametrize("name", REFUSED)
def test_a_damaged_file_gives_one_message(make_run, told, name):
    file, content, said = REFUSED[name]
    folder = make_run("a", [{"reward/mean": 0.5}])
    (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())

    code, printed = told(folder)

    assert code == 2
    (line,) = printed.err.splitlines()
    assert said in line
    assert str(folder) in line


@pytest.mark.parametrize(
    "content",
    ["[]", "{}", "", "null", '"text"', '{"type": "x"}', "{", b"\xff", "[" * 100_000],
    ids=lambda content: repr(content[:12]),
)
def test_a_failure_that_cannot_be_read_is_a_failure(make_run, told, content):
    folder = make_run("a", [{"reward/mean": 0.5}])
    content = content if isinstance(content, bytes) else content.encode()
    (folder / "failure.json").write_bytes(content)

    code, printed = told(folder)
    assert code == 0
    (line,) = printed.err.splitlines()
    assert "failure.json is damaged (" in line
    with pytest.warns(RlcompWarning):
        run = read_run(folder)
    assert (run.state, run.error) == ("failed", "its failure.json cannot be read")


SOUND = {"total": 1, "phase": "rl", "step": 1, "prompt": "1+1=", "response": "2", "answer": "2"}
TOKENS = {"tokens": ["a", "b"], "trained": [1, 0], "advantage": [0.5, None]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"total": None}, "'total' is None: must be a number of steps"),
        ({"total": "x"}, "'total' is 'x'"),
        ({"total": 0}, "'total' is 0"),
        ({"total": [1]}, "'total' is [1]"),
        ({"prompt": 3}, "'prompt' is 3: must be"),
        ({"response": None}, "'response' is None: must be"),
        ({"phase": []}, "'phase' is []"),
        ({"step": "x"}, "'step' is 'x': must be an integer"),
        ({"answer": 3}, "'answer' is 3"),
        ({"pieces": "x"}, "'pieces' is 'x': must be a list"),
        ({"group_id": [1]}, "'group_id' is [1]"),
        ({"reward": "high"}, "'reward' is 'high'"),
        ({"reward": float("nan")}, "'reward' is nan: must be finite"),
        ({"rewards": [1]}, "'rewards' is [1]"),
        ({"rewards": {"a": "b"}}, "'rewards' is {'a': 'b'}"),
        ({"correct": "yes"}, "'correct' is 'yes'"),
        ({"truncated": []}, "'truncated' is []"),
        (TOKENS | {"tokens": "ab"}, "'tokens' is 'ab': must be a list"),
        (TOKENS | {"tokens": [1, 2]}, "'tokens' is [1, 2]"),
        (TOKENS | {"trained": [1]}, "'trained' is [1]: must have 2 entries, one per token"),
        (TOKENS | {"trained": None}, "'trained' is None: must have 2 entries, one per token"),
        (TOKENS | {"trained": 3}, "'trained' is 3: must have 2 entries, one per token"),
        (TOKENS | {"advantage": [0.5]}, "'advantage' is [0.5]: must have 2 entries, one per token"),
        (TOKENS | {"ratio": ["x", 1]}, "'ratio' is ['x', 1]"),
        (TOKENS | {"entropy": 3}, "'entropy' is 3"),
    ],
)
def test_a_sample_that_no_run_wrote_is_left_out(make_run, told, change, said):
    samples = [SOUND, SOUND | change, SOUND | TOKENS, SOUND | {"total": -1}]
    folder = make_run("a", [{"reward/mean": 0.5}], samples=samples)

    with pytest.warns(RlcompWarning) as warned:
        found = read_samples(folder)
    assert found == [SOUND, SOUND | TOKENS]
    assert len(warned) == 1
    text = str(warned[0].message)
    assert "malformed samples are left out: 2 (first: line 2, " in text
    assert said in text
    code, printed = told(folder)
    assert code == 0
    (line,) = printed.err.splitlines()
    assert line.startswith("rlcomp: ")


def test_a_sample_without_a_step_is_left_out_of_the_summary_as_well(make_run):
    unplaced = {name: value for name, value in SOUND.items() if name != "total"}
    folder = make_run("a", [{"reward/mean": 0.5}], samples=[unplaced, SOUND])

    with pytest.warns(RlcompWarning, match=r"left out: 1 \(first: line 1, 'total' is None"):
        assert "1+1=" in summarise(folder)


OTHERS = [{"return": 3.0}, {"prompt": "a"}, {"response": 3}]


def test_a_sample_without_a_prompt_is_not_shown(make_run):
    folder = make_run("a", [{"reward/mean": 0.5}], samples=[*OTHERS, SOUND])

    assert read_samples(folder) == [SOUND]


LITTLE = {"total": 1, "prompt": "1+1=", "response": "7"}


def test_a_sample_may_say_little(make_run):
    folder = make_run(
        "a", [{"reward/mean": 0.5}], samples=[{"total": 1, "prompt": "1+1=", "response": "7"}]
    )

    told = summarise(folder)

    assert any("1+1=" in line and " 7" in line for line in told.splitlines())
    assert not {"✓", "✗"} & {*told}
