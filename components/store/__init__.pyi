"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.store.collected import CollectedAnswers as CollectedAnswers
from components.store.collected import CollectedPairs as CollectedPairs
from components.store.replay import AnswerReplay as AnswerReplay
from components.store.replay import PairReplay as PairReplay
