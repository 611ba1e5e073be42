"""Loading of existing models: from a run, a folder, or the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Literal, TypeVar, cast

import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.checkpoint.manifest import MANIFEST
from rlcomp.checkpoint.reader import SavedCheckpoint, open_checkpoint
from rlcomp.checkpoint.state import check_tensors, copy_tensors, owned_tensors
from rlcomp.config.build import Builder
from rlcomp.config.migrations import of_version_0_1, update_classes
from rlcomp.config.trust import POLICY, built_from, saved_node
from rlcomp.errors import CheckpointError, ConfigError
from rlcomp.files.run_record import RUN_RECORD
from rlcomp.files.untrusted import read_saved_config
from rlcomp.model.allocation_limit import Allowance
from rlcomp.model.build import (
    check_context,
    check_same_tokens,
    check_vocabulary,
    load_causal_lm,
)
from rlcomp.model.critics import Critic
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.merge import merge_adapters
from rlcomp.model.scorer import Scorer
from rlcomp.text.tokenizer import load_tokenizer

_WORDS = {LanguageModel: "language model", Critic: "critic", Scorer: "reward model"}


def trained_policy(path: Path, trust: bool = False) -> tuple[LanguageModel, DictConfig]:
    """Load the saved policy of a run, built from the run's config.

    Args:
        path: a checkpoint, or a run's directory for its newest one.
        trust: whether its config may name code that rlcomp does not ship; such code is run.

    Raises:
        CheckpointError: the checkpoint has no config, because the command line did not write it;
            the config names such code, or describes another model; or the run has no language
            model.
    """
    policy, config, _ = trained_part(path, "policy", LanguageModel, trust)
    return policy, config


Part = TypeVar("Part", LanguageModel, Critic, Scorer)


def trained_part(
    path: Path, name: str, kind: type[Part], trust: bool = False
) -> tuple[Part, DictConfig, Path]:
    """Load a saved node, built from the run's config; return it, that config and the checkpoint.

    Args:
        path: as for :func:`trained_policy`.
        name: of the node.
        kind: its required class.
        trust: as for :func:`trained_policy`.

    Raises:
        CheckpointError: as :func:`trained_policy`.
    """
    checkpoint = open_checkpoint(path)
    with _opened(checkpoint.path):
        return _trained_part(checkpoint, name, kind, trust)


# Checkpoints that are being read: each may name another one as its base.
_OPEN: ContextVar[tuple[Path, ...]] = ContextVar("_OPEN", default=())
_LONGEST_CHAIN = 16


@contextmanager
def _opened(path: Path) -> Iterator[None]:
    """Mark a checkpoint as being read; refuse a cycle of checkpoints, and long chains."""
    chain = (*_OPEN.get(), path.resolve())
    if path.resolve() in _OPEN.get():
        raise CheckpointError(f"{path}: its run names itself as its base: name another base")
    if len(chain) > _LONGEST_CHAIN:
        raise CheckpointError(
            f"{path}: more than {_LONGEST_CHAIN} runs, each the base of the next: export one of "
            "them (rlcomp-export), and name that as the base"
        )
    token = _OPEN.set(chain)
    try:
        yield
    finally:
        _OPEN.reset(token)


def _trained_part(
    checkpoint: SavedCheckpoint, name: str, kind: type[Part], trust: bool
) -> tuple[Part, DictConfig, Path]:
    none = f"{checkpoint.path}: its run has no {_WORDS[kind]} named '{name}'"
    if not (checkpoint.path / "config.yaml").is_file():
        raise CheckpointError(
            f"{checkpoint.path} has no config.yaml: build the {name} and use restore()"
        )
    config = update_classes(read_saved_config(checkpoint.path / "config.yaml", trust))
    old = of_version_0_1(config)
    if old is not None:
        raise CheckpointError(f"{checkpoint.path}: {old}; train it again, or take rlcomp 0.1")
    if "sampler_engine" in config:
        config["sampler_engine"] = None  # the run's server serves only the run
    node = saved_node(
        config, name, checkpoint.path / "config.yaml", trust, (*POLICY, "value", "scorer")
    )
    if node is None:
        raise CheckpointError(none)
    plan, wanted = node
    tensors, builder = checkpoint.tensors(), Builder(plan, int(config.seed))
    file = checkpoint.path / "config.yaml"
    allowance = Allowance([tensor.numel() for tensor in tensors.values()], str(file))
    with allowance, built_from(file, trust):
        part = builder.build(wanted)
    if not isinstance(part, kind):
        raise CheckpointError(none)
    here = owned_tensors(builder.built)
    check_tensors(checkpoint.path, here, tensors)
    copy_tensors(here, tensors)
    return part, config, checkpoint.path


def pretrained_model(
    *,
    path: NonEmptyText | None,
    tokenizer: PreTrainedTokenizerBase,
    context_length: PositiveInt | None = None,
    dtype: Literal["float32", "bfloat16"] = "float32",
    trust: bool = False,
) -> PreTrainedModel:
    """Load pretrained weights; merge adapters of a run into its model.

    Args:
        path: a folder written by ``save_pretrained``, a run's directory or one of its checkpoints,
            or a name on the Hugging Face hub.
        tokenizer: the tokenizer that belongs to the model.
        context_length: the most tokens the run will use; null for the model's own limit.
        dtype: of the weights. In ``bfloat16`` steps of less than 1/256 of a weight are lost, so use
            it for models that are frozen under adapters.
        trust: as for :func:`trained_policy`.

    Raises:
        DataError: there is no readable model at the path; the hub cannot be reached; or the weights
            do not fill the model.
        ConfigError: the tokenizer or the context does not fit the model, or it reads preferences.
        CheckpointError: as :func:`trained_policy`.
    """
    path = _named("model", path)
    if not is_run(path):
        return load_causal_lm(
            path=path, tokenizer=tokenizer, context_length=context_length, dtype=dtype
        )
    policy, _ = trained_policy(Path(path), trust)
    table = cast("nn.Embedding", policy.model.get_input_embeddings())
    check_vocabulary(f"model at '{path}'", table.num_embeddings, tokenizer)
    check_same_tokens(path, policy.tokenizer, tokenizer)
    check_context(path, context_length, policy.context_length)
    # Merged in float32: bfloat16 would round additions to large weights away.
    model = merge_adapters(policy.model.float())
    return model.requires_grad_(True).to(getattr(torch, dtype))


def pretrained_tokenizer(
    *, path: NonEmptyText | None, trust: bool = False
) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a pretrained model; without a pad token, EOS pads.

    Args:
        path: as for :func:`pretrained_model`.
        trust: as for :func:`trained_policy`.

    Raises:
        CheckpointError: as :func:`trained_policy`.
        DataError: there is no readable tokenizer at the path, or the hub cannot be reached.
    """
    path = _named("tokenizer", path)
    if not is_run(path):
        return load_tokenizer(path=path)
    policy, _ = trained_policy(Path(path), trust)
    return policy.tokenizer


def starting_point(config: DictConfig) -> str | None:
    """Return the source of a run's model: a folder, a run or a hub name; None for random weights.

    Args:
        config: of the run.
    """
    readers = (f"{__name__}.pretrained_model", "rlcomp.model.build.load_causal_lm")
    if OmegaConf.select(config, "model._target_") not in readers:
        return None
    path = OmegaConf.select(config, "model.path")
    return path if isinstance(path, str) else None


def _named(node: str, path: str | None) -> str:
    if path is None:
        raise ConfigError(
            f"{node}: there is none to start from; set base=DIR, a folder of save_pretrained, a "
            "run's directory, or a name on the Hugging Face hub"
        )
    return path


def is_run(path: str) -> bool:
    """Return whether a path is a run's, and neither a folder of transformers nor a hub name."""
    place = Path(path)
    signs = (place / "checkpoints", place / RUN_RECORD, place / MANIFEST, *place.glob("step-*"))
    return any(sign.exists() for sign in signs) and not (place / "config.json").is_file()
