"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.sampler.curriculum import Curriculum as Curriculum
from components.sampler.demonstrations import Demonstrations as Demonstrations
from components.sampler.difficulty_pools import DifficultyPools as DifficultyPools
from components.sampler.labels import LabelledAnswers as LabelledAnswers
from components.sampler.labels import LabelledTextsSampler as LabelledTextsSampler
from components.sampler.labels import Rankings as Rankings
from components.sampler.labels import RatedAnswers as RatedAnswers
from components.sampler.labels import StepLabels as StepLabels
from components.sampler.pairs import Pairs as Pairs
from components.sampler.pools import TaskPools as TaskPools
from components.sampler.prompts import Epochs as Epochs
from components.sampler.prompts import Points as Points
from components.sampler.prompts import Uniform as Uniform
from components.sampler.task_curriculum import Families as Families
from components.sampler.task_curriculum import Frontier as Frontier
