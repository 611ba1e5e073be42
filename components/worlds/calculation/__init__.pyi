"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.calculation.task import Calculation as Calculation
