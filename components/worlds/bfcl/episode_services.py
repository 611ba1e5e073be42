"""Simulated services of an episode of BFCL's multi-turn data, and the episode's solution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from components.worlds.bfcl.calculator import MathService
from components.worlds.bfcl.file_system import FileSystemService
from components.worlds.bfcl.messages import MessageService
from components.worlds.bfcl.posting import MicroblogService
from components.worlds.bfcl.service import Result, call_function
from components.worlds.bfcl.tickets import TicketService
from components.worlds.bfcl.trading import TradingService
from components.worlds.bfcl.travel import TravelService
from components.worlds.bfcl.vehicle import VehicleService
from rlcomp.episodes.tool_calls import ToolCall, parse_python_calls
from rlcomp.errors import DataError

# Simulated services by the name of BFCL's class.
SERVICES = {
    "GorillaFileSystem": FileSystemService,
    "MathAPI": MathService,
    "MessageAPI": MessageService,
    "TicketAPI": TicketService,
    "TradingBot": TradingService,
    "TravelAPI": TravelService,
    "TwitterAPI": MicroblogService,
    "VehicleControlAPI": VehicleService,
}


class EpisodeServices:
    """Services of an episode.

    Args:
        classes: BFCL's names of the services (``involved_classes``).
        config: initial state of each service, by name (``initial_config``).
        excluded: functions that cannot be called (``excluded_function``).

    Raises:
        DataError: a class is not simulated.
    """

    def __init__(
        self, classes: Iterable[str], config: Mapping[str, Any], excluded: Sequence[str] = ()
    ) -> None:
        names = sorted(classes)
        if unknown := [name for name in names if name not in SERVICES]:
            raise DataError(
                f"involved_classes: {unknown[0]} is not simulated; use episodes whose classes are "
                f"among {', '.join(SERVICES)}"
            )
        self.services = {name: SERVICES[name](config.get(name) or {}) for name in names}
        self.functions = {
            name: function
            for service in self.services.values()
            for name, function in service.functions().items()
            if name not in excluded
        }

    def call(self, call: ToolCall) -> Result:
        """Return the answer of a function, or ``{"error": message}`` if the call fails."""
        return call_function(self.functions, call)

    def state(self) -> dict[str, Any]:
        """Return the state of each service by name; the states are no copies."""
        return {name: service.state for name, service in self.services.items()}

    def snapshot(self) -> dict[str, object]:
        """Return a copy of everything that answers depend on, by service."""
        return {name: service.snapshot() for name, service in self.services.items()}


class GoldSolution(NamedTuple):
    """Solution of an episode.

    Attributes:
        state: state of each service after the ground truth.
        values: answers of the last turn's calls that change nothing. The state does not show
            whether such calls were made.
    """

    state: dict[str, Any]
    values: list[Result]


def run_gold(services: EpisodeServices, ground_truth: Sequence[Sequence[str]]) -> GoldSolution:
    """Make the calls of the ground truth and return the solution.

    Args:
        services: services at the beginning of the episode; the calls change them.
        ground_truth: calls of each turn in Python's notation.

    Raises:
        DataError: a text is not one call, or a call fails.
    """
    values: list[Result] = []
    for number, turn in enumerate(ground_truth):
        for text in turn:
            before = services.snapshot()
            result = _run_call(services, text)
            if number + 1 == len(ground_truth) and services.snapshot() == before:
                values.append(result)
    return GoldSolution(services.state(), values)


def _run_call(services: EpisodeServices, text: str) -> Result:
    calls = parse_python_calls(text)
    if isinstance(calls, str) or len(calls) != 1:
        raise DataError(f"ground_truth: {text!r:.80} is not one call")
    result = services.call(calls[0])
    if "error" in result:
        raise DataError(f"ground_truth: {text!r:.80} is refused: {result['error']}")
    return result
