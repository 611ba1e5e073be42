"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.pairwise_judge.endpoint import EndpointPairJudge as EndpointPairJudge
from components.pairwise_judge.ensemble import JudgeEnsemble as JudgeEnsemble
from components.pairwise_judge.learned import LearnedJudge as LearnedJudge
from components.pairwise_judge.option_log_probs import OptionLogProbJudge as OptionLogProbJudge
from components.pairwise_judge.parsed import ParsedJudge as ParsedJudge
from components.pairwise_judge.reasoned import ReasoningJudge as ReasoningJudge
from components.pairwise_judge.recorded import RecordedJudge as RecordedJudge
from components.pairwise_judge.simulated import SimulatedJudge as SimulatedJudge
