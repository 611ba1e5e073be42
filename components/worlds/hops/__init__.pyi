"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.hops.task import Hops as Hops
