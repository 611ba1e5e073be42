"""Similarity of patches."""

import time

import pytest

from components.reward.answer import PatchSimilarity
from rlcomp.verify import edits
from rlcomp.verify.edits import patch_similarity


@pytest.mark.parametrize(
    ("given", "truth", "score"),
    [
        ("abc", "abc", 1.0),
        ("ab", "abcd", 2 / 3),  # 2 * 2 / 6
        ("abxcd", "abcd", 8 / 9),  # ab and cd match: 2 * 4 / 9
        ("xyz", "abcd", 0.0),
        ("x" + "ab" * 150, "ab" * 150, 600 / 601),
        ("ab  \ncd\n", "\nab\ncd", 1.0),
        ("", "abcd", -1.0),
        (" \n", "abcd", -1.0),
        (None, "abcd", -1.0),
    ],
)
def test_the_similarity(given, truth, score):
    assert patch_similarity(given, truth) == pytest.approx(score, abs=1e-12)


def test_long_texts_are_compared_line_by_line_and_at_once():
    # 4,000 x 1,000 equal pairs: two of three lines match, 2 * 2 / (3 + 3).
    start = time.thread_time()

    score = patch_similarity("b\n" + "a" * 4000 + "\nc", "b\n" + "a" * 1000 + "\nc")

    assert score == pytest.approx(2 / 3)
    assert patch_similarity("a" * 100_000, "a" * 100) == 0.0
    assert time.thread_time() - start < 20


def test_nothing_is_matched_beyond_the_bound(monkeypatch):
    # Each of abcd meets one equal character: 4 looks find ab; 2 more would find cd.
    monkeypatch.setattr(edits, "_MOST_VISITS", 5)
    assert patch_similarity("abxcd", "abcd") == pytest.approx(4 / 9)  # 2 * 2 / 9

    monkeypatch.setattr(edits, "_MOST_VISITS", 6)
    assert patch_similarity("abxcd", "abcd") == pytest.approx(8 / 9)


def test_the_reward_reads_tags():
    assert PatchSimilarity().score("", "<answer>ab</answer>", "ab") == 1.0
    assert PatchSimilarity().score("", "ab", "ab") == -1.0
    assert PatchSimilarity(where="whole").score("", "so</think>ab", "ab") == 1.0
    assert PatchSimilarity().score("", "<answer>ab</answer>", " ") is None
