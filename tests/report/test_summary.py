import json
import struct

import pytest

from rlcomp.files.json_lines import read_lines
from rlcomp.report.summary import summarise


def written(directory, rows, samples=()):
    for name, lines in (("metrics.jsonl", rows), ("samples.jsonl", samples)):
        (directory / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return directory


def row(total, phase, step, **metrics):
    named = {name.replace("__", "/"): value for name, value in metrics.items()}
    return {"total": total, "phase": phase, "step": step, "time/step": 2.0, **named}


def evaluated(sampled, greedy):
    found = {"evaluation__sampled": sampled, "evaluation__greedy": greedy}
    return found | {
        "evaluation__sampled_low": sampled - 0.02,
        "evaluation__sampled_high": sampled + 0.02,
    }


def sample(total, prompt, response, answer):
    right = response == answer
    return {
        "total": total,
        "prompt": prompt,
        "response": response,
        "answer": answer,
        "correct": right,
    }


RUN = [
    row(1, "warm_start", 1, loss__sft=2.0, **evaluated(0.25, 0.5)),
    row(2, "rl", 1, reward__mean=0.25, rollout__tokens=1500.0),
    row(3, "rl", 2, reward__mean=0.875, rollout__tokens=500.0, **evaluated(0.931, 0.988)),
]


def test_the_last_line_is_the_held_out_accuracy(tmp_path):
    assert summarise(written(tmp_path, RUN)).splitlines()[-1] == (
        "held-out accuracy: sampled 0.93 greedy 0.99"
    )


def test_a_metric_that_was_not_finite_is_left_out(tmp_path):
    nulls = row(4, "rl", 3, reward__mean=None, rollout__tokens=None, evaluation__greedy=None)

    lines = summarise(written(tmp_path, [*RUN, nulls])).splitlines()
    assert lines[0].startswith(
        "4 steps in 8 s of training, 2,000 tokens sampled. Reward went from 0.250 to 0.875. "
    )
    assert lines[-1] == "held-out accuracy: sampled 0.93 greedy 0.99"


def test_a_run_is_put_into_words(tmp_path):
    assert summarise(written(tmp_path, RUN)).splitlines()[0] == (
        "3 steps in 6 s of training, 2,000 tokens sampled. Reward went from 0.250 to 0.875. "
        "Held-out accuracy: sampled 0.25 after warm_start, 0.93 now (95 % interval 0.91-0.95); "
        "greedy 0.50, 0.99 now."
    )


def test_an_unmeasured_number_is_not_shown(tmp_path):
    text = summarise(written(tmp_path, [row(1, "warm_start", 1, loss__sft=2.0)]))

    assert text.splitlines() == [
        "1 steps in 2 s of training.",
        f"metrics, samples, checkpoints: {tmp_path}",
    ]
    assert not (tmp_path / "curve.png").exists()


def test_episodes_are_put_into_words(tmp_path):
    rows = [row(1, "rl", 1, episode__return=20.0), row(2, "rl", 2, episode__return=200.0)]

    assert "Episode return went from 20.000 to 200.000." in summarise(written(tmp_path, rows))


def test_a_reward_is_compared_with_that_of_its_own_phase(tmp_path):
    # A later phase may have another reward: 0.9 of one and 0.1 of the other are no fall.
    told = [("rl", 0.5), ("rl", 0.9), ("collect", 0.8), ("rl2", 0.1), ("rl2", 0.3)]
    rows = [row(n, name, n, reward__mean=value) for n, (name, value) in enumerate(told, 1)]
    expected = (
        "Reward went from 0.500 to 0.900 in rl, from 0.800 to 0.800 in collect, "
        "from 0.100 to 0.300 in rl2."
    )
    assert expected in summarise(written(tmp_path, rows))


def test_the_learning_curve_is_a_picture(tmp_path):
    text = summarise(written(tmp_path, RUN))

    picture = (tmp_path / "curve.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    # 7 x 4 inches at 150 dots an inch.
    assert struct.unpack(">II", picture[16:24]) == (1050, 600)
    assert f"learning curve: {tmp_path / 'curve.png'}" in text


def test_the_answers_before_and_after_stand_side_by_side_marked(tmp_path):
    samples = [
        sample(1, "21>", "21", "12"),
        sample(1, "43>", "34", "34"),
        sample(3, "21>", "12", "12"),
        sample(3, "43>", "4\n3", "34"),
    ]

    text = summarise(written(tmp_path, RUN, samples))

    (one,) = [line.split() for line in text.splitlines() if "21>" in line]
    (other,) = [line.split() for line in text.splitlines() if "43>" in line]
    assert one == ["21>", "✗", "21", "✓", "12", "12"]
    assert other == ["43>", "✓", "34", "✗", r"4\n3", "34"]
    assert "after step 1" in text
    assert "after step 3" in text


def test_a_single_evaluation_has_no_comparison(tmp_path):
    text = summarise(written(tmp_path, RUN[:1], [sample(1, "21>", "12", "12")]))

    assert "Held-out accuracy" not in text.splitlines()[0]
    assert text.splitlines()[-1] == "held-out accuracy: sampled 0.25 greedy 0.50"


@pytest.mark.parametrize(
    ("start", "shown"),
    [("<|system|>You are a helpful assistant.\n", "  …1+2=?"), ("Add up:\n", "  Add up:\\n1+2=?")],
)
def test_prompts_are_shown_from_where_they_differ(tmp_path, start, shown):
    asked = [f"{start}1+{number}=?" for number in (2, 3)]

    text = summarise(written(tmp_path, RUN, [sample(3, one, "4", "4") for one in asked]))

    assert shown in text
    assert shown.replace("2", "3") in text


def test_square_brackets_in_an_answer_are_text(tmp_path):
    text = summarise(
        written(tmp_path, RUN, [sample(1, "[1]", "[bold]x", "y"), sample(3, "[1]", "[/]", "y")])
    )

    assert "✗ [bold]x" in text
    assert "✗ [/]" in text


def test_an_empty_run_has_a_note(tmp_path):
    assert summarise(tmp_path) == f"{tmp_path}: the run has no metrics"
    assert summarise(written(tmp_path, [])) == f"{tmp_path}: the run has no metrics"


def test_a_file_that_is_not_there_has_no_lines(tmp_path):
    assert read_lines(tmp_path / "nothing.jsonl") == []


def test_a_reward_without_verdicts_is_reported_by_name_and_mean(tmp_path):
    row = {
        **{"total": 1, "phase": "train", "step": 1, "evaluation/greedy": 1.0},
        **{"evaluation/sampled": 0.97, "evaluation/reward/length/greedy": 31.0},
    }
    sample = {"total": 1, "prompt": "p", "response": "abc", "answer": "", "correct": None}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "samples.jsonl").write_text(json.dumps(sample) + "\n")

    told = summarise(tmp_path)

    assert told.splitlines()[-1] == "held-out mean reward: length greedy 31.000"
    assert "accuracy" not in told
    assert not {"✓", "✗"} & {*told}
