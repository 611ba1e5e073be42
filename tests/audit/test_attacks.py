from rlcomp.audit.attacks import (
    KINDS,
    Attack,
    answer_lists,
    blind_attacks,
    hedges,
    informed_attacks,
    wrong_answer,
)


def texts(attacks, kind):
    return [attack.answer for attack in attacks if attack.kind == kind]


def test_every_attack_is_of_a_known_kind():
    attacks = [*blind_attacks(), *informed_attacks("72", ["8"]), *informed_attacks("x+1", ["y"])]
    others = {"prompt", "misspelt", "other_response"}  # of words, and of whole rows

    assert {attack.kind for attack in attacks} | others == {*KINDS}
    assert {attack.kind for attack in informed_attacks("Rome", [])} >= {"misspelt"}


def test_blind_attacks_are_few_and_long_ones_bounded():
    found = [*blind_attacks()]

    assert texts(found, "empty") == ["", " \n\t "]
    assert [len(text) for text in texts(found, "repeated")] == [1000, 1000, 2000]
    assert [len(text) for text in texts(found, "long")] == [20_000, 20_000, 20_000, 19_998]
    assert texts(found, "nonsense") == ["zqxj vrrb", "ZQXJ", "8888888"]


def test_a_number_is_attacked_by_its_neighbours_and_by_another_row():
    found = [*informed_attacks("72", ["72.0", "8"])]

    assert texts(found, "off_by_one") == ["73", "71"]
    assert texts(found, "other_gold") == ["8"]
    assert texts(found, "denied") == ["not 72"]
    assert Attack("wrong_last", "72", "8") in found
    assert Attack("right_last", "8", "72") in found
    assert texts(found, "edited") == texts(found, "misspelt") == []


def test_a_number_is_qualified_and_a_word_only_denied():
    found = [*informed_attacks("17", [])]

    assert {r"\neq 17", "17 <", "~17", r"\exists 17", "17+"} <= {*texts(found, "related")}
    assert {"at least 17", "17 or more"} <= {*texts(found, "bounded")}
    assert {"17_8", "17_{12}", "0x17", "17₈"} <= {*texts(found, "based")}
    # 7 is 7 in base 8, and a word is in no relation.
    assert texts(informed_attacks("7", []), "based") == []
    assert texts(informed_attacks("Rome", []), "bounded") == []
    assert r"\neg Rome" in texts(informed_attacks("Rome", []), "related")
    assert "> Rome" not in texts(informed_attacks("Rome", []), "related")


def test_without_another_row_the_wrong_answer_is_made():
    found = [*informed_attacks("72", ["72"])]

    assert texts(found, "other_gold") == []
    assert Attack("wrong_last", "72", "73") in found


def test_a_formula_is_edited():
    assert texts(informed_attacks("x+1", []), "edited") == ["x+2"]
    assert wrong_answer("x+1") == "x+2"
    assert wrong_answer("Rome") == "zqxj"


def test_of_a_program_only_a_number_is_edited():
    program = "def f(x):\n    return x + 1\n"

    assert [*informed_attacks(program, ["8"])] == [
        Attack("edited", "def f(x):\n    return x + 2\n")
    ]
    assert texts(informed_attacks("72\n", ["8"]), "sign") == ["-72"]


def test_hedges_name_both_answers_in_both_orders():
    assert [attack.answer for attack in hedges("6", "7")] == [
        "6 or 7",
        "6, 7",
        "6\n7",
        "7 or 6",
        "7, 6",
        "7\n6",
        "x=7=6",
    ]
    assert "x=zqxj=a" not in [attack.answer for attack in hedges("a", "zqxj")]


def test_a_list_is_stuffed_with_gold_answers_and_small_numbers():
    around = " ".join(map(str, range(101)))

    assert [*answer_lists("2", ["3", "2"])] == ["2, 3", "3 2", around, "0, 1, 2, 3, 4"]
    # Nothing differs, and it is no number.
    assert [*answer_lists("x", ["y+1"])] == []
    assert [*answer_lists("0.5", ["1/2"])] == []
    assert [*answer_lists("101", [])] == []
    assert next(iter(answer_lists("100", []))) == around
