"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.point_maze.experts import ClumsyReacher as ClumsyReacher
from components.worlds.point_maze.experts import UMazeGuide as UMazeGuide
from components.worlds.point_maze.reach import Reach as Reach
from components.worlds.point_maze.u_maze import UMaze as UMaze
