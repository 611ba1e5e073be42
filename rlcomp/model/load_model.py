"""Load models, tokenizers and prompt formats from a run, a folder, or the Hugging Face hub."""

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
from rlcomp.config.migrations import update_classes, version_0_1_message
from rlcomp.config.trust import POLICY, build_errors, saved_node
from rlcomp.errors import CheckpointError, ConfigError
from rlcomp.files.run_record import RUN_RECORD
from rlcomp.files.untrusted import read_saved_config
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.model.adapters import merge_adapters
from rlcomp.model.allocation_limit import AllocationLimit
from rlcomp.model.build import load_causal_lm
from rlcomp.model.critics import Critic
from rlcomp.model.fit_checks import check_context, check_same_tokens, check_vocabulary
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.scorer import Scorer
from rlcomp.text.prompt import TextPrompt
from rlcomp.text.tokenizer import load_tokenizer

_KINDS = {LanguageModel: "language model", Critic: "critic", Scorer: "reward model"}


def load_policy(path: Path, trust: bool = False) -> tuple[LanguageModel, DictConfig]:
    """Load the policy of a run; return it and the run's config.

    Args:
        path: a checkpoint, or a run's directory for its newest one.
        trust: whether the config may name code that rlcomp does not ship, which is run, or models
            of the hub, which are downloaded.

    Raises:
        CheckpointError: the checkpoint has no config (only the command line writes it); the config
            names such code or models without ``trust``, or describes another model; the run has no
            language model; or its chain of base models is a cycle or too long.
    """
    policy, config, _ = load_node(path, "policy", LanguageModel, trust)
    return policy, config


Part = TypeVar("Part", LanguageModel, Critic, Scorer)


def load_node(
    path: Path, name: str, kind: type[Part], trust: bool = False
) -> tuple[Part, DictConfig, Path]:
    """Load a node of a run; return it, the run's config and the path of the checkpoint.

    Args:
        path: as for :func:`load_policy`.
        name: name of the node.
        kind: required class of the node.
        trust: as for :func:`load_policy`.

    Raises:
        CheckpointError: as :func:`load_policy`, or the run has no such node of this class.
    """
    checkpoint = open_checkpoint(path)
    with _chain_limit(checkpoint.path):
        return _build_node(checkpoint, name, kind, trust)


# Checkpoints that are being loaded: each is the base of the one before it.
_CHAIN: ContextVar[tuple[Path, ...]] = ContextVar("_CHAIN", default=())
_MAX_CHAIN = 16  # each loads a whole model


@contextmanager
def _chain_limit(path: Path) -> Iterator[None]:
    """Add a checkpoint to the chain within the context; refuse cycles and long chains."""
    chain = (*_CHAIN.get(), path.resolve())
    if path.resolve() in _CHAIN.get():
        raise CheckpointError(f"{path}: its run names itself as its base: name another base")
    if len(chain) > _MAX_CHAIN:
        raise CheckpointError(
            f"{path}: more than {_MAX_CHAIN} runs, each the base of the next: export one of "
            "them (rlcomp-export), and name that as the base"
        )
    token = _CHAIN.set(chain)
    try:
        yield
    finally:
        _CHAIN.reset(token)


def _build_node(
    checkpoint: SavedCheckpoint, name: str, kind: type[Part], trust: bool
) -> tuple[Part, DictConfig, Path]:
    missing = f"{checkpoint.path}: its run has no {_KINDS[kind]} named '{name}'"
    file = checkpoint.path / "config.yaml"
    if not file.is_file():
        raise CheckpointError(
            f"{checkpoint.path} has no config.yaml: build the {name} and use restore()"
        )
    config = update_classes(read_saved_config(file, trust))
    fault = version_0_1_message(config)
    if fault is not None:
        raise CheckpointError(f"{checkpoint.path}: {fault}; train it again, or take rlcomp 0.1")
    if "sampler_engine" in config:
        config["sampler_engine"] = None  # the run's server serves only the run
    # A node with parts of other groups is refused, unless it is trusted.
    node = saved_node(config, name, file, trust, (*POLICY, "value", "scorer"))
    if node is None:
        raise CheckpointError(missing)
    plan, node_plan = node
    tensors, builder = checkpoint.tensors(), Builder(plan, int(config.seed))
    limit = AllocationLimit([tensor.numel() for tensor in tensors.values()], str(file))
    with limit, build_errors(file, trust):
        part = builder.build(node_plan)
    if not isinstance(part, kind):
        raise CheckpointError(missing)
    built_tensors = owned_tensors(builder.built)
    check_tensors(checkpoint.path, built_tensors, tensors)
    copy_tensors(built_tensors, tensors)
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
        context_length: maximum number of tokens of the run; null: the model's own limit.
        dtype: dtype of the weights. In ``bfloat16`` steps of less than 1/256 of a weight are lost:
            use it for models that are frozen under adapters.
        trust: as for :func:`load_policy`.

    Raises:
        DataError: there is no readable model at the path; the hub cannot be reached; or the weights
            do not fill the model.
        ConfigError: ``path`` is None, the tokenizer or the context does not fit, or the model of a
            folder embeds preferences.
        CheckpointError: as :func:`load_policy`.
    """
    path = _require_path("model", path)
    if not is_run(path):
        return load_causal_lm(
            path=path, tokenizer=tokenizer, context_length=context_length, dtype=dtype
        )
    policy, _ = load_policy(Path(path), trust)
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
        trust: as for :func:`load_policy`.

    Raises:
        ConfigError: ``path`` is None.
        CheckpointError: as :func:`load_policy`.
        DataError: there is no readable tokenizer at the path, or the hub cannot be reached.
    """
    path = _require_path("tokenizer", path)
    if not is_run(path):
        return load_tokenizer(path=path)
    policy, _ = load_policy(Path(path), trust)
    return policy.tokenizer


def base_model_path(config: DictConfig) -> str | None:
    """Return the path of a run's base model: a folder, run or hub name.

    None if the run's model was not loaded from one path: random weights, or a soup.
    """
    loaders = (f"{__name__}.pretrained_model", "rlcomp.model.build.load_causal_lm")
    if OmegaConf.select(config, "model._target_") not in loaders:
        return None
    path = OmegaConf.select(config, "model.path")
    return path if isinstance(path, str) else None


def _require_path(node: str, path: str | None) -> str:
    if path is None:
        raise ConfigError(
            f"{node}: there is no base model; set base=DIR, a folder of save_pretrained, a "
            "run's directory, or a name on the Hugging Face hub"
        )
    return path


def is_run(path: str) -> bool:
    """Return whether a path is a run or checkpoint, not a folder of transformers or a hub name."""
    folder = Path(path)
    files = (folder / "checkpoints", folder / RUN_RECORD, folder / MANIFEST)
    exists = any(file.exists() for file in (*files, *folder.glob("step-*")))
    return exists and not (folder / "config.json").is_file()


def load_prompt_format(
    config: DictConfig, file: Path, tokenizer: PreTrainedTokenizerBase, trust: bool = False
) -> PromptFormat:
    """Return the prompt format of a run: text or a chat template; text if the config has none.

    Args:
        config: the run's config (:func:`load_policy`).
        file: the config's file, for messages.
        tokenizer: the policy's tokenizer.
        trust: as for :func:`load_policy`.

    Raises:
        CheckpointError: the config names code that rlcomp does not ship, without ``trust``.
        ConfigError: the chat template cannot be used.
    """
    node = saved_node(config, "prompt", file, trust, (*POLICY, "prompt"))
    if node is None:
        return TextPrompt(tokenizer=tokenizer)
    plan, node_plan = node
    with build_errors(file, trust):
        return cast("PromptFormat", Builder(plan, int(config.seed)).build(node_plan))
