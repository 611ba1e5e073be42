"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.track.environment import Track as Track
from components.worlds.track.environment import TrackDriver as TrackDriver
