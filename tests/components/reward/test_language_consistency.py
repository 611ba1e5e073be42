import pytest

from components.reward.surface import LanguageConsistency
from rlcomp.errors import MissingExtra
from rlcomp.verify.language import detect_language, language_share

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
    # 12 lines of 12 letters each, none long enough to be judged alone, behind one in English.
    line = "今天天气很好所以他们出去"
    text = "\n".join([ENGLISH, *[line] * 12])

    assert letters(line) == 12
    assert language_share(text, "en") == pytest.approx(letters(ENGLISH) / (letters(ENGLISH) + 144))


@pytest.mark.parametrize("text", ["https://example.com/about", "ada@example.com", "ᚠᚢᚦᚨᚱᚲ"])
def test_letters_that_tell_no_language_are_in_none(text):
    assert detect_language(text) is None
    assert language_share(text, "en") == 0.0


def test_the_same_text_has_always_the_same_language():
    assert len({detect_language("no die in un do") for _ in range(8)}) == 1


def test_a_column_goes_before_the_argument():
    row = {"prompt": "", "answer": "", "response": GERMAN}

    assert LanguageConsistency().score_row(row) == 0.0
    assert LanguageConsistency(language="de").score_row(row) == 1.0
    assert LanguageConsistency().score_row(row | {"language": "de"}) == 1.0
    assert LanguageConsistency().score_row(row | {"response": "5"}) is None
