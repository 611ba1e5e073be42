"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.addition.task import Addition as Addition
