"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.pairwise_judge.endpoint import EndpointPairs as EndpointPairs
from components.pairwise_judge.ensemble import Ensemble as Ensemble
from components.pairwise_judge.learned import LearnedJudge as LearnedJudge
from components.pairwise_judge.option_log_probs import OptionLogProbs as OptionLogProbs
from components.pairwise_judge.parsed import Parsed as Parsed
from components.pairwise_judge.reasoned import Reasoned as Reasoned
from components.pairwise_judge.recorded import Recorded as Recorded
from components.pairwise_judge.simulated import Simulated as Simulated
