"""Messages about fields of a file that are not what they should be."""

import pytest

from rlcomp.errors import CheckpointError
from rlcomp.io.fields import names


@pytest.mark.parametrize(
    ("state", "shown"), [(10**60 - 1, "9" * 60), (-(10**60), "a huge number"), (None, "None")]
)
def test_what_is_no_mapping_is_shown_as_far_as_it_can_be(state, shown):
    with pytest.raises(CheckpointError, match=f"^the state is {shown}: must be a mapping$"):
        names(state, ("a",))
