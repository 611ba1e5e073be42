"""Judges of a file, and several judges as one."""

import json

import pytest

from components.pairwise_judge.verdicts import JudgeEnsemble, RecordedJudge
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.judge import AnswerPair
from rlcomp.metrics import recording


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return RecordedJudge(path=str(path))


def row(probability, prompt="p", first="a", second="b"):
    return {"prompt": prompt, "first": first, "second": second, "probability": probability}


def test_a_verdict_is_of_this_prompt_and_this_order(tmp_path):
    judge = written(tmp_path / "v.jsonl", row(0.25), row(1, first="b", second="a"), row(None, "q"))

    asked = [
        AnswerPair("p", "a", "b"),
        AnswerPair("p", "b", "a"),
        AnswerPair("q", "a", "b"),
        AnswerPair("p", "a", "c"),
    ]
    assert judge(asked) == [0.25, 1.0, None, None]


@pytest.mark.parametrize("bad", ["0.5", -0.1, 1.1, True, [0.5], 10**400])
def test_what_is_no_probability_is_refused_with_file_and_line(tmp_path, bad):
    with pytest.raises(DataError, match=r"v\.jsonl:2: probability is .*must be a number in"):
        written(tmp_path / "v.jsonl", row(0.5), row(bad, "q"))


def test_rows_that_lack_something_or_contradict_are_refused(tmp_path):
    lacking = {"prompt": "p", "first": "a", "second": "b"}
    with pytest.raises(DataError, match=r"v\.jsonl:1: probability is nan"):
        written(tmp_path / "v.jsonl", lacking)
    with pytest.raises(DataError, match=r"v\.jsonl:1: second is 3: must be a text"):
        written(tmp_path / "v.jsonl", {**row(0.5), "second": 3})
    with pytest.raises(DataError, match=r"v\.jsonl:2: probability 0\.5 of a pair, .* has 0\.25"):
        written(tmp_path / "v.jsonl", row(0.25), row(0.5))
    assert written(tmp_path / "v.jsonl", row(0.25), row(0.25))([AnswerPair("p", "a", "b")]) == [
        0.25
    ]


def told(*probabilities):
    return lambda pairs: list(probabilities)


PAIRS = [AnswerPair("p", "a", "b"), AnswerPair("q", "a", "b"), AnswerPair("r", "a", "b")]


def test_the_mean_is_over_the_judges_that_can_tell():
    judges = {"one": told(0.5, None, None), "other": told(1.0, 0.25, None)}

    with recording() as ledger:
        assert JudgeEnsemble(judges=judges)(PAIRS) == [0.75, 0.25, None]
    assert JudgeEnsemble(judges=judges, least=2)(PAIRS) == [0.75, None, None]
    # The unbiased standard deviation of 1/2 and 1.
    assert ledger.means()["judges/disagreement"] == pytest.approx(0.125**0.5)


def test_more_verdicts_than_judges_are_refused():
    with pytest.raises(ConfigError, match="least is 2, and there are 1 judges"):
        JudgeEnsemble(judges={"one": told()}, least=2)
