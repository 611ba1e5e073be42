"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.planted_calls.task import FixedAnswer as FixedAnswer
from components.worlds.planted_calls.task import PlantedCalls as PlantedCalls
