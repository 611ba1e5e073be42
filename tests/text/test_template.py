import pytest

from rlcomp.errors import ConfigError
from rlcomp.text.template import Template


def test_a_field_within_a_value_is_not_replaced():
    template = Template("Judge", "{a}{b}{c}{", required=("a", "b"), optional=("d",))

    assert template.fill({"a": "{b}", "b": "{a}", "d": "d"}) == "{b}{a}{c}{"


def test_an_optional_field_is_filled():
    assert Template("Judge", "{a}{d}", required=("a",), optional=("d",)).fill(
        {"a": "1", "d": "2"}
    ) == ("12")


def test_a_template_without_a_required_field_raises():
    with pytest.raises(ConfigError, match=r"Judge: template 'a' must hold \{a\}"):
        Template("Judge", "a", required=("a",))
