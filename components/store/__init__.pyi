"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.store.collected import Collected as Collected
from components.store.collected import CollectedPairs as CollectedPairs
from components.store.replay import Replay as Replay
from components.store.replay import ReplayPairs as ReplayPairs
