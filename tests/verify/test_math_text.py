"""Signs and commands as plain text, each by hand."""

import pytest

from rlcomp.verify.math_text import plain_math


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\uff11\uff12", "12"),
        ("\u22125", "-5"),
        ("1\u20132", "1-2"),
        ("2\u00d73\u00f74", "2*3/4"),
        ("1\u00a0000", "1 000"),
        ("1\u2009000\u202f000", "1000000"),
        ("x \u2192 5", "x   5"),
        ("x \u21d2 5", "x   5"),
        ("\u2234 5", "  5"),
        ("\u223c5 \u301c5 \uff5e5", "~5 ~5 ~5"),
        ("$5$", "5"),
        ("&lt;5", "<5"),
        ("<<1+1=2>>2", " 2"),
        ("<b>5</b> <|end|>", " 5   "),
        ("1 +/- 2", "1 ± 2"),
        (r"1\,000 1{,}000 5\%", "1000 1,000 5%"),
        (r"5^\circ 5^{\circ}", "5° 5°"),
        (r"\frac12 \dfrac{3}{4}", " 1/2  3/4"),
        ("**5**", "5"),
        (r"2\times3\div4", "2*3/4"),
        (r"a\leq5\neq6", "a≤5≠6"),
        (r"a\rightarrow5", "a 5"),
        (r"a\implies5", "a 5"),
        (r"\text{m}5", "  m 5"),
        (r"\exists5", "≠5"),
        ("m^2 x_1 x^{10}", "m x x"),
    ],
)
def test_each_sign_has_one_plain_form(text, plain):
    assert plain_math(text) == plain


def test_neighbours_of_known_signs_are_unchanged():
    for known in ("\u2192", "\u21d2", "\u2234", "\u223c", "\u301c", "\uff5e"):
        after = chr(ord(known) + 1)
        assert plain_math(f"a{after}5") != plain_math(f"a{known}5")
