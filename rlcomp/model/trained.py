"""Models that exist already: of a run, of a folder, or of the Hugging Face hub."""

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
from rlcomp.errors import CheckpointError, ConfigError
from rlcomp.io.attempt import ACCEPTED
from rlcomp.io.manifest import MANIFEST
from rlcomp.io.saved import Saved, open_checkpoint
from rlcomp.io.saved_config import saved_config
from rlcomp.io.state import check_tensors, copy_tensors, owned
from rlcomp.model.allowance import Allowance
from rlcomp.model.build import (
    check_context,
    check_same_tokens,
    check_vocabulary,
    load_causal_lm,
)
from rlcomp.model.critic import Critic
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.merge import merge_adapters
from rlcomp.model.scorer import Scorer
from rlcomp.text.tokenizer import load_tokenizer
from rlcomp.wiring.build import Builder
from rlcomp.wiring.migrations import of_version_0_1, update_classes
from rlcomp.wiring.trust import POLICY, built_from, saved_node

_WORDS = {LanguageModel: "language model", Critic: "critic", Scorer: "reward model"}


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
    policy, config, _ = trained_part(path, "policy", LanguageModel, trust)
    return policy, config


Part = TypeVar("Part", LanguageModel, Critic, Scorer)


def trained_part(
    path: Path, name: str, kind: type[Part], trust: bool = False
) -> tuple[Part, DictConfig, Path]:
    """A saved node, built from the config of its run; that config, and its checkpoint.

    Args:
        path: as for :func:`trained_policy`.
        name: of the node.
        kind: what it must be.
        trust: as for :func:`trained_policy`.

    Raises:
        CheckpointError: as :func:`trained_policy`.
    """
    saved = open_checkpoint(path)
    with _opened(saved.path):
        return _trained_part(saved, name, kind, trust)


# Checkpoints that are being read: each may name another one as its base.
_OPEN: ContextVar[tuple[Path, ...]] = ContextVar("_OPEN", default=())
_LONGEST_CHAIN = 16


@contextmanager
def _opened(path: Path) -> Iterator[None]:
    """Context in which a checkpoint is read; refuses one that is read already, and long chains."""
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
    saved: Saved, name: str, kind: type[Part], trust: bool
) -> tuple[Part, DictConfig, Path]:
    none = f"{saved.path}: its run has no {_WORDS[kind]} named '{name}'"
    if not (saved.path / "config.yaml").is_file():
        raise CheckpointError(
            f"{saved.path} has no config.yaml: build the {name} and use restore()"
        )
    config = update_classes(saved_config(saved.path / "config.yaml", trust))
    old = of_version_0_1(config)
    if old is not None:
        raise CheckpointError(f"{saved.path}: {old}; train it again, or take rlcomp 0.1")
    if "sampler_engine" in config:
        config["sampler_engine"] = None  # it samples by itself: the run's server is the run's
    found = saved_node(
        config, name, saved.path / "config.yaml", trust, (*POLICY, "value", "scorer")
    )
    if found is None:
        raise CheckpointError(none)
    plan, wanted = found
    tensors, builder = saved.tensors(), Builder(plan, int(config.seed))
    file = saved.path / "config.yaml"
    allowance = Allowance([tensor.numel() for tensor in tensors.values()], str(file))
    with allowance, built_from(file, trust):
        part = builder.build(wanted)
    if not isinstance(part, kind):
        raise CheckpointError(none)
    here = owned(builder.built)
    check_tensors(saved.path, here, tensors)
    copy_tensors(here, tensors)
    return part, config, saved.path


def pretrained_model(
    *,
    path: NonEmptyText | None,
    tokenizer: PreTrainedTokenizerBase,
    context_length: PositiveInt | None = None,
    dtype: Literal["float32", "bfloat16"] = "float32",
    trust: bool = False,
) -> PreTrainedModel:
    """Pretrained weights. Adapters of a run are merged into its model.

    Args:
        path: a folder written by ``save_pretrained``, a run's directory or one of its checkpoints,
            or a name on the Hugging Face hub.
        tokenizer: the tokenizer that belongs to the model.
        context_length: the most tokens the run will use; null for the model's own limit.
        dtype: of the weights. In ``bfloat16`` steps of less than 1/256 of a weight are lost: for
            models that are frozen under adapters.
        trust: as for :func:`trained_policy`.

    Raises:
        DataError: no model at the path, or none that can be read; the hub cannot be reached, or the
            weights found there do not fill the model.
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
    # Merged in float32: bfloat16 rounds what adapters add to large weights away.
    merged = merge_adapters(policy.model.float())
    return merged.requires_grad_(True).to(getattr(torch, dtype))


def pretrained_tokenizer(
    *, path: NonEmptyText | None, trust: bool = False
) -> PreTrainedTokenizerBase:
    """The tokenizer that a pretrained model reads with; without a pad token, EOS pads.

    Args:
        path: as for :func:`pretrained_model`.
        trust: as for :func:`trained_policy`.

    Raises:
        CheckpointError: as :func:`trained_policy`.
        DataError: there is no tokenizer at the path, or none that can be read; or the hub cannot be
            reached.
    """
    path = _named("tokenizer", path)
    if not is_run(path):
        return load_tokenizer(path=path)
    policy, _ = trained_policy(Path(path), trust)
    return policy.tokenizer


def starting_point(config: DictConfig) -> str | None:
    """Where a run's model was read from: a folder, a run or a hub name; None for random weights.

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
    """Whether a path is a run's, and neither a folder of transformers nor a name on the hub."""
    place = Path(path)
    signs = (place / "checkpoints", place / ACCEPTED, place / MANIFEST, *place.glob("step-*"))
    return any(sign.exists() for sign in signs) and not (place / "config.json").is_file()
