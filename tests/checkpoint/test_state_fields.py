"""Messages about fields of a file that are not what they should be."""

from functools import partial

import pytest

from rlcomp.checkpoint.state_fields import count_field, names, seed_field
from rlcomp.errors import CheckpointError


@pytest.mark.parametrize(
    ("state", "shown"), [(10**60 - 1, "9" * 60), (-(10**60), "a huge number"), (None, "None")]
)
def test_what_is_no_mapping_is_shown_as_far_as_it_can_be(state, shown):
    with pytest.raises(CheckpointError, match=f"^the state is {shown}: must be a mapping$"):
        names(state, ("a",))


@pytest.mark.parametrize(
    ("read", "largest"), [(count_field, 2**63 - 1), (partial(seed_field, name="n"), 2**64 - 1)]
)
def test_counts_and_seeds_are_whole_numbers_that_a_run_can_have(read, largest):
    for value in (0, 7, largest):
        assert read({"n": value}, name="n") == value
    for state in ({}, *({"n": value} for value in (-1, largest + 1, 1.0, True, None, "1"))):
        with pytest.raises(CheckpointError, match="'n' is "):
            read(state, name="n")
