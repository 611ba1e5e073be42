"""The prompt format of a run, from its saved config: text, or a chat template."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from omegaconf import DictConfig
from transformers import PreTrainedTokenizerBase

from rlcomp.config.build import Builder
from rlcomp.config.trust import POLICY, built_from, saved_node
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.text.prompt import TextPrompt


def trained_prompt(
    config: DictConfig, file: Path, tokenizer: PreTrainedTokenizerBase, trust: bool = False
) -> PromptFormat:
    """Return the prompt format that a trained policy reads.

    Args:
        config: of its run (:func:`rlcomp.model.load_model.trained_policy`).
        file: of the config, for messages.
        tokenizer: the policy's.
        trust: as for :func:`rlcomp.model.load_model.trained_policy`.

    Returns:
        Plain text, if the run's config has no prompt format.

    Raises:
        CheckpointError: its config names code that rlcomp does not ship.
        ConfigError: its template cannot be used.
    """
    node = saved_node(config, "prompt", file, trust, (*POLICY, "prompt"))
    if node is None:
        return TextPrompt(tokenizer=tokenizer)
    plan, wanted = node
    with built_from(file, trust):
        return cast("PromptFormat", Builder(plan, int(config.seed)).build(wanted))
