"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.collector.branching import BranchingCollector as BranchingCollector
from components.collector.branching import VineCollector as VineCollector
from components.collector.delay import DelayedCollector as DelayedCollector
from components.collector.episodes import EpisodeCollector as EpisodeCollector
from components.collector.episodes import SelfPlayCollector as SelfPlayCollector
from components.collector.episodes import ShuffledAnchors as ShuffledAnchors
from components.collector.flow_samples import FlowSamples as FlowSamples
from components.collector.group import GreedyBaselineCollector as GreedyBaselineCollector
from components.collector.group import GroupCollector as GroupCollector
from components.collector.mask_game import MaskGame as MaskGame
from components.collector.revision import Revised as Revised
from components.collector.search import SearchCollector as SearchCollector
from components.collector.steps import ActionEpisodes as ActionEpisodes
from components.collector.steps import GoalStepCollector as GoalStepCollector
from components.collector.steps import GymnasiumCollector as GymnasiumCollector
from components.collector.steps import StepCollector as StepCollector
