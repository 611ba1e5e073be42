import contextlib

import pytest
from transformers.utils import logging

from rlcomp.files.progress_bars import no_progress_bars


@pytest.mark.parametrize("enabled", [True, False])
def test_bars_are_off_inside_and_as_before_behind_it(enabled):
    before = logging.is_progress_bar_enabled()
    switch = logging.enable_progress_bar if enabled else logging.disable_progress_bar
    switch()
    try:
        with contextlib.suppress(KeyError), no_progress_bars():
            assert not logging.is_progress_bar_enabled()
            raise KeyError

        assert logging.is_progress_bar_enabled() is enabled
    finally:
        (logging.enable_progress_bar if before else logging.disable_progress_bar)()


def test_only_errors_of_a_library_are_logged_for_a_while(caplog):
    import logging

    from rlcomp.files.progress_bars import only_errors

    library = logging.getLogger("library_of_mine")
    library.setLevel(logging.INFO)

    with only_errors("library_of_mine"):
        library.warning("no kernel")
        library.error("broken")
    library.warning("seen again")

    assert caplog.messages == ["broken", "seen again"]
    assert library.level == logging.INFO
