"""rlcomp: reinforcement learning for language models and control out of named parts.

Importing it pulls in neither torch nor tensordict; the names below are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlcomp.component import Component
    from rlcomp.generation.sampling import Sampling
    from rlcomp.io.tracking import JsonLines
    from rlcomp.loss import Loss
    from rlcomp.model.build import causal_lm
    from rlcomp.model.language_model import LanguageModel
    from rlcomp.model.schedule import Schedule
    from rlcomp.model.tokenizer import character_tokenizer
    from rlcomp.report.summary import summarise
    from rlcomp.run.build import Make
    from rlcomp.run.phase import Phase
    from rlcomp.run.program import run_phases
    from rlcomp.run.record import progress, record

__version__ = "0.1.0"

_HOME = {
    "Component": "rlcomp.component",
    "JsonLines": "rlcomp.io.tracking",
    "LanguageModel": "rlcomp.model.language_model",
    "Loss": "rlcomp.loss",
    "Make": "rlcomp.run.build",
    "Phase": "rlcomp.run.phase",
    "Sampling": "rlcomp.generation.sampling",
    "Schedule": "rlcomp.model.schedule",
    "causal_lm": "rlcomp.model.build",
    "character_tokenizer": "rlcomp.model.tokenizer",
    "progress": "rlcomp.run.record",
    "record": "rlcomp.run.record",
    "run_phases": "rlcomp.run.program",
    "summarise": "rlcomp.report.summary",
}
__all__ = [
    "Component",
    "JsonLines",
    "LanguageModel",
    "Loss",
    "Make",
    "Phase",
    "Sampling",
    "Schedule",
    "causal_lm",
    "character_tokenizer",
    "progress",
    "record",
    "run_phases",
    "summarise",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'rlcomp' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)
