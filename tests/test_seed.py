import hashlib

import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.seed import named_seed, new_generator, next_request, seeded


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


def test_what_a_request_draws_follows_from_the_first_seed_and_its_number():
    found = []
    for drawn in ((0, 0, 0), (5, 1, 900)):  # of each request
        generator = torch.Generator().manual_seed(7)
        for count in drawn:
            torch.rand(count, generator=generator)
            next_request(generator)
        found.append(torch.rand(3, generator=generator))

    # sha256 of "7/request", then of "<that>/request", and once more.
    seed = named_seed(named_seed(named_seed(7, "request"), "request"), "request")
    assert torch.equal(*found)
    assert torch.equal(found[0], torch.rand(3, generator=torch.Generator().manual_seed(seed)))


def test_the_seed_of_a_request_is_part_of_the_state_of_its_generator():
    one, other = torch.Generator().manual_seed(7), torch.Generator()
    torch.rand(5, generator=one)

    other.set_state(one.get_state())
    next_request(one)
    next_request(other)

    assert torch.equal(torch.rand(3, generator=one), torch.rand(3, generator=other))
