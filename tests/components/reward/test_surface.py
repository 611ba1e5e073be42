"""Length, repetition, language and patterns of a response."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from components.reward.surface import (
    Brevity,
    Gibberish,
    LanguageConsistency,
    Length,
    Regex,
    Repetition,
    ScriptConsistency,
)
from components.shaping.length import SoftOverlong
from rlcomp.errors import ConfigError, MissingExtra
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch
from rlcomp.verify import pattern
from rlcomp.verify.language import detect_language, language_share, repetition


@pytest.mark.parametrize(
    ("response", "score"), [("", 1.0), ("12", 0.75), ("12345678", 0.0), ("123456789", 0.0)]
)
def test_it_falls_from_1_to_0_with_the_characters(response, score):
    assert Brevity(longest=8).score("prompt", response, "answer") == score


@given(st.text(), st.text(min_size=1), st.integers(1, 50))
def test_more_text_is_never_better(text, more, longest):
    reward = Brevity(longest=longest)

    assert 0.0 <= reward.score("", text + more, "") <= reward.score("", text, "") <= 1.0


def test_a_letter_of_several_bytes_is_one_character():
    assert Brevity(longest=4).score("", "né", "") == 0.5


def test_longest_must_be_positive():
    with pytest.raises(ConfigError, match="longest is 0: must be greater than 0"):
        Brevity(longest=0)


def test_the_mean_log_prob_of_the_response_decides():
    # Means over the response: -2, exactly the bound; (-1 - 4) / 2 = -2.5; none; -2 without the NaN.
    log_probs = [
        [-9.0, -2.0, -9.0],
        [-9.0, -1.0, -4.0],
        [-9.0, -9.0, -9.0],
        [0.0, float("nan"), -2],
    ]
    mask = [[False, True, False], [False, True, True], [False, False, False], [False, False, True]]
    entries = {"rollout_log_probs": torch.tensor(log_probs), "response_mask": torch.tensor(mask)}

    result = Gibberish(below=-2.0, penalty=0.5)(TensorDict(entries, batch_size=[4]))

    assert result["reward"].tolist() == [0.0, -0.5, 0.0, 0.0]
    assert result["rewards", "gibberish"].tolist() == [0.0, -0.5, 0.0, 0.0]
    assert result["correct"].tolist() == [True, False, False, True]
    assert result["reward_valid"].tolist() == [True, True, False, True]


def test_the_penalty_is_1_by_default():
    entries = {"rollout_log_probs": torch.tensor([[-5.0]]), "response_mask": torch.tensor([[True]])}

    result = Gibberish(below=-4.5)(TensorDict(entries, batch_size=[1]))

    assert result["reward"].item() == pytest.approx(-1.0)


def rows():
    """Responses of 0, 1, 4 and 5 tokens; one has a hole."""
    mask = torch.zeros(4, 7, dtype=torch.bool)
    mask[1, 1], mask[2, 2:7], mask[3, 1:6] = True, True, True
    mask[2, 4] = False
    return make_batch(response_mask=mask)


def test_it_keeps_the_contract():
    check_component(Length(target=4.0))


def test_it_grows_with_the_tokens_between_its_bounds():
    with recording() as ledger:
        result = Length(target=4, low=0.125, high=0.75)(rows())

    # 0, 1/4, 1 and 5/4.
    assert result["reward"].tolist() == [0.125, 0.25, 0.75, 0.75]
    assert result["rewards"]["length"].tolist() == [0.125, 0.25, 0.75, 0.75]
    assert result["correct"].tolist() == [False, False, True, True]
    assert result["reward_valid"].tolist() == [True] * 4
    # (1/8 + 1/4 + 3/4 + 3/4) / 4; a length has no verdict.
    assert ledger.means() == {
        "reward/mean": 0.46875,
        "reward/invalid_fraction": 0.0,
    }


def test_bounds_that_leave_nothing_are_refused():
    with pytest.raises(ConfigError, match="low is 1: must be below high, 1"):
        Length(target=4, low=1)


@pytest.mark.parametrize(("response", "score"), [("<think>a</think> 4", 1.0), ("4", 0.0)])
def test_it_is_1_if_the_pattern_matches(response, score):
    assert Regex(pattern="<think>.*</think>").score("", response, "") == score


@pytest.mark.parametrize(
    ("response", "score"), [("so {4}", 1.0), ("so { 4 }", 1.0), ("{5} {4}", 0.0), ("4", 0.0)]
)
def test_with_compare_the_first_match_must_be_the_answer(response, score):
    reward = Regex(pattern=r"\{(.*?)\}", group=1, compare=True)

    assert reward.score("", response, " 4") == score


def test_an_unmatched_group_is_not_the_answer():
    assert Regex(pattern="a|(b)", group=1, compare=True).score("", "a", "") == 0.0


def test_a_pattern_that_backtracks_ends_with_its_name(monkeypatch):
    monkeypatch.setattr(pattern, "_SECONDS", 0.05)

    with pytest.raises(ConfigError, match=r"the pattern '\(a\|a\)\*b' takes more than 0.05 s in a"):
        Regex(pattern="(a|a)*b").score("", "a" * 40, "")


def test_a_malformed_pattern_is_refused():
    with pytest.raises(ConfigError, match=r"pattern '\(' is no regular expression"):
        Regex(pattern="(")


def test_a_group_that_the_pattern_does_not_have_is_refused():
    with pytest.raises(ConfigError, match=r"group is 2, but pattern '\(a\)' has 1"):
        Regex(pattern="(a)", group=2)


def scored(reward, *rows):
    """Return the rewards of rows of tokens after a prompt token that does not count."""
    width = max(map(len, rows)) + 1
    tokens = torch.tensor([[9, *row, *[9] * (width - 1 - len(row))] for row in rows])
    mask = torch.tensor(
        [[False, *[True] * len(row), *[False] * (width - 1 - len(row))] for row in rows]
    )
    return reward(make_batch(tokens=tokens, response_mask=mask))


def test_the_share_of_repeated_n_grams():
    # Pairs 12 21 12 21 12: 2 of 5 are distinct. Pairs 12 23: all. A lone token has none.
    result = scored(Repetition(size=2, penalty=0.5), [1, 2, 1, 2, 1], [1, 2, 3], [9])

    assert result["reward"].tolist() == pytest.approx([-0.5 * (1 - 2 / 4), 0.0, 0.0])
    assert torch.equal(result["rewards", "repetition"], result["reward"])
    assert result["correct"].tolist() == [False, True, True]
    assert result["reward_valid"].all()


def test_the_defaults():
    # Of the four threes 123 231 312 123 one was there before.
    assert scored(Repetition(), [1, 2, 3, 1, 2, 3])["reward"].tolist() == [-0.25]


def test_single_tokens():
    assert repetition([1, 1, 2, 1], 1) == 0.5
    assert repetition("abab", 4) == 0.0


def test_trl_s_recorded_values(shared_data):
    lines = (shared_data / "peers" / "trl_rewards.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    mine = [row for row in rows if row["fn"] == "repetition_penalty" and row["completion_ids"]]

    assert len(mine) == 6
    for row in mine:
        size, most = row["params"]["ngram_size"], -row["params"]["max_penalty"]
        (score,) = scored(Repetition(size=size, penalty=most), row["completion_ids"])[
            "reward"
        ].tolist()
        assert score == pytest.approx(row["expected"], abs=1e-6)


def test_trl_s_soft_overlong_punishment(shared_data):
    lines = (shared_data / "peers" / "trl_rewards.jsonl").read_text("utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["fn"] == "soft_overlong"]

    assert len(rows) == 3
    for row in rows:
        given = row["params"]
        shaping = SoftOverlong(
            max_length=given["max_completion_len"], buffer=given["soft_punish_cache"]
        )
        zero, one = torch.zeros(1), torch.ones(1, dtype=torch.bool)
        batch = make_batch(
            reward=zero,
            rewards={"right": zero},
            reward_valid=one,
            response_mask=torch.ones(1, row["length"], dtype=torch.bool),
        )
        assert shaping(batch)["reward"].tolist() == pytest.approx([row["expected"]])


@pytest.mark.parametrize(
    ("prompt", "response", "share"),
    [
        ("abc>", "cba", 1.0),
        ("abc>", "абв", 0.0),
        ("абв>", "abв!", 1 / 3),
        ("abв>", "ab", 1.0),
        ("aв>", "ab в", 2 / 3),
        ("ab>", "a1漢", 0.5),
    ],
)
def test_letters_in_the_script_of_the_prompt_count(prompt, response, share):
    assert ScriptConsistency().score(prompt, response, "") == pytest.approx(share)


@pytest.mark.parametrize(("prompt", "response"), [("12>", "ab"), ("ab>", "12"), ("ab>", "")])
def test_without_letters_there_is_no_verdict(prompt, response):
    assert ScriptConsistency().score(prompt, response, "") is None


ENGLISH = "The weather was good, so they all went outside."
GERMAN = "Das Wetter war gut, also gingen sie nach draußen."
CHINESE = "今天天气很好\uff0c所以他们都出去散步了\uff0c然后一起回家吃饭"


@pytest.fixture(autouse=True)
def library():
    try:
        LanguageConsistency()
    except MissingExtra as missing:
        pytest.skip(str(missing))


def letters(text):
    return sum(character.isalpha() for character in text)


def test_the_share_is_that_of_the_letters():
    mixed = f"{ENGLISH}\n{GERMAN}\n12 + 3\nalso gut"

    english, german = letters(ENGLISH), letters(GERMAN)

    assert language_share(mixed, "en") == pytest.approx(english / (english + german))
    assert language_share(mixed, "de") == pytest.approx(german / (english + german))
    assert language_share(mixed, "fr") == 0.0


def test_a_line_of_twenty_letters_counts():
    line = "Das Wetter ist nicht gut"

    assert letters(line) == 20
    assert language_share(f"{ENGLISH}\n{line}", "de") == pytest.approx(20 / (20 + letters(ENGLISH)))
    assert language_share(f"{ENGLISH}\n{line[:-1]}", "de") == 0.0


def test_chinese_is_one_language():
    assert detect_language(CHINESE) in ("zh-cn", "zh-tw")
    assert language_share(CHINESE, "zh") == 1.0


def test_short_texts_are_judged_as_a_whole():
    assert language_share("Das ist ja\ngar nicht wahr", "de") == 1.0
    assert language_share("12 + 3", "en") is None
    assert detect_language("12") is None


def test_short_lines_hide_no_other_language():
    # 12 lines of 12 letters each, none long enough alone, after one in English.
    line = "今天天气很好所以他们出去"
    text = "\n".join([ENGLISH, *[line] * 12])

    assert letters(line) == 12
    assert language_share(text, "en") == pytest.approx(letters(ENGLISH) / (letters(ENGLISH) + 144))


@pytest.mark.parametrize("text", ["https://example.com/about", "ada@example.com", "ᚠᚢᚦᚨᚱᚲ"])
def test_letters_of_unknown_language_are_in_no_language(text):
    assert detect_language(text) is None
    assert language_share(text, "en") == 0.0


def test_the_same_text_has_always_the_same_language():
    assert len({detect_language("no die in un do") for _ in range(8)}) == 1


def test_a_column_overrides_the_argument():
    row = {"prompt": "", "answer": "", "response": GERMAN}

    assert LanguageConsistency().score_row(row) == 0.0
    assert LanguageConsistency(language="de").score_row(row) == 1.0
    assert LanguageConsistency().score_row(row | {"language": "de"}) == 1.0
    assert LanguageConsistency().score_row(row | {"response": "5"}) is None
