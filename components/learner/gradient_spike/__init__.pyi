"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.learner.gradient_spike.median import MedianSpike as MedianSpike
