"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.replay.goals import EpisodeRows as EpisodeRows
from components.replay.goals import ExtendGoals as ExtendGoals
from components.replay.goals import ReplayDraw as ReplayDraw
from components.replay.goals import SampleFuture as SampleFuture
from components.replay.goals import SampleHindsight as SampleHindsight
from components.replay.memory_mapped import MemoryMappedReplay as MemoryMappedReplay
from components.replay.prioritized import PrioritizedReplay as PrioritizedReplay
from components.replay.prioritized import Reprioritise as Reprioritise
from components.replay.stages import Extend as Extend
from components.replay.stages import ExtendInterventions as ExtendInterventions
from components.replay.stages import ExtendLabelled as ExtendLabelled
from components.replay.stages import Sample as Sample
from components.replay.stages import SampleHalfHalf as SampleHalfHalf
from components.replay.stages import SampleLabelled as SampleLabelled
from components.replay.stages import ShuffledRewards as ShuffledRewards
from components.replay.uniform import UniformReplay as UniformReplay
