from hypothesis import given
from hypothesis import strategies as st

from rlcomp.interfaces.task import is_held_out


@given(st.floats(0, 0.9), st.integers(0, 100))
def test_the_held_out_share_is_the_fraction(fraction, start):
    # Binomial: 1,000 prompts, standard deviation at most 16.
    held = sum(is_held_out(f"{start}/{n}", fraction) for n in range(1000))

    assert abs(held - 1000 * fraction) < 6 * 16


@given(st.text(st.characters(codec="utf-8")), st.floats(0, 0.99), st.floats(0, 0.99))
def test_a_larger_fraction_only_adds_prompts(prompt, one, other):
    low, high = sorted((one, other))

    assert is_held_out(prompt, high) or not is_held_out(prompt, low)


@given(st.text(st.characters(codec="utf-8")))
def test_nothing_is_held_out_at_fraction_0(prompt):
    assert not is_held_out(prompt, 0.0)
