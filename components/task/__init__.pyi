"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.task.answer_verdicts import AnswerVerdicts as AnswerVerdicts
from components.task.benchmark import Benchmark as Benchmark
from components.task.file import File as File
from components.task.file import Hub as Hub
from components.task.hinted import Hinted as Hinted
from components.task.labelled_texts import LabelledTexts as LabelledTexts
from components.task.masked_span import MaskProposal as MaskProposal
from components.task.masked_span import MaskedSpan as MaskedSpan
from components.task.mixture import Mixture as Mixture
from components.task.next_token import AnnotatedText as AnnotatedText
from components.task.next_token import NextToken as NextToken
from components.task.preferences import Preferences as Preferences
from components.task.reasoning_gym import ReasoningGym as ReasoningGym
from components.task.seeds import Seeds as Seeds
from components.task.steps import StepLabelled as StepLabelled
from components.task.steps import StepPairs as StepPairs
from components.task.text import Documents as Documents
from components.task.text import Text as Text
