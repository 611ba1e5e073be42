"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.learner.non_finite.skip import SkipNonFinite as SkipNonFinite
