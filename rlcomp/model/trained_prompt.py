"""The prompt format of a run, from its saved config: text, or a chat template."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from omegaconf import DictConfig
from transformers import PreTrainedTokenizerBase

from rlcomp.interfaces.prompt import Prompt
from rlcomp.text.prompt import TextPrompt
from rlcomp.wiring.build import Builder
from rlcomp.wiring.trust import POLICY, built_from, saved_node


def trained_prompt(
    config: DictConfig, file: Path, tokenizer: PreTrainedTokenizerBase, trust: bool = False
) -> Prompt:
    """How a trained policy was asked: what a text has to become before it reads it.

    Args:
        config: of its run (:func:`rlcomp.model.trained.trained_policy`).
        file: that the config was read from, for messages.
        tokenizer: the policy's.
        trust: as for :func:`rlcomp.model.trained.trained_policy`.

    Returns:
        Plain text, if the run says nothing of prompts.

    Raises:
        CheckpointError: its config names code that rlcomp does not ship.
        ConfigError: its template cannot be used.
    """
    found = saved_node(config, "prompt", file, trust, (*POLICY, "prompt"))
    if found is None:
        return TextPrompt(tokenizer=tokenizer)
    plan, wanted = found
    with built_from(file, trust):
        return cast("Prompt", Builder(plan, int(config.seed)).build(wanted))
