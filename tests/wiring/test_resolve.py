"""Checks of a config as a whole."""

from rlcomp.wiring.resolve import added


def test_what_is_added_at_the_root_is_found_however_it_is_written():
    words = ["+a=1", "++b=1", "+c.d=1", "+a=2", "e=1", "~f", "+g@h=1", "+i/j=1"]

    assert added(words) == ["a", "b", "c"]


def test_an_option_of_none_is_told_as_the_cause():
    from rlcomp.wiring.resolve import as_written

    told = "stage kl reads 'ref_log_probs', which no earlier stage writes: choose reference=frozen"

    assert as_written(told, ["seed=0"]) == told
    assert "which reference=none leaves out: choose" in as_written(told, ["reference=none"])
