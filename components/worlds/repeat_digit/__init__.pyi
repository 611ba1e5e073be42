"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.repeat_digit.task import RepeatDigit as RepeatDigit
