from components.reward.answer import Numeric
from rlcomp.testing import check_component


def test_it_keeps_the_contract():
    check_component(Numeric(where="last"))


def test_its_arguments_reach_the_verifier():
    # 9 is not marked; 9.5 is within a tenth of 10, and within 1 of it.
    assert Numeric().score("", "9", "9") == 0.0
    assert Numeric(where="last").score("", "9", "9") == 1.0
    assert Numeric().score("", "A: 9.5", "10") == 0.0
    assert Numeric(relative=0.1).score("", "A: 9.5", "10") == 1.0
    assert Numeric(absolute=1.0).score("", "A: 9.5", "10") == 1.0
    assert Numeric().score("", "A: 9", "ten") is None
