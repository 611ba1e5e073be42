"""Checks of a config as a whole."""

from rlcomp.wiring.resolve import added


def test_what_is_added_at_the_root_is_found_however_it_is_written():
    words = ["+a=1", "++b=1", "+c.d=1", "+a=2", "e=1", "~f", "+g@h=1", "+i/j=1"]

    assert added(words) == ["a", "b", "c"]
