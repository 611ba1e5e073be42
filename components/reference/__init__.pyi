"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.reference.adapter_off import AdapterOffReference as AdapterOffReference
from components.reference.columns import ColumnReference as ColumnReference
from components.reference.frozen import FrozenReference as FrozenReference
from components.reference.frozen import LiveReference as LiveReference
from components.reference.frozen import RefreshedReference as RefreshedReference
from components.reference.pretrained import PretrainedReference as PretrainedReference
from components.reference.reprompted import RepromptedReference as RepromptedReference
from components.reference.teacher import DomainTeachers as DomainTeachers
from components.reference.teacher import SpanTeacher as SpanTeacher
from components.reference.teacher import TeacherReference as TeacherReference
