"""Templates with fields in braces."""

import pytest

from rlcomp.data.template import check_wording, field_names
from rlcomp.errors import ConfigError


def test_doubled_braces_are_braces():
    assert field_names("response", "{a}{{b}}{{{c}}}", "") == {"a", "c"}


@pytest.mark.parametrize("template", ["{a", "a}", "{a}}"])
def test_a_brace_that_is_left_open_is_refused(template):
    with pytest.raises(ConfigError, match=r"response '.*': .*; write '{{' and '}}' for braces"):
        field_names("response", template, "{a}")


@pytest.mark.parametrize("template", ["{}", "{0}", "{a.b}", "{a[0]}", "{a!r}", "{a:>3}"])
def test_a_field_is_no_more_than_a_name(template):
    with pytest.raises(ConfigError, match=r"only {a} are filled in, not {"):
        field_names("response", template, "{a}")


def test_fields_may_be_left_out_unless_they_are_needed():
    check_wording("template", "{a}", fields=["a", "b"], needed=["a"])

    with pytest.raises(ConfigError, match=r"template '{b}' lacks {a}"):
        check_wording("template", "{b}", fields=["a", "b"], needed=["a"])


def test_an_unknown_field_is_named_with_the_nearest():
    with pytest.raises(ConfigError, match=r"names {thougt}; did you mean 'thought'\?"):
        check_wording("response", "{thougt}", fields=["thought", "target"])
