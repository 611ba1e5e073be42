"""Export of a policy, critic or reward model as a folder of transformers, and its upload."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub import HfApi
from torch import nn
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
)

from rlcomp.errors import ConfigError, UserError, in_one_line
from rlcomp.files.progress_bars import no_progress_bars
from rlcomp.model.adapters import has_adapters, merge_adapters
from rlcomp.model.critics import Critic
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.preference_embedding import PreferenceEmbedding
from rlcomp.model.scorer import Scorer
from rlcomp.text.preference_tokens import preference_points
from rlcomp.text.rows import pad_id


@no_progress_bars()
def export_policy(
    policy: LanguageModel, folder: Path, *, merge: bool, base_model: str | None
) -> None:
    """Write a policy as a folder for ``AutoModelForCausalLM``, with tokenizer and configs.

    ``generate`` then samples like the policy: the generation config has its decoding, its stop
    tokens and its suppressed tokens.

    Args:
        policy: the policy; its model gets the new generation config and merged adapters.
        folder: an existing, empty folder.
        merge: whether to merge adapters into the model. Otherwise only the adapters are written,
            and transformers reads the generation config of their base model: pass the folder's
            generation config to ``generate``.
        base_model: folder or hub name of the adapters' base model; None if it has neither.

    Raises:
        ConfigError: the policy reads preferences, which transformers cannot; or the adapters are
            not merged and ``base_model`` is None.
    """
    model = policy.model
    if preference_points(policy.tokenizer) or any(
        isinstance(part, PreferenceEmbedding) for part in model.modules()
    ):
        raise ConfigError(
            "the policy maps preferences to embeddings, and transformers has no such model: "
            "use rlcomp-sample, or train with conditioning=text_prefix"
        )
    adapted = _has_adapters(model)
    if adapted and not merge and base_model is None:
        raise ConfigError(
            "the policy has adapters, and their base model is neither a folder of save_pretrained "
            "nor on the hub: export one merged model with --merge"
        )
    if adapted and merge:  # in float32: bfloat16 rounds small changes of large weights away
        dtype = model.dtype
        model = merge_adapters(model.float()).to(dtype)
    generation = generation_config(policy)
    model.generation_config = generation
    if adapted and not merge:
        peft: Any = model.peft_config["default"]
        peft.base_model_name_or_path = base_model
    model.save_pretrained(folder)
    generation.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)


def _has_adapters(model: PreTrainedModel) -> bool:
    # The names come first: has_adapters needs peft, which a model without adapters does not.
    return any("lora_" in name for name, _ in model.named_parameters()) and has_adapters(model)


def generation_config(policy: LanguageModel) -> GenerationConfig:
    """Return the generation config that lets transformers sample like a policy."""
    decoding, suppressed = policy.decoding, policy.suppressed_tokens
    sampling: dict[str, Any] = {"do_sample": False}
    if decoding.temperature > 0:
        sampling = {
            "do_sample": True,
            "temperature": decoding.temperature,
            "top_k": decoding.top_k,
            "top_p": decoding.top_p,
            "min_p": decoding.min_p or None,
        }
    return GenerationConfig(
        **sampling,
        bos_token_id=policy.tokenizer.bos_token_id,
        eos_token_id=policy.stops,
        pad_token_id=policy.tokenizer.pad_token_id,
        suppress_tokens=suppressed or None,
    )


@no_progress_bars()
def export_critic(critic: Critic, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a critic as a folder for ``AutoModelForTokenClassification``, a label for each value.

    ``logits[:, t, k]`` is value k of the state after token t, in reward units; a :class:`Critic`
    has k = 0 only. The critic writes this value at token t + 1.

    Args:
        critic: a copy of a backbone with a value head.
        tokenizer: tokenizer of the critic's inputs.
        folder: an existing, empty folder.

    Raises:
        ConfigError: transformers has no such head for the architecture, or the critic has adapters.
    """
    config = critic.model.config
    if config.model_type not in MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES:
        raise ConfigError(
            f"transformers has no token classifier of the architecture '{config.model_type}': "
            "export a critic of another architecture"
        )
    if any("lora_" in name for name, _ in critic.backbone.named_parameters()):
        raise ConfigError("the critic has adapters: export a critic without adapters")
    value_weight = critic.value_head.weight
    weight = value_weight.reshape(len(value_weight), -1).t()
    settings = {**config.to_dict(), "num_labels": len(weight)}
    classifier = AutoModelForTokenClassification.from_config(type(config).from_dict(settings))
    classifier = classifier.to(next(critic.backbone.parameters()).dtype)
    backbone = getattr(classifier, classifier.base_model_prefix)
    backbone.load_state_dict(critic.backbone.state_dict())
    head = cast(
        "nn.Linear", classifier.score if hasattr(classifier, "score") else classifier.classifier
    )
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(critic.value_head.bias.reshape(-1))
    classifier.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@no_progress_bars()
def export_scorer(scorer: Scorer, folder: Path) -> None:
    """Write a reward model as a folder for ``AutoModelForSequenceClassification``, with its labels.

    The logits of a text are ``model_score`` of a scorer or ``label_logits`` of a classifier, for
    the row of this text. The row may end with a stop token, the text must not: the exported model
    reads the state after the text's last token.

    Args:
        scorer: a copy of a backbone with a head.
        folder: an existing, empty folder.

    Raises:
        ConfigError: transformers has no such head for the architecture, or the reward model has
            adapters.
    """
    config, tokenizer = scorer.policy.model.config, scorer.policy.tokenizer
    if config.model_type not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES:
        raise ConfigError(
            f"transformers has no sequence classifier of the architecture '{config.model_type}': "
            "export a reward model of another architecture"
        )
    if any("lora_" in name for name, _ in scorer.backbone.named_parameters()):
        raise ConfigError("the reward model has adapters: export one without adapters")
    names = {
        "id2label": dict(enumerate(scorer.labels)),
        "label2id": {name: number for number, name in enumerate(scorer.labels)},
    }
    settings = {**config.to_dict(), **names, "pad_token_id": pad_id(tokenizer)}
    classifier = AutoModelForSequenceClassification.from_config(type(config).from_dict(settings))
    classifier = classifier.to(next(scorer.backbone.parameters()).dtype)
    getattr(classifier, classifier.base_model_prefix).load_state_dict(scorer.backbone.state_dict())
    with torch.no_grad():
        weight = scorer.score_head.weight
        cast("nn.Linear", classifier.score).weight.copy_(weight.reshape(len(weight), -1).t())
    classifier.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def upload(folder: Path, name: str, *, private: bool) -> str:
    """Upload an exported folder to the Hugging Face hub; return its address.

    Args:
        folder: written by ``rlcomp-export``.
        name: ``owner/model``; created if it does not exist.
        private: whether a new model is private.

    Raises:
        UserError: the hub cannot be reached, or refuses.
    """
    api = HfApi()
    try:
        api.create_repo(name, private=private, exist_ok=True)
        return str(
            api.upload_folder(repo_id=name, folder_path=folder, commit_message="rlcomp-export")
        )
    except Exception as error:  # the hub's HTTP library has its own errors
        raise UserError(
            f"{folder} is written, but was not uploaded as '{name}' ({in_one_line(error)}): log in "
            "with `hf auth login`, and check the name"
        ) from error
