"""Values in words, in whole runs: resumed bit for bit; they foretell better than a constant."""

import pytest

TINY = (
    "recipe=nlrl",
    "value_targets.continuations=2",
    "phases.value_words.steps=2",
    "phases.value_words.every.checkpoint=1",
    "phases.value_words2.steps=2",
    "phases.value_words2.every.checkpoint=1",
    "phases.rl2.steps=2",
    "phases.rl2.every.checkpoint=1",
    "value_quality.num_prompts=4",
    "value_quality.continuations=2",
)


@pytest.mark.slow
def test_a_run_is_continued_bit_identically_from_every_phase(play, continued, metrics, tmp_path):
    whole = play(tmp_path / "whole", *TINY)
    expected = metrics(whole)
    phases = [row["phase"] for row in expected]
    assert list(dict.fromkeys(phases)) == ["warm_start", "value_words", "rl", "value_words2", "rl2"]

    for phase in ("value_words", "rl", "value_words2"):
        step = phases.index(phase) + 1
        again = continued(whole, tmp_path / phase, step, *TINY)
        assert metrics(again) == expected, phase


@pytest.mark.slow
def test_words_foretell_better_than_a_constant(tmp_path, rlcomp, metrics):
    # The first phase of words of the default run, and no learning from it.
    words = ("~phases.rl", "~phases.value_words2", "~phases.rl2")
    assert rlcomp("recipe=nlrl", *words, f"directory={tmp_path}") == 0

    last = metrics(tmp_path)[-1]
    # Words that know nothing are worse than the constant. Seeds 0, 1, 2: .178, .172, .211 against
    # .190, .183, .213; seed 0 on another machine, which rounds otherwise: .187.
    assert last["value_quality/brier"] < last["value_quality/brier_constant"] - 0.001
