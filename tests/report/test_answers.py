"""Answers side by side, and where runs come from."""

import pytest
import yaml

from rlcomp.cli.report import report
from rlcomp.report import answers as module
from rlcomp.report.answers import cut, side_by_side
from rlcomp.report.groups import group_runs
from rlcomp.report.runs import find_runs
from rlcomp.report.tables import run_origins


def sample(prompt, response, total=2, **more):
    return {
        "total": total,
        "phase": "rl",
        "step": total,
        "prompt": prompt,
        "response": response,
        **more,
    }


@pytest.fixture
def compared(make_run, tmp_path):
    """Writes arms with their samples, by seed; every run has two steps."""

    def write(**arms):
        for name, seeds in arms.items():
            for seed, samples in seeds.items():
                rows = [{"m": 1.0}, {"m": 2.0}]
                about = {"overrides": [f"p={name}"], "p": name, "samples": samples}
                make_run(f"{name}{seed}", rows, seed=seed, **about)
        return side_by_side(group_runs(find_runs([str(tmp_path)])))

    return write


def test_arms_answer_the_same_prompt_last_and_differences_come_first(compared):
    same, other = sample("1+1=", "2", correct=True), sample("2+2=", "5", correct=False)
    right = sample("2+2=", "4", correct=True, answer="4", reward=0.5)
    old = sample("1+1=", "3", total=1, correct=False)

    found = compared(a={0: [old, same, other, sample("only a", "x")]}, b={0: [same, right]})

    assert [one.prompt for one in found] == ["2+2=", "1+1="]
    first, second = found[0].arm_answers
    assert (first.group, first.response, first.correct, first.reward) == (0, "5", False, None)
    assert (second.group, second.response, second.correct, second.reward) == (1, "4", True, 0.5)
    assert found[0].answer == "4"
    assert [one.response for one in found[1].arm_answers] == ["2", "2"]


def test_among_right_answers_different_texts_come_first(compared):
    same = [sample("1", "x"), sample("2", "y")]

    found = compared(a={0: same}, b={0: [same[0], sample("2", "z")]})

    assert [one.prompt for one in found] == ["2", "1"]


def test_runs_of_one_seed_are_compared(compared):
    def own(text):
        return [sample("1", text)]

    found = compared(a={0: own("a0"), 1: own("a1")}, b={1: own("b1"), 2: own("b2")})

    assert [one.response for one in found[0].arm_answers] == ["a1", "b1"]


def test_without_a_seed_in_common_nothing_is_compared(compared):
    assert compared(a={0: [sample("1", "x")]}, b={1: [sample("1", "x")]}) == []


def test_one_arm_is_not_compared(compared):
    assert compared(a={0: [sample("1", "x")]}) == []


def test_no_more_than_a_page_can_hold(compared, monkeypatch):
    monkeypatch.setattr(module, "MOST_CHARACTERS", 7)
    many = [sample(str(n), "x", answer="y") for n in range(4)]

    # 1 + 1 and two answers of 1 each: 4 characters a prompt.
    assert len(compared(a={0: many}, b={0: many})) == 1


def test_no_more_prompts_than_can_be_read(compared, monkeypatch):
    monkeypatch.setattr(module, "MOST_PROMPTS", 3)
    many = [sample(str(n), "x") for n in range(4)]

    assert [one.prompt for one in compared(a={0: many}, b={0: many})] == ["0", "1", "2"]


def test_a_long_text_is_cut_with_the_number_of_omitted_characters():
    assert cut("x" * 4000) == "x" * 4000
    assert cut("x" * 4001 + "y" * 1000) == "x" * 4000 + " … (1,001 characters more)"


ENVIRONMENT = {"python": "3.11", "torch": "2.13", "commit": "0123456789abcdef+"}


def test_every_run_has_directory_command_commit_and_environment(make_run, tmp_path):
    for name, environment in {
        "a": ENVIRONMENT,
        "b": ENVIRONMENT | {"commit of rlcomp": "fedcba9876543210"},
        "c": {"python": "3.14"},
        "d": {},
    }.items():
        folder = make_run(name, [{"m": 1.0}], overrides=[f"p={name} x", "directory=all"], p=name)
        config = yaml.safe_load((folder / ".hydra" / "config.yaml").read_text())
        words = [f"p={name} x", "directory=all"]
        kept = {"config": config, "overrides": words, "choices": {}, "environment": environment}
        (folder / "run.yaml").write_text(yaml.safe_dump(kept))

    found, environments = run_origins(find_runs([str(tmp_path)]))

    assert [one.directory for one in found] == [str(tmp_path / name) for name in "abcd"]
    assert found[0].command == "rlcomp 'p=a x'"
    assert [one.commit for one in found] == [
        "0123456789ab+",
        "0123456789ab+, rlcomp fedcba987654",
        "",
        "",
    ]
    assert [one.environment for one in found] == [1, 1, 2, None]
    assert environments == ["python 3.11, torch 2.13", "python 3.14"]
    report([str(tmp_path)], None, None, [])
    page = (tmp_path / "report.html").read_text()
    assert "rlcomp &#39;p=a x&#39;" in page
    assert "Environment 1: python 3.11, torch 2.13" in page
    assert "0123456789ab+" in page
