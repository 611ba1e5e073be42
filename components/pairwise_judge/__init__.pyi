"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.pairwise_judge.bradley_terry import LearnedJudge as LearnedJudge
from components.pairwise_judge.bradley_terry import SimulatedJudge as SimulatedJudge
from components.pairwise_judge.option import EndpointPairJudge as EndpointPairJudge
from components.pairwise_judge.option import OptionLogProbJudge as OptionLogProbJudge
from components.pairwise_judge.rationale import ParsedJudge as ParsedJudge
from components.pairwise_judge.rationale import ReasoningJudge as ReasoningJudge
from components.pairwise_judge.verdicts import JudgeEnsemble as JudgeEnsemble
from components.pairwise_judge.verdicts import RecordedJudge as RecordedJudge
