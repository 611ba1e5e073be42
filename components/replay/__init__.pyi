"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.replay.episode_rows import EpisodeRows as EpisodeRows
from components.replay.episode_rows import ReplayDraw as ReplayDraw
from components.replay.extend import Extend as Extend
from components.replay.extend import ExtendGoals as ExtendGoals
from components.replay.extend import ExtendInterventions as ExtendInterventions
from components.replay.extend import ExtendLabelled as ExtendLabelled
from components.replay.memory_mapped import MemoryMappedReplay as MemoryMappedReplay
from components.replay.prioritized import PrioritizedReplay as PrioritizedReplay
from components.replay.prioritized import Reprioritise as Reprioritise
from components.replay.sample import Sample as Sample
from components.replay.sample import SampleFuture as SampleFuture
from components.replay.sample import SampleHalfHalf as SampleHalfHalf
from components.replay.sample import SampleHindsight as SampleHindsight
from components.replay.sample import SampleLabelled as SampleLabelled
from components.replay.sample import ShuffledRewards as ShuffledRewards
from components.replay.uniform import UniformReplay as UniformReplay
