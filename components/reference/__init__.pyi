"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.reference.columns import ColumnReference as ColumnReference
from components.reference.frozen import AdapterOffReference as AdapterOffReference
from components.reference.frozen import FrozenReference as FrozenReference
from components.reference.frozen import LiveReference as LiveReference
from components.reference.frozen import PretrainedReference as PretrainedReference
from components.reference.frozen import RefreshedReference as RefreshedReference
from components.reference.teacher import DomainTeachers as DomainTeachers
from components.reference.teacher import SpanTeacher as SpanTeacher
from components.reference.teacher import TeacherReference as TeacherReference
from components.reference.teacher_prompt import RepromptedReference as RepromptedReference
