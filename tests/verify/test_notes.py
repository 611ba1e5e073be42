import pytest

from rlcomp.verify.notes import notes_hold, notes_of


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("<n>a</n>b<n>c d</n>", "a c d"),
        ("<n>a", ""),
        ("<n>a<n>b</n>", "b"),
        ("</n>a<n></n>", ""),
        ("<n>a\nb</n>", "a\nb"),
    ],
)
def test_notes_stand_between_their_tags(text, notes):
    assert notes_of(text, "n") == notes


def test_a_tag_is_no_pattern():
    assert notes_of("<a>x</a><.>y</.>", ".") == "y"


def test_the_answer_is_held_as_whole_words():
    assert notes_hold("<n>He was born</n><n>in 2013.</n>", "n", ["born in"])
    assert not notes_hold("<n>known</n>", "n", ["no"])
    assert notes_hold("<n>known</n>", "n", ["no", "known"])
    assert not notes_hold("<n></n>", "n", ["", " "])
