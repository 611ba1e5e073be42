"""Simulated services of an episode of BFCL's multi-turn data, and what is right in it."""

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
from rlcomp.episodes.tool_calls import Call, parse_python_calls
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
    """The services of an episode.

    Args:
        classes: BFCL's names of them (``involved_classes``).
        config: what each begins with (``initial_config``).
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

    def call(self, call: Call) -> Result:
        """What a function answers; ``{"error": ...}`` where it refuses."""
        return call_function(self.functions, call)

    def state(self) -> dict[str, Any]:
        """The state of each service; not a copy."""
        return {name: service.state for name, service in self.services.items()}

    def snapshot(self) -> dict[str, object]:
        """What answers depend on: a copy."""
        return {name: service.snapshot() for name, service in self.services.items()}


class Gold(NamedTuple):
    """What is right at the end of an episode.

    Attributes:
        state: of each service, after the ground truth.
        values: what those calls of the last turn answer that change nothing: the turn asks for
            them, and the state does not show whether they were made.
    """

    state: dict[str, Any]
    values: list[Result]


def run_gold(world: World, ground_truth: Sequence[Sequence[str]]) -> Gold:
    """Make the calls of the ground truth.

    Args:
        world: as the episode begins; it is changed.
        ground_truth: calls in Python's notation, by turn.

    Raises:
        DataError: one cannot be read, or is refused.
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
