"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.median.task import Median as Median
