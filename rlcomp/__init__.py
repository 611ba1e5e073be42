"""rlcomp: reinforcement learning for language models and control out of named parts.

Importing it pulls in neither torch nor tensordict; the names below are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlcomp.component import Component
    from rlcomp.loss import Loss
    from rlcomp.model.language_model import LanguageModel
    from rlcomp.run.build import Make
    from rlcomp.run.phase import Phase
    from rlcomp.run.program import run_phases
    from rlcomp.run.record import progress, record

__version__ = "0.1.0"
__all__ = ["Component", "LanguageModel", "Loss", "Make", "Phase", "progress", "record", "run_phases"]

_HOME = {
    "Component": "rlcomp.component",
    "LanguageModel": "rlcomp.model.language_model",
    "Loss": "rlcomp.loss",
    "Make": "rlcomp.run.build",
    "Phase": "rlcomp.run.phase",
    "progress": "rlcomp.run.record",
    "record": "rlcomp.run.record",
    "run_phases": "rlcomp.run.program",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'rlcomp' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)
