"""Reader of untrusted pretrained models: config and weights are data."""

from __future__ import annotations

import math
import os
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel

from rlcomp.engine.memory import machine_memory
from rlcomp.errors import ConfigError, DataError
from rlcomp.files.progress_bars import no_progress_bars
from rlcomp.model.allocation_limit import AllocationLimit
from rlcomp.text.folder import folder_errors, local_only
from rlcomp.text.untrusted_input import check_regular, json_object

_INDEX = "model.safetensors.index.json"
# Names of the context length in configs, the most usual first.
_CONTEXT_NAMES = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
# Settings that count parts: a config creates lists of this length before any part is built.
_COUNT = re.compile(r"(^|_)(layers?|labels?|experts?|blocks?|groups?|heads?|types)$")
MAX_PARTS = 10_000
# Bytes of the header of a weights file; 100,000 tensors need ten million.
_MAX_HEADER = 1 << 25


def read_config(path: str, message: str, remedy: str) -> PreTrainedConfig:
    """Return the config of a folder, or of a model on the hub, without reading weights.

    Its choice of kernels (``attn_implementation``) is ignored: some are code on the hub.

    Args:
        path: a folder, or a name on the hub.
        message: error message for a config that cannot be read.
        remedy: the remedy in that message.

    Raises:
        DataError: the config cannot be read, names code or files to load, or has too many parts.
    """
    folder = Path(path)
    if folder.is_dir():
        check_regular(folder)
    if (folder / "adapter_config.json").exists():
        raise DataError(
            f"'{path}' holds an adapter (adapter_config.json), which names its model elsewhere: "
            "merge it into that (merge_and_unload), and save the whole with model.save_pretrained"
        )
    file = folder / "config.json"
    if file.exists():
        message, remedy = (
            f"{file} describes no model",
            "use the config.json that belongs to the weights",
        )
    with folder_errors(path, message, remedy):
        if file.exists():
            _check_counts(file, json_object(file))
        config: PreTrainedConfig = AutoConfig.from_pretrained(
            path, local_files_only=local_only(path), trust_remote_code=False
        )
        config._attn_implementation = None
        config._experts_implementation = None
    _check_sources(path, config)
    return config


def _check_counts(file: Path, value: object, name: str = "") -> None:
    """Check the counts of parts in a value of a config, at any depth; ``name`` is its key."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_counts(file, item, key)
    elif isinstance(value, list):  # attention_types: [["global", "local"], 12]
        for item in value:
            _check_counts(file, item, name)
    elif isinstance(value, int) and value > MAX_PARTS and _COUNT.search(name):
        raise DataError(
            f"{file}: {name} is {value:.0e}, more than {MAX_PARTS:,}: use the config.json "
            "that belongs to the weights"
        )


def _check_sources(path: str, config: PreTrainedConfig) -> None:
    """Refuse a config of quantised weights, which other code reads, or of weights in another file.

    Raises:
        DataError: names the setting.
    """
    for part in (config, *(getattr(config, name, None) for name in config.sub_configs)):
        if getattr(part, "quantization_config", None) is not None:
            raise DataError(
                f"the model at '{path}' is quantised (quantization_config in its config.json): "
                "take it in full precision, or save it so with model.dequantize()"
            )
    if getattr(config, "transformers_weights", None) is not None:
        raise DataError(
            f"the config.json at '{path}' names the file of its weights (transformers_weights): "
            "delete that, and name the file model.safetensors"
        )


def read_weights(
    kind: Any,  # noqa: ANN401
    path: str,
    config: PreTrainedConfig,
    message: str,
    remedy: str,
    dtype: str = "float32",
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Return a model with its weights, and the loading report of transformers.

    Args:
        kind: a class ``AutoModelFor...``.
        path: a folder, or a name on the hub.
        config: result of :func:`read_config`.
        message: error message for weights that cannot be read.
        remedy: the remedy in that message.
        dtype: torch's name of the weights' dtype.

    Raises:
        DataError: the weights are missing, pickled, unreadable or elsewhere; a folder's weights are
            larger than the memory, or its config describes a model out of proportion to them.
    """
    limit = _allocation_limit(Path(path), dtype) if Path(path).is_dir() else nullcontext()
    message = f"{message} that its config describes"
    with folder_errors(path, message, remedy), limit, no_progress_bars():
        model, report = kind.from_pretrained(
            path,
            config=config,
            local_files_only=local_only(path),
            trust_remote_code=False,
            use_safetensors=True,
            dtype=getattr(torch, dtype),
            # So that they are reported by name; check_filled refuses them.
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    return model, report


def _allocation_limit(folder: Path, dtype: str) -> AllocationLimit:
    """Return the limit for a folder's weights; refuse weights larger than the memory."""
    sizes = [size for file in _weight_files(folder) for size in _tensor_sizes(file)]
    needed, (memory, _) = sum(sizes) * getattr(torch, dtype).itemsize, machine_memory()
    if needed > memory:
        raise DataError(
            f"the weights at '{folder}' take {needed / 2**30:,.0f} GiB in {dtype}, and this "
            f"machine has {memory / 2**30:,.0f}: take a smaller model, or a larger machine"
        )
    return AllocationLimit(sizes, str(folder / "config.json"))


def _weight_files(folder: Path) -> list[Path]:
    """Return the files of a folder's weights, all of them safetensors in the folder itself.

    Raises:
        DataError: the weights are pickled, or an index names something else.
    """
    check_regular(folder)
    files = sorted(folder.glob("*.safetensors"))
    pickled = sorted(folder.glob("*.bin"))
    if pickled and not files:
        raise DataError(
            f"the weights at '{folder}' are pickled ({pickled[0].name}), and reading them can run "
            "code: save them as safetensors, model.save_pretrained(...), where you trust them"
        )
    if (folder / _INDEX).exists() and folder / "model.safetensors" not in files:
        names = json_object(folder / _INDEX).get("weight_map")
        for name in names.values() if isinstance(names, dict) else [names]:
            if not isinstance(name, str) or folder / name not in files:
                raise DataError(
                    f"{folder / _INDEX} names {name!r:.80}, which is no safetensors file in its "
                    "folder: copy or download the folder again"
                )
    return files


def _tensor_sizes(file: Path) -> list[int]:
    """Return the number of elements of each tensor in a file."""
    try:
        _check_header(file)
        with safe_open(file, "pt") as reader:
            return [math.prod(reader.get_slice(name).get_shape()) for name in reader.keys()]
    except (OSError, ValueError, SafetensorError) as error:
        raise DataError(f"no weights at '{file}' ({error}): {_remedy(file)}") from error


def _check_header(file: Path) -> None:
    """Check the size of a safetensors header, the first 8 bytes of the file.

    ``safe_open`` itself refuses a header larger than the file.

    Raises:
        ValueError: the header is too large.
    """
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
    if _MAX_HEADER < size < file.stat().st_size:
        raise ValueError(f"its header is larger than {_MAX_HEADER:,} bytes")


def _remedy(file: Path) -> str:
    """Return the remedy for a file without weights, by its first bytes."""
    if not file.is_file() or not os.access(file, os.R_OK):
        return "must be a file that can be read: copy or download it again, or give the right to"
    with file.open("rb") as stream:
        start = stream.read(64)
    if start.startswith(b"version https://git-lfs.github.com/spec"):
        return f"it is a pointer of Git LFS: git -C {file.parent} lfs pull fetches the weights"
    if not start:
        return "it is empty: copy or download it again"
    return "it was cut off or is another format: copy or download it again, or save the model again"


def check_filled(path: str, report: dict[str, Any]) -> None:
    """Check that all weights of a model were loaded; tied ones count as loaded.

    Raises:
        DataError: names the missing weights.
        ConfigError: the model embeds preferences.
    """
    if any(key.endswith("preference_map") for key in report["unexpected_keys"]):
        raise ConfigError(
            f"the model at '{path}' reads preferences through a map, but a folder of "
            "save_pretrained does not restore it: name its run's directory instead, in model.runs "
            "of model=soup"
        )
    missing = sorted(report["missing_keys"])
    shapes = [f"{key} {[*saved]} for {[*built]}" for key, saved, built in report["mismatched_keys"]]
    faults = [f"no {key}" for key in missing] + sorted(shapes) + list(report["error_msgs"])
    if faults:
        more = f" and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise DataError(
            f"the weights at '{path}' do not fill the model of its config.json: "
            f"{'; '.join(faults[:5])}{more}. Use the config.json that belongs to the weights, or "
            "save the model again with model.save_pretrained"
        )


def context_limit(config: PreTrainedConfig) -> int | None:
    """Return the context length in a model's config, under any of its names.

    Return None for models without a limit of positions (ALiBi, recurrent models).
    """
    text_config = config.get_text_config()
    limits = (getattr(text_config, name, None) for name in _CONTEXT_NAMES)
    return next((int(limit) for limit in limits if limit is not None), None)
