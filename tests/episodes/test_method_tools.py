import json

import pytest

from rlcomp.episodes.tool_calls import ToolCall
from rlcomp.episodes.tool_execution import bind, call_method, public_methods, schema_lines
from rlcomp.errors import ConfigError
from rlcomp.interfaces.tool import ToolError


class Shop:
    def buy(self, what: str, many: int = 1) -> str:
        """Buy.

        Args:
            what: The ware.
            many: How many.
        """
        if many > 9:
            raise ValueError("sold out")
        return f"{many} {what}"

    def burn(self):
        raise RuntimeError("fire")

    def _count(self): ...

    @property
    def owner(self):
        raise AssertionError


METHODS = public_methods(Shop())


def test_methods_are_those_that_are_public():
    assert [*METHODS] == ["burn", "buy"]


def test_an_asynchronous_method_is_refused():
    class Later:
        async def look(self): ...

    with pytest.raises(ConfigError, match=r"Later\.look is asynchronous"):
        public_methods(Later())


@pytest.mark.parametrize(
    ("call", "told", "failed"),
    [
        (ToolCall("buy", {"what": "figs"}), "1 figs", False),
        (ToolCall("buy", {"many": 3}, ("figs",)), "3 figs", False),
        (ToolCall("buy", {"what": "figs", "many": 10}), "Error: sold out", True),
        (ToolCall("buy", {"what": 4}), "Error: what must be a text, not 4", True),
        (ToolCall("buy", {}), "Error: buy: missing a required argument: 'what'", True),
        (ToolCall("sell", {}), "Error: there is no tool 'sell': burn, buy", True),
    ],
)
def test_what_a_call_is_told(call, told, failed):
    assert call_method(METHODS, call) == (told, failed)


def test_any_other_exception_is_the_environments_own():
    with pytest.raises(RuntimeError, match="fire"):
        call_method(METHODS, ToolCall("burn", {}))


def test_arguments_that_do_not_fit_are_refused():
    with pytest.raises(ToolError, match="buy: got an unexpected keyword argument 'x'"):
        bind(METHODS["buy"], ToolCall("buy", {"what": "figs", "x": 1}))


def test_a_schema_a_line():
    (line,) = schema_lines({"buy": METHODS["buy"]}).splitlines()

    function = json.loads(line)["function"]
    assert (function["name"], function["description"]) == ("buy", "Buy.")
    assert function["parameters"]["required"] == ["what"]


def test_an_argument_called_self_is_an_error_that_is_told():
    class Peer:
        def note(self, **entries):
            return str(entries)

    methods = public_methods(Peer())

    assert call_method(methods, ToolCall("note", {"a": 1})) == ("{'a': 1}", False)
    told, failed = call_method(methods, ToolCall("note", {"self": 1}))
    assert failed
    assert told.startswith("Error: note: multiple values for argument 'self'")
