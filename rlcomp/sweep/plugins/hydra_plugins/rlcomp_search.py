"""Our part of the namespace package ``hydra_plugins``, the only source of Hydra's plugins."""

from rlcomp.sweep.grid import Grid
from rlcomp.sweep.search import Search


class OptunaSearch(Search):
    """Sweeper of ``hydra/sweeper=optuna``."""


class BasicSweeper(Grid):
    """Sweeper of ``hydra/sweeper=basic``."""
