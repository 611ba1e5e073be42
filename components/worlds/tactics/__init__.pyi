"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.tactics.environment import TacticsEnvironment as TacticsEnvironment
from components.worlds.tactics.natural_deduction import Goal as Goal
from components.worlds.tactics.natural_deduction import ScriptResult as ScriptResult
from components.worlds.tactics.subgoals import Sketch as Sketch
from components.worlds.tactics.task import TacticScripts as TacticScripts
from components.worlds.tactics.task import TacticSteps as TacticSteps
from components.worlds.tactics.task import Tactics as Tactics
