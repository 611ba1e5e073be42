import hashlib

import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.seed import named_seed, new_generator, seeded


def test_a_seed_is_the_first_63_bits_of_sha256_of_seed_and_path():
    digest = hashlib.sha256(b"3/learner").hexdigest()

    assert named_seed(3, "learner") == int(digest[:16], 16) >> 1


@given(st.integers(), st.text(st.characters(codec="utf-8")))
def test_a_seed_fits_a_generator(seed, path):
    value = named_seed(seed, path)

    assert 0 <= value < 2**63
    torch.Generator().manual_seed(value)


def test_a_node_draws_the_same_whatever_was_drawn_before():
    draws = []
    for before in (0, 100):
        torch.rand(before)
        with seeded(0, "policy"):
            draws.append(torch.rand(4))

    assert torch.equal(*draws)


def test_nodes_draw_differently():
    with seeded(0, "policy"):
        first = torch.rand(4)
    with seeded(0, "critic"):
        second = torch.rand(4)

    assert not torch.equal(first, second)


def test_construction_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)

    torch.manual_seed(5)
    with seeded(0, "policy"):
        torch.rand(10)

    assert torch.equal(torch.rand(3), expected)


def test_a_new_generator_follows_the_construction_in_progress():
    with seeded(0, "policy"):
        first = torch.rand(3, generator=new_generator())
        torch.rand(7)
        second = torch.rand(3, generator=new_generator())
    with seeded(1, "policy"):
        third = torch.rand(3, generator=new_generator())

    assert torch.equal(first, second)
    assert not torch.equal(first, third)
