"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.maze.environment import MazeEnvironment as MazeEnvironment
from components.worlds.maze.task import Maze as Maze
