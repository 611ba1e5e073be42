"""Loads the trained policy of a run from a checkpoint."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import NonEmptyText
from rlcomp.errors import CheckpointError
from rlcomp.io.saved import open_checkpoint
from rlcomp.io.saved_config import saved_config
from rlcomp.io.state import check_tensors, copy_tensors, owned
from rlcomp.model.allowance import Allowance
from rlcomp.model.language_model import LanguageModel
from rlcomp.text.tokenizer import load_tokenizer
from rlcomp.wiring.build import Builder
from rlcomp.wiring.renamed import of_version_0_1
from rlcomp.wiring.trust import saved_node


def trained_policy(path: Path, trust: bool = False) -> tuple[LanguageModel, DictConfig]:
    """The saved policy, built from the config of its run.

    Args:
        path: a checkpoint, or a run's directory for its newest one.
        trust: whether its config may name code that rlcomp does not ship, which is then run.

    Raises:
        CheckpointError: the checkpoint was not written by the command line, so it has no config;
            its config names such code, or describes another model; or its run has no language
            model.
    """
    saved = open_checkpoint(path)
    if not (saved.path / "config.yaml").is_file():
        raise CheckpointError(
            f"{saved.path} has no config.yaml: build the policy and use restore()"
        )
    config = saved_config(saved.path / "config.yaml", trust)
    old = of_version_0_1(config)
    if old is not None:
        raise CheckpointError(f"{saved.path}: {old}; train it again, or take rlcomp 0.1")
    found = saved_node(config, "policy", saved.path / "config.yaml", trust)
    if found is None:
        raise CheckpointError(f"{saved.path}: its run has no language model named 'policy'")
    plan, wanted = found
    tensors, builder = saved.tensors(), Builder(plan, int(config.seed))
    with Allowance(
        [tensor.numel() for tensor in tensors.values()], f"{saved.path / 'config.yaml'}"
    ):
        policy = builder.build(wanted)
    if not isinstance(policy, LanguageModel):
        raise CheckpointError(f"{saved.path}: its run has no language model named 'policy'")
    here = owned(builder.built)
    check_tensors(saved.path, here, tensors)
    copy_tensors(here, tensors)
    return policy, config


def trained_tokenizer(*, path: NonEmptyText, trust: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer that a trained model reads with.

    Args:
        path: a run's directory, one of its checkpoints, or a folder written by ``save_pretrained``.
        trust: as for :func:`trained_policy`.

    Raises:
        CheckpointError: as :func:`trained_policy`.
        DataError: the folder has no tokenizer.
    """
    if (Path(path) / "config.json").is_file():
        return load_tokenizer(path=path)
    policy, _ = trained_policy(Path(path), trust)
    return policy.tokenizer
