"""What an earlier phase has to have run, of parts that are made up."""

import pytest

from rlcomp.config.checks.prerequisites import check_begun
from rlcomp.config.declare import Declaration
from rlcomp.config.finding import messages
from rlcomp.config.plan import Plan
from rlcomp.config.reader import Node
from rlcomp.errors import ConfigError

PARTS = {
    "a.Save": Declaration("a.Save", begins=True),
    "a.Back": Declaration("a.Back", begins=True, earlier=("of",)),
    "a.Uses": Declaration("a.Uses", earlier=("store",)),
    "a.Store": Declaration("a.Store", begins=False),
}
SAVE = Node("save", "a.Save")
BACK = Node("back", "a.Back", {"of": SAVE})
STORE = Node("store", "a.Store")
USES = Node("uses", "a.Uses", {"store": STORE})
UNKNOWN = Node("unknown", "x.Gone")


class Phase:
    """Actions at its beginning, stages, and how many steps."""

    every = {}

    def __init__(self, *stages, begin=(), steps=1):
        self.on_begin, self.stages, self.steps = list(begin), list(stages), steps

    def lists(self):
        return [self.stages]


@pytest.fixture(autouse=True)
def declared(monkeypatch):
    def declare(target):
        if target not in PARTS:
            raise ConfigError("it is not there")
        return PARTS[target]

    monkeypatch.setattr("rlcomp.config.declare.declare", declare)


def faults(**phases):
    return messages(check_begun(Plan({}, {}, phases)))


def test_what_was_run_before_may_be_needed():
    assert faults(one=Phase(begin=[SAVE]), two=Phase(begin=[BACK])) == []
    assert faults(one=Phase(begin=[SAVE, BACK])) == []
    assert faults(one=Phase(STORE), two=Phase(USES)) == []
    assert faults(one=Phase(), two=Phase(UNKNOWN)) == []


def test_what_no_phase_before_has_run_is_told():
    (told,) = faults(one=Phase(begin=[BACK, SAVE]))
    assert "phases.one.on_begin: back" in told
    assert "needs save, but no earlier phase runs it" in told
    assert "phases.one.after=..." in told
    (told,) = faults(one=Phase(STORE, USES), two=Phase(USES))
    assert told.startswith("phases.one: uses")
    assert "phases.one.after=..." in told


def test_a_phase_of_no_steps_has_run_nothing():
    (told,) = faults(one=Phase(STORE, steps=0), two=Phase(USES))

    assert told.startswith("phases.two: uses")


def test_what_does_nothing_when_a_phase_begins_is_told():
    (told,) = faults(one=Phase(begin=[STORE]))
    assert "phases.one.on_begin: store (Store) does nothing when a phase begins" in told
    assert faults(one=Phase(begin=[UNKNOWN])) == []  # told by the check of arguments
