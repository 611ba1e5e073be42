"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.reference.adapter_off import AdapterOff as AdapterOff
from components.reference.columns import FromColumns as FromColumns
from components.reference.frozen import Frozen as Frozen
from components.reference.frozen import FrozenFull as FrozenFull
from components.reference.frozen import LiveFull as LiveFull
from components.reference.frozen import Refreshed as Refreshed
from components.reference.frozen import RefreshedFull as RefreshedFull
from components.reference.pretrained import Pretrained as Pretrained
from components.reference.reprompted import Reprompted as Reprompted
from components.reference.teacher import Teacher as Teacher
from components.reference.teacher import TeacherBySpans as TeacherBySpans
from components.reference.teacher import TeacherFull as TeacherFull
from components.reference.teacher import Teachers as Teachers
from components.reference.teacher import TeachersFull as TeachersFull
