"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.ring.distribution import RingOfGaussians as RingOfGaussians
from components.worlds.ring.reward import ModeDistance as ModeDistance
