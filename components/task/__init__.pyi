"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.task.benchmark import Benchmark as Benchmark
from components.task.composite import AnswerVerdicts as AnswerVerdicts
from components.task.composite import HintedTask as HintedTask
from components.task.composite import TaskMixture as TaskMixture
from components.task.file import FileTask as FileTask
from components.task.file import HubTask as HubTask
from components.task.labels import LabelledTexts as LabelledTexts
from components.task.labels import PreferenceTask as PreferenceTask
from components.task.masked_span import MaskProposal as MaskProposal
from components.task.masked_span import MaskedSpan as MaskedSpan
from components.task.next_token import AnnotatedText as AnnotatedText
from components.task.next_token import NextToken as NextToken
from components.task.procedural import ReasoningGymTask as ReasoningGymTask
from components.task.procedural import SeedTask as SeedTask
from components.task.steps import StepLabelTask as StepLabelTask
from components.task.steps import StepPairs as StepPairs
from components.task.text import DocumentTask as DocumentTask
from components.task.text import TextTask as TextTask
