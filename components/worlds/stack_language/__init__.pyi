"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.stack_language.interpreter import ProgramError as ProgramError
from components.worlds.stack_language.reward import StackProgram as StackProgram
from components.worlds.stack_language.task import ProgramRepair as ProgramRepair
from components.worlds.stack_language.tool import StackInterpreter as StackInterpreter
