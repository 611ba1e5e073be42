"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.digit_sum.task import DigitSum as DigitSum
