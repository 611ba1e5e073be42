"""rlcomp: composable reinforcement learning for language models and control.

The import of this package loads neither torch nor tensordict. Each public name is imported from its
module on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlcomp.batch import decode_texts, encode_texts
    from rlcomp.component import Component
    from rlcomp.config.build import Make
    from rlcomp.engine.decoding import Decoding
    from rlcomp.files.json_lines import read_lines
    from rlcomp.interfaces.advantage import broadcast
    from rlcomp.interfaces.loss import Loss, RowLoss, TokenLoss
    from rlcomp.metrics import progress, record
    from rlcomp.model.build import causal_lm
    from rlcomp.model.language_model import LanguageModel
    from rlcomp.model.optimizer import Schedule
    from rlcomp.report.summary import summarise
    from rlcomp.run.parts import build, load, save
    from rlcomp.run.phase import Phase
    from rlcomp.run.program import run_phases
    from rlcomp.text.answers import answer_prompts
    from rlcomp.text.tokenizer import character_tokenizer
    from rlcomp.trackers.tracker import JsonLines

__version__ = "0.2.0.dev0"

# Module of each public name.
_MODULES = {
    "Component": "rlcomp.component",
    "JsonLines": "rlcomp.trackers.tracker",
    "LanguageModel": "rlcomp.model.language_model",
    "Loss": "rlcomp.interfaces.loss",
    "Make": "rlcomp.config.build",
    "Phase": "rlcomp.run.phase",
    "RowLoss": "rlcomp.interfaces.loss",
    "Decoding": "rlcomp.engine.decoding",
    "Schedule": "rlcomp.model.optimizer",
    "TokenLoss": "rlcomp.interfaces.loss",
    "answer_prompts": "rlcomp.text.answers",
    "broadcast": "rlcomp.interfaces.advantage",
    "build": "rlcomp.run.parts",
    "causal_lm": "rlcomp.model.build",
    "character_tokenizer": "rlcomp.text.tokenizer",
    "decode_texts": "rlcomp.batch",
    "encode_texts": "rlcomp.batch",
    "load": "rlcomp.run.parts",
    "progress": "rlcomp.metrics",
    "read_lines": "rlcomp.files.json_lines",
    "record": "rlcomp.metrics",
    "run_phases": "rlcomp.run.program",
    "save": "rlcomp.run.parts",
    "summarise": "rlcomp.report.summary",
}
__all__ = [
    "Component",
    "Decoding",
    "JsonLines",
    "LanguageModel",
    "Loss",
    "Make",
    "Phase",
    "RowLoss",
    "Schedule",
    "TokenLoss",
    "answer_prompts",
    "broadcast",
    "build",
    "causal_lm",
    "character_tokenizer",
    "decode_texts",
    "encode_texts",
    "load",
    "progress",
    "read_lines",
    "record",
    "run_phases",
    "save",
    "summarise",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'rlcomp' has no attribute '{name}'")
    return getattr(importlib.import_module(_MODULES[name]), name)
