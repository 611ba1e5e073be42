"""The page and the tables: from hand-made runs, and from a sweep of which one job fails."""

import csv
import json
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from rlcomp.cli.report import main, report
from rlcomp.report.runs import find_runs

HOSTILE = "</script><script>alert(1)</script>[/] ${x} $a_b$ \x00"


class Page(HTMLParser):
    """Texts and elements of a page; refuses tags that do not match."""

    VOID = ("meta", "br", "input")

    def __init__(self, text):
        super().__init__()
        self.texts, self.elements, self.open = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return "".join(self.texts)

    def tokens(self):
        return [
            own
            for tag, own in self.elements
            if tag == "span" and (own.get("class") or "").startswith("t") and "title" in own
        ]


def made(*paths, baseline=None, metrics=()):
    """The page and the rows of both tables."""
    report([str(path) for path in paths], None, baseline, list(metrics))
    tables = [read_table(paths[0] / name) for name in ("report.csv", "runs.csv")]
    return Page((paths[0] / "report.html").read_text()), *tables


def data_of(folder):
    """What the page's script is given."""
    text = (folder / "report.html").read_text()
    return json.loads(text.partition('id="data">')[2].partition("</script>")[0])


def read_table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def compared(make_run, tmp_path):
    """lr 1 ends at 0.5 and 0.7, lr 2 at 0.9 and 1.0, seeds 0 and 1, two steps each."""
    for number, (lr, seed, end) in enumerate([(1, 0, 0.5), (1, 1, 0.7), (2, 0, 0.9), (2, 1, 1.0)]):
        rows = [
            {"reward/mean": 0.1, "rollout/tokens": 5},
            {"reward/mean": end, "rollout/tokens": 7, "time/evaluation": 0.5},
        ]
        make_run(str(number), rows, seed=seed, overrides=[f"lr={lr}"], lr=lr)
    return tmp_path


def test_the_table_holds_means_and_paired_differences(compared):
    _, rows, _ = made(compared)

    found = {(row["group"], row["kind"]): row for row in rows}
    assert float(found["lr=1", "final"]["mean"]) == pytest.approx(0.6)
    assert float(found["lr=2", "final"]["mean"]) == pytest.approx(0.95)
    # Over one step the area is the mean of both ends: (0.1 + 0.9) / 2 and (0.1 + 1.0) / 2.
    assert float(found["lr=2", "auc"]["mean"]) == pytest.approx((0.5 + 0.55) / 2)
    # Seed by seed 0.9 - 0.5 = 0.4 and 1.0 - 0.7 = 0.3: t(1) = 12.7062 times s / sqrt(2) = 0.05.
    half = 12.7062 * 0.05
    assert float(found["lr=2", "final"]["difference"]) == pytest.approx(0.35)
    assert float(found["lr=2", "final"]["difference_low"]) == pytest.approx(0.35 - half, abs=1e-5)
    assert float(found["lr=2", "final"]["difference_high"]) == pytest.approx(0.35 + half, abs=1e-5)
    assert found["lr=1", "final"]["difference"] == ""
    assert {row["n"] for row in rows} == {"2"}


def test_another_baseline_turns_the_differences_around(compared):
    _, rows, _ = made(compared, baseline="lr=2")

    found = {(row["group"], row["kind"]): row for row in rows}
    assert float(found["lr=1", "final"]["difference"]) == pytest.approx(-0.35)


def test_every_run_has_a_line_with_its_cost(compared):
    _, _, runs = made(compared)

    assert [run["group"] for run in runs] == ["lr=1", "lr=1", "lr=2", "lr=2"]
    # Two steps of 2 seconds, half a second of evaluation, 5 + 7 tokens.
    cost = [(run["seconds"], run["seconds_beside"], run["tokens"]) for run in runs]
    assert set(cost) == {("4.0", "0.5", "12.0")}
    assert [float(run["reward/mean final"]) for run in runs] == [0.5, 0.7, 0.9, 1.0]


def test_the_page_needs_nothing_from_outside(compared):
    page, _, _ = made(compared)

    links = [own[a] for _, own in page.elements for a in ("src", "href", "xlink:href") if a in own]
    assert all(link.startswith("#") for link in links)
    assert not {"link", "img", "iframe"} & {tag for tag, _ in page.elements}
    assert "url(" not in page.text
    (policy,) = [own["content"] for tag, own in page.elements if "http-equiv" in own]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    assert "lr=2" in page.text


def test_a_group_without_a_finished_run_is_shown_and_does_not_count(compared, make_run):
    folder = make_run("4", [{"reward/mean": 9.0}], steps=5, overrides=["lr=3"], lr=3)
    (folder / "failure.json").write_text(json.dumps({"type": "DataError", "error": HOSTILE}))

    page, rows, runs = made(compared)

    assert "lr=3" not in {row["group"] for row in rows}
    assert (runs[-1]["state"], runs[-1]["error"]) == ("failed", f"DataError: {HOSTILE}")
    assert f"DataError: {HOSTILE}".replace("\x00", "") in page.text.replace("\x00", "")
    assert "1 of 5" in page.text
    assert "lr=3 − lr=1: no finished run of lr=3 has the metric" not in page.text
    assert "3 − 1: no finished run of 3 has the metric" in page.text


def sample(step, response, **more):
    place = {"total": step, "phase": "rl", "step": step, "prompt": "1+1="}
    return {**place, "response": response, "answer": "2", **more}


ROLLOUT = {
    "group_id": 0,
    "correct": False,
    "reward": -0.5,
    "rewards": {"format": 0.25, HOSTILE: 0.0},
    "tokens": [HOSTILE, "tool", "é"],
    "trained": [1, 0, 1],
    "advantage": [-0.5, 7.0, 2.0],
    "ratio": [1.0, 1.0, 0.5],
    "entropy": [0.0, 3.0, None],
}


def test_the_answers_of_one_run_are_shown_token_by_token(make_run):
    samples = [sample(1, "2", correct=True), sample(2, HOSTILE, **ROLLOUT)]

    page, _, _ = made(make_run("a", [{"m": 1.0}, {"m": 2.0}], samples=samples))

    assert page.text.index("step 2 (rl 2): rollouts") < page.text.index("step 1 (rl 1): evaluation")
    first, tool, last = page.tokens()
    assert (first["class"], tool["class"], last["class"]) == ("t", "t masked", "t")
    # By the largest size on the page: 2 for the advantage, log 2 for the ratio.
    assert first["style"] == "--advantage:-0.25;--ratio:0.0;--entropy:0.0;"
    assert last["style"] == "--advantage:1.0;--ratio:-1.0;"
    assert last["title"] == "advantage 2, ratio 0.5"
    assert "style" not in tool
    assert "reward −0.5" in page.text
    assert "format 0.25" in page.text


def test_a_right_answer_is_shown_in_the_pieces_it_may_end_after(make_run):
    cut = sample(1, " par", **ROLLOUT) | {"answer": " para =", "pieces": [" para", HOSTILE]}

    page, _, _ = made(make_run("a", [{"m": 1.0}], samples=[cut]))

    places = [at for at in page.elements if dict(at[1]).get("class") == "piece"]
    assert [tag for tag, _ in places] == ["span", "span"]
    assert " para" in page.text
    assert " para =" not in page.text


def test_the_text_of_a_model_is_never_markup(make_run):
    hostile = sample(1, HOSTILE, **ROLLOUT) | {"prompt": HOSTILE, "answer": HOSTILE}
    folder = make_run("a", [{"m": 1.0, HOSTILE: 1.0}], samples=[hostile, sample(1, HOSTILE)])

    page, _, _ = made(folder)

    assert [tag for tag, _ in page.elements].count("script") == 2  # the data, and what draws it
    assert page.text.count("</script><script>alert(1)</script>[/] ${x} $a_b$") >= 5
    assert data_of(folder)["charts"] == []


def test_several_runs_of_one_arm_show_no_answers(make_run, tmp_path):
    for seed in (0, 1):
        make_run(str(seed), [{"m": 1.0}], seed=seed, samples=[sample(1, "2")])

    page, _, _ = made(tmp_path)

    assert "1+1=" not in page.text


def test_old_answers_are_left_out_when_there_are_too_many(make_run, monkeypatch):
    samples = [sample(step, HOSTILE, **ROLLOUT) for step in (1, 2, 3)]
    size = 3 * 150 + len("1+1=") + len(HOSTILE)
    monkeypatch.setattr("rlcomp.report.rollouts.MOST_BYTES", 2 * size)

    page, _, _ = made(make_run("a", [{"m": 1.0}] * 3, samples=samples))

    assert len(page.tokens()) == 6
    assert "1 older samples are left out" in page.text
    assert "step 3 (rl 3)" in page.text
    assert "step 1 (rl 1)" not in page.text


def test_a_long_answer_is_cut_with_a_note(make_run, monkeypatch):
    monkeypatch.setattr("rlcomp.report.rollouts._MAX_TOKENS", 2)

    page, _, _ = made(make_run("a", [{"m": 1.0}], samples=[sample(1, HOSTILE, **ROLLOUT)]))

    assert [own["class"] for own in page.tokens()] == ["t", "t masked", "t masked"]
    assert " … (1 tokens more)" in page.text


def test_a_wrong_option_ends_with_a_message(compared, monkeypatch, capsys):
    words = ["rlcomp-report", str(compared), "--metrics", "reward/men"]
    monkeypatch.setattr(sys, "argv", words)

    with pytest.raises(SystemExit) as left:
        main()

    assert left.value.code == 2
    message = capsys.readouterr().err
    assert "no run recorded 'reward/men'; did you mean 'reward/mean'?" in message


def test_all_wrong_options_are_reported_together(compared, monkeypatch, capsys):
    words = ["rlcomp-report", str(compared), "--baseline", "lr=99", "--metrics", "mean,nothing"]
    monkeypatch.setattr(sys, "argv", words)

    with pytest.raises(SystemExit):
        main()

    first, second, third = capsys.readouterr().err.splitlines()
    assert first.startswith("rlcomp: --baseline is 'lr=99' and names no group; did you mean")
    assert second.startswith("--metrics: no run recorded 'mean'; did you mean 'reward/mean'?")
    assert third.startswith("--metrics: no run recorded 'nothing' (known: ")


def test_the_command_line_writes_to_its_output(compared, tmp_path, monkeypatch, capsys):
    words = ["rlcomp-report", str(compared), "--out", str(tmp_path / "new"), "--baseline", "lr=2"]
    monkeypatch.setattr(sys, "argv", words)

    main()

    told = capsys.readouterr().out.splitlines()
    assert told[0] == "4 runs in 2 groups, 4 finished"
    assert told[-3].endswith(", last value, paired by seed:")
    # -.4 and -.3, 12.7 standard errors of .05 to each side.
    assert told[-2] == "1 − 2 = −0.4, 95 % −1.0 to 0.3, n = 2: no difference seen"
    assert told[-1] == f"report: {tmp_path / 'new' / 'report.html'}"
    assert {file.name for file in (tmp_path / "new").iterdir()} == {
        "report.html",
        "report.csv",
        "runs.csv",
    }


def test_a_report_that_cannot_be_written_ends_with_a_message(compared, monkeypatch, capsys):
    taken = compared / "0" / "metrics.jsonl"
    monkeypatch.setattr(sys, "argv", ["rlcomp-report", str(compared), "--out", str(taken)])

    with pytest.raises(SystemExit) as left:
        main()

    assert left.value.code == 2
    assert "metrics.jsonl'; choose a directory with --out" in capsys.readouterr().err


def test_a_run_that_ends_in_no_number_counts_in_neither_kind(make_run, tmp_path):
    make_run("0", [{"reward/mean": 0.5}] * 2, seed=0)
    make_run("1", [{"reward/mean": 0.5}, {"reward/mean": None}], seed=1)

    page, rows, _ = made(tmp_path)

    assert {row["kind"]: row["n"] for row in rows} == {"final": "1", "auc": "1"}
    assert page.text.count("n = 1 of 2") == 2


TINY = [
    "phases.warm_start.steps=2",
    "phases.rl.steps=2",
    "phases.rl.every.checkpoint=null",
    "phases.warm_start.every.checkpoint=null",
    "prompts.batch_size=2",
    "rollout.group_size=2",
    "evaluation.num_prompts=4",
    "demonstrations.batch_size=8",
    "model.hidden_size=16",
    "model.intermediate_size=16",
]


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Two seeds of a sound config, two of one whose prompts leave no room for answers."""
    from hydra.core.global_hydra import GlobalHydra

    from rlcomp.cli.run import main as rlcomp

    folder = tmp_path_factory.mktemp("sweep") / "all"
    with pytest.MonkeyPatch.context() as patch:
        own = ["+evaluator@rollouts=rollouts", "+phases.rl.every.rollouts=1"]
        words = ["-m", "max_new_tokens=40,8", "seed=0,1", *own, *TINY, f"directory={folder}"]
        patch.setattr(sys, "argv", ["rlcomp", *words])
        GlobalHydra.instance().clear()
        with pytest.raises(SystemExit) as left:
            rlcomp(apart=False)
    assert left.value.code == 2
    return folder


@pytest.mark.slow
def test_a_sweep_survives_failing_jobs_and_reports_them(swept):
    page, _, runs = made(swept)

    assert [run["state"] for run in runs] == ["failed", "failed", "finished", "finished"]
    assert [run["group"] for run in runs] == ["max_new_tokens=40"] * 2 + ["max_new_tokens=8"] * 2
    assert "context_length" in runs[0]["error"]
    assert runs[0]["error"] in page.text


def test_the_numbers_of_the_report_are_those_of_the_record(swept):
    _, rows, runs = made(swept)

    ends = []
    for number in ("2", "3"):
        lines = (swept / number / "metrics.jsonl").read_text().splitlines()
        ends.append([json.loads(line) for line in lines])
    name = "policy/entropy"
    assert [float(run[f"{name} final"]) for run in runs[2:]] == [end[-1][name] for end in ends]
    (row,) = [row for row in rows if (row["metric"], row["kind"]) == (name, "final")]
    assert float(row["mean"]) == pytest.approx(sum(end[-1][name] for end in ends) / 2)
    tokens = [sum(line.get("rollout/tokens", 0.0) for line in end) for end in ends]
    assert [float(run["tokens"]) for run in runs[2:]] == tokens


def test_a_run_with_a_rollout_log_shows_its_tokens(swept):
    page, _, _ = made(swept / "2")

    kept = [json.loads(text) for text in (swept / "2" / "samples.jsonl").read_text().splitlines()]
    assert len(page.tokens()) == sum(len(one.get("tokens", ())) for one in kept) > 0
    assert "step 4 (rl 2): rollouts" in page.text
    assert "step 2 (warm_start 2): evaluation" in page.text


@pytest.mark.slow
def test_a_refused_attempt_relabels_nothing(rlcomp, tmp_path, capsys):
    own = [text for text in TINY if "checkpoint" not in text]
    for recipes, code in (("grpo,dr_grpo", 0), ("rloo,reinforce", 2)):
        assert rlcomp("-m", f"recipe={recipes}", *own, f"directory={tmp_path / 'all'}") == code

    _, rows, runs = made(tmp_path / "all")

    kept = ["recipe=grpo", "recipe=dr_grpo"]
    assert [run["group"] for run in runs] == [*kept, "recipe=rloo", "recipe=reinforce"]
    assert [run["state"] for run in runs] == ["finished"] * 2 + ["never started"] * 2
    assert {row["group"] for row in rows} == {*kept}
    assert rlcomp("-m", "recipe=grpo,dr_grpo", *own, f"directory={tmp_path / 'all'}") == 0
    assert [run.state for run in find_runs([str(tmp_path / "all")])] == ["finished"] * 2


def test_a_report_needs_no_torch(compared):
    code = f"""
import sys
from rlcomp.cli.report import report
report([{str(compared)!r}], None, None, [])
heavy = {{"torch", "tensordict", "transformers", "components"}} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
