import json
import subprocess
import sys
import textwrap

import pytest

from rlcomp.cli.audit import audit_reward, main


@pytest.fixture
def audit(monkeypatch, capsys):
    def run(*words):
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["rlcomp-audit", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code
        printed = capsys.readouterr()
        return printed.out, printed.err, code

    return run


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A module with verifiers, and a file of rows."""
    (tmp_path / "audited.py").write_text(
        textwrap.dedent("""
            def contains(response, answer):
                return float(answer in response)

            def final(response, answer):
                return float(response == f"<final>{answer}</final>")

            def judge(response, answer, rubric):
                return 0.0
            """)
    )
    rows = [{"question": f"{n}+1?", "answer": str(n + 1)} for n in range(10, 16)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.syspath_prepend(str(tmp_path))
    return ["task=file", f"task.path={tmp_path}/rows.jsonl", "reward_pool=in_process"]


def test_a_verifier_without_a_fault_ends_with_0(audit):
    out, err, code = audit("reward=exact_match", "--rows", "2")

    assert (err, code) == ("", 0)
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[0] == "gold answers by form"
    assert ["form", "tried", "accepted"] in map(str.split, lines)
    header = ["kind", "can", "be", "right", "tried", "accepted", "the", "first"]
    assert header in map(str.split, lines)
    assert any(line.split() == ["plain", "2", "2", "(100.0%)"] for line in lines)
    assert any(line.split()[:4] == ["off_by_one", "never", "4", "0"] for line in lines)
    assert "false rejects: none, each of 2 gold answers is accepted in some form" in lines
    assert lines[-1] == "false accepts: none of a kind that can never be right"
    assert any(line.startswith("slowest call: ") for line in lines)


def test_a_function_of_ones_own_that_accepts_hedges_ends_with_1(audit, mine, tmp_path):
    words = [*mine, "reward=function", "reward.function=audited.contains", "--rows", "2"]
    out, _, code = audit(*words, "--json", tmp_path / "found.json")

    assert code == 1
    assert out.splitlines()[-1] == f"written: {tmp_path / 'found.json'}"
    told = next(line for line in out.splitlines() if line.startswith("false accepts:"))
    assert "hedge" in told
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["rows"] == 2
    assert (found["gold"]["tried"], found["gold"]["accepted"]) == (2, 2)
    assert found["kinds"]["denied"]["right"] == "never"
    # All six forms hold the answer somewhere, and each row is denied in each.
    assert (found["kinds"]["denied"]["tried"], found["kinds"]["denied"]["accepted"]) == (12, 12)
    assert found["kinds"]["denied"]["example"]["response"].startswith("not 1")
    assert found["kinds"]["denied"]["allowed"] is False
    assert found["false_accepts"] == [kind for kind in found["kinds"] if kind in told]
    assert found["slowest"]["seconds"] > 0

    # The file is there now.
    _, err, code = audit(*words, "--json", tmp_path / "found.json")
    assert code == 2
    assert "already exists: name a new file" in err

    allowed = [word for kind in found["false_accepts"] for word in ("--allow", kind)]
    out, _, code = audit(*words, *allowed)
    assert code == 0
    assert any(line.split()[:2] == ["denied", "allowed"] for line in out.splitlines())


def test_a_form_of_ones_own(audit, mine):
    words = [*mine, "reward=function", "reward.function=audited.final", "--rows", "2"]

    out, _, code = audit(*words)
    assert code == 1  # nothing was accepted, for little was tried
    assert "false accepts: none" in out
    assert "false rejects: 2 of 2 gold answers in every form; the first: '1" in out
    assert "Few attacks could be tried: give the form of an answer" in out

    out, _, code = audit(*words, "--form", "<final>{answer}</final>")
    assert code == 0
    assert "false rejects: none, each of 2" in out


def test_brackets_of_an_answer_are_no_markup(audit, mine, tmp_path):
    row = {"question": "?", "answer": "[/b][bold]"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")

    out, _, code = audit(*mine, "reward=function", "reward.function=audited.contains")

    assert code == 1
    assert "'not [/b][bold]' for '[/b][bold]'" in out


def test_hostile_texts_cannot_steer_the_terminal(audit):
    out, _, code = audit("reward=think_format", "--rows", "1")

    assert code == 1
    assert "\x1b" not in out
    assert "\x00" not in out
    assert r"\boxed{\x00}" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--rows", "0"], "'0' must be an integer greater than 0"),
        (["--allow", "hedges"], "--allow 'hedges': there is no such kind; did you mean 'hedge'?"),
        (
            ["mine.passed", "--task", "gsm.jsonl", "--rows", "3"],
            "mine.passed: settings are written key=value; here it is reward=function "
            "reward.function=mine.passed\n--task: settings are written key=value; here it is "
            "task=file task.path=gsm.jsonl\nthe whole line: rlcomp-audit reward=function "
            "reward.function=mine.passed task=file task.path=gsm.jsonl --rows 3\n",
        ),
        (["--reward=numeric"], "the whole line: rlcomp-audit reward=numeric\n"),
        (["--form", "<f>"], "--form '<f>' has no {answer}"),
        # A form costs nothing to check, so it comes before the task and the reward.
        (["--form", "<f>", "reward=numerik"], "--form '<f>' has no {answer}"),
        (["reward=numerik"], "reward=numerik: there is no such option; did you mean 'numeric'?"),
        (["reward=numeric", "reward.absolute=-1"], "reward.absolute is -1"),
        (["reward=gibberish", "reward.below=-3"], "reward reads rollout_log_probs, which a text"),
        (["recipe=ttrl"], "reward is a MajorityVote, which judges an answer by the others of its"),
        (["recipe=control_ppo"], "there is no reward: set reward=..."),
        (["reward=brevity"], "reward.longest is missing (???)"),
        (["-cd", "nowhere"], "--config-dir is nowhere: there is no such directory"),
        (["reward=repetition"], "has no token for"),
    ],
)
def test_a_mistake_ends_with_2_and_says_which(audit, words, told):
    _, err, code = audit(*words)

    assert told in err
    assert code == 2


def test_a_missing_column_is_a_mistake_not_a_finding(audit, mine):
    _, err, code = audit(*mine, "reward=function", "reward.function=audited.judge")

    assert code == 2
    assert "rubric" in err


def test_help_imports_no_torch():
    code = "import sys, rlcomp.cli.audit as audit\nsys.argv = ['rlcomp-audit', '--help']\n"
    code += "try:\n    audit.main()\nexcept SystemExit:\n    assert 'torch' not in sys.modules\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "--allow KIND" in done.stdout


# What the audit finds in our own verifiers: no false accept in those that read an answer.
SOUND = [
    ["reward=exact_match"],
    ["reward=boxed"],
    ["reward=tagged"],
    ["reward=numeric"],
    ["reward=last_number"],
    ["reward=unwrapped"],
    ["reward=short_answer"],
    ["reward=short_answer_f1"],
    ["reward=countdown", "task=countdown"],
    ["reward=patch_similarity"],
]


@pytest.mark.parametrize("words", SOUND, ids=lambda words: words[0])
def test_our_verifiers_accept_nothing_that_cannot_be_right(words):
    found = audit_reward(words, rows=2)

    assert found.false_accepts() == []
    assert found.gold.accepted == found.gold.tried == 2


def test_a_judge_is_held_against_pairs_of_a_file(audit, tmp_path):
    rows = [{"prompt": f"{n}>", "chosen": f"{n}", "rejected": f"{n + 1}"} for n in range(100, 130)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["pairwise_judge=simulated_biased", "pairwise_judge.temperature=2"]
    words += ["task=preferences", f"task.path={tmp_path}/pairs.jsonl"]

    out, err, code = audit(*words, "--json", tmp_path / "found.json")

    # Answers share more digits or fewer, so that the fit is not exact. The judge says what is
    # shown first, by its bias of 1 in log-odds: of each pair one order is right.
    assert (err, code) == ("", 1)
    assert "30 pairs, each in both orders" in out
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["agreement"]["value"], found["label_agreement"]["value"]) == (0.5, 1.0)
    assert (found["order_flips"], found["invalid"]) == (1.0, 0.0)
    assert found["biases"]["position"]["value"] == pytest.approx(1.0, abs=2e-3)


def test_a_judge_that_is_better_than_a_coin_ends_with_0(audit):
    out, _, code = audit("+pairwise_judge=simulated", "task=sorting_pairs", "--rows", "20")

    assert code == 0
    assert "1.00    [0.84, 1.00]" in out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["pairwise_judge=simulated"], "no column 'rejected'"),
        (["pairwise_judge=simulated", "--allow", "nonsense"], "--form and --allow are for"),
        (["pairwise_judge=nobody", "task=sorting_pairs"], "nobody"),
        (["pairwise_judge=recorded", "task=sorting_pairs"], "pairwise_judge.path"),
    ],
)
def test_a_judge_that_cannot_be_measured_is_refused(audit, words, why):
    out, err, code = audit(*words)

    assert (out, code) == ("", 2)
    assert why in err
