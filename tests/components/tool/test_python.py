"""The Python tool: what a program prints is told; what a hostile one does costs its own turn."""

import pytest

from components.environment.tools import Tools
from components.tool import PythonInterpreter, _get_runner
from rlcomp.arguments import Unbuilt
from rlcomp.episodes.host import Start
from rlcomp.episodes.in_process import InProcessHosts
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.interfaces.tool import ToolError


@pytest.fixture
def python(sandbox):
    return lambda **settings: PythonInterpreter(sandbox=sandbox, **settings)


def test_what_is_printed_is_told_and_the_value_of_a_last_expression(python):
    tool = python()

    assert tool("print(6 * 7)") == "42"
    assert tool("x = 6\nprint(x)\nx * 7") == "6\n42"
    assert tool("x = 6") == tool("None") == ""


def test_nothing_is_remembered(python):
    tool = python()
    tool("x = 1")

    with pytest.raises(ToolError, match=r"^NameError: name 'x' is not defined$"):
        tool("x")


def test_the_last_line_of_an_error_is_told(python):
    with pytest.raises(ToolError, match=r"^ValueError: two lines$"):
        python()("print(1)\nraise ValueError('two\\nlines')")
    with pytest.raises(ToolError, match=r"^SyntaxError: '\(' was never closed"):
        python()("(")
    # Half a character, which no tokenizer could write, would break the episode.
    with pytest.raises(ToolError, match=r"^ValueError: \?$"):
        python()("raise ValueError('\\ud800')")


def test_what_is_told_is_cut_and_names_no_address(python):
    assert python(longest=3)("print('abcde')") == "abc"
    assert python()("object()") == "<object object at 0x...>"


HOSTILE = {
    "while True: pass": "0.5 s",
    "import time; time.sleep(60)": "not done after 0.5 s",
    "import os\nwhile True: os.fork()": "PermissionError",
    "open('/etc/passwd').read()": "FileNotFoundError",
    "open('/proc/self/environ').read()": "FileNotFoundError",
    "open('/x', 'w')": "Error",
    "print('ab' * 500_000)": "ababab",
    "while True: print('ab' * 500_000)": "more than 1048576 bytes",
    "'a' * 10**10": "more than 134217728 bytes",
    "import os; os.kill(os.getpid(), 11)": "killed by SIGSEGV",
    "import socket; socket.create_connection(('127.0.0.1', 80))": "Error",
    "import sys; sys.exit(7)": "exit code 7",
    "print('<' + '/information>')": "<information>/information>",
}


def test_a_hostile_program_costs_its_own_observation(python):
    def make():
        return Tools(tools={"python": lambda: python(timeout=0.5, memory_mib=128)})

    host = InProcessHosts().host(make)
    host.open([Start(Example("?", "", ""), 0)] * (len(HOSTILE) + 1))
    programs = [*HOSTILE, "6 * 7"]

    turns = host.step({n: f"<python>{each}</python>" for n, each in enumerate(programs)})

    for turn, (program, told) in zip(turns.values(), HOSTILE.items(), strict=False):
        assert told in turn.observation, program
        assert len(turn.observation) < 1100
    assert turns[len(HOSTILE)].observation == "<information>42"
    again = host.step({n: "<python>6 * 7</python>" for n in turns})
    assert {turn.observation for turn in again.values()} == {"<information>42"}
    assert [facts["calls"] for facts in host.facts()] == [2.0] * len(programs)


def test_a_description_of_the_sandbox_makes_one_for_the_process(sandbox):
    described = Unbuilt("rlcomp.sandbox.sandbox.Sandbox", {"workers": 1, "min_tier": "strict"})

    first, second = (PythonInterpreter(sandbox=described) for _ in range(2))

    assert (first("1 + 1"), second("1 + 2")) == ("2", "3")
    assert _get_runner(first.sandbox) is _get_runner(second.sandbox)


def test_a_machine_without_walls_is_refused_before_the_first_call():
    weak = Unbuilt("rlcomp.sandbox.sandbox.Sandbox", {"min_tier": "none"})

    with pytest.raises(ConfigError, match=r"sandbox\.min_tier='none'"):
        PythonInterpreter(sandbox=weak)
