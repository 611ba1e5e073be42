"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.ring.gaussians import ModeDistance as ModeDistance
from components.worlds.ring.gaussians import RingOfGaussians as RingOfGaussians
