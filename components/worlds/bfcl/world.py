"""Simulated services of an episode of BFCL's multi-turn data, and its solution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from components.worlds.bfcl.calculator import MathService
from components.worlds.bfcl.file_system import FileSystem
from components.worlds.bfcl.messages import Messages
from components.worlds.bfcl.posting import Posting
from components.worlds.bfcl.service import Result, call_function
from components.worlds.bfcl.tickets import Tickets
from components.worlds.bfcl.trading import Trading
from components.worlds.bfcl.travel import Travel
from components.worlds.bfcl.vehicle import Vehicle
from rlcomp.episodes.tool_calls import ToolCall, parse_python_calls
from rlcomp.errors import DataError

# BFCL's classes by name.
SERVICES = {
    "GorillaFileSystem": FileSystem,
    "MathAPI": MathService,
    "MessageAPI": Messages,
    "TicketAPI": Tickets,
    "TradingBot": Trading,
    "TravelAPI": Travel,
    "TwitterAPI": Posting,
    "VehicleControlAPI": Vehicle,
}


class World:
    """Services of an episode.

    Args:
        classes: BFCL's names of the services (``involved_classes``).
        config: initial state of each (``initial_config``).
        excluded: functions that cannot be called (``excluded_function``).

    Raises:
        DataError: a class is not simulated.
    """

    def __init__(
        self, classes: Iterable[str], config: Mapping[str, Any], excluded: Sequence[str] = ()
    ) -> None:
        names = sorted(classes)
        if unknown := [name for name in names if name not in SERVICES]:
            raise DataError(f"involved_classes: {unknown[0]} is not simulated: {[*SERVICES]} are")
        self.services = {name: SERVICES[name](config.get(name) or {}) for name in names}
        self.functions = {
            name: function
            for service in self.services.values()
            for name, function in service.functions().items()
            if name not in excluded
        }

    def call(self, call: ToolCall) -> Result:
        """Return the answer of a function, ``{"error": ...}`` if it refuses."""
        return call_function(self.functions, call)

    def state(self) -> dict[str, Any]:
        """Return the state of each service, not a copy."""
        return {name: service.state for name, service in self.services.items()}

    def snapshot(self) -> dict[str, object]:
        """Return a copy of all that answers depend on."""
        return {name: service.snapshot() for name, service in self.services.items()}


class Gold(NamedTuple):
    """Solution of an episode.

    Attributes:
        state: state of each service after the ground truth.
        values: answers of the last turn's calls that change nothing: the turn asks for them, and
            the state does not show whether they were made.
    """

    state: dict[str, Any]
    values: list[Result]


def run_gold(world: World, ground_truth: Sequence[Sequence[str]]) -> Gold:
    """Make the calls of the ground truth and return the solution.

    Args:
        world: the world at the begin of the episode; it is changed.
        ground_truth: calls in Python's notation, by turn.

    Raises:
        DataError: a call cannot be read or is refused.
    """
    values: list[Result] = []
    for number, turn in enumerate(ground_truth):
        for text in turn:
            before = world.snapshot()
            result = _answer(world, text)
            if number + 1 == len(ground_truth) and world.snapshot() == before:
                values.append(result)
    return Gold(world.state(), values)


def _answer(world: World, text: str) -> Result:
    calls = parse_python_calls(text)
    if isinstance(calls, str) or len(calls) != 1:
        raise DataError(f"ground_truth: {text!r:.80} is not one call")
    result = world.call(calls[0])
    if "error" in result:
        raise DataError(f"ground_truth: {text!r:.80} is refused: {result['error']}")
    return result
