"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.lookup.environment import LookupTool as LookupTool
from components.worlds.lookup.environment import PaidLookupTool as PaidLookupTool
from components.worlds.lookup.task import Lookup as Lookup
