"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.expression.task import Expression as Expression
