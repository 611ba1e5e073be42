"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.matrix_game.environment import MatrixGame as MatrixGame
from components.worlds.matrix_game.exploitability import Exploitability as Exploitability
from components.worlds.matrix_game.moves import MoveDemonstrations as MoveDemonstrations
