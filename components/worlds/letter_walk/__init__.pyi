"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.letter_walk.task import LetterWalk as LetterWalk
