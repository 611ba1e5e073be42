"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.running_sum.task import RunningSum as RunningSum
from components.worlds.running_sum.task import RunningSums as RunningSums
