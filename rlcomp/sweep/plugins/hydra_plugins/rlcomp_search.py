"""Hydra takes plugins from the namespace package ``hydra_plugins`` alone: our part of it."""

from rlcomp.sweep.grid import Grid
from rlcomp.sweep.search import Search


class OptunaSearch(Search):
    """``hydra/sweeper=optuna``."""


class BasicSweeper(Grid):
    """``hydra/sweeper=basic``."""
