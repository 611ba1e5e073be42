"""Facts on the model folder of ``base=DIR``, and on the needs of a step, without torch."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rlcomp.config.plan import Plan
from rlcomp.config.reader import Node
from rlcomp.errors import DataError
from rlcomp.files.untrusted import parse_json, read_bounded

# Limits for untrusted files: bytes of a JSON file, and of the header of a file of weights.
_MAX_JSON_BYTES, _MAX_HEADER_BYTES = 1 << 27, 1 << 26
# Limits for untrusted files: characters of a line, dimensions of a shape, and size of a dimension.
_MAX_LINE, _MAX_DIMENSIONS, _MAX_SIZE = 1000, 16, 1 << 48
# Bytes of a weight, by dtype.
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}
# Floating-point operations for a weight and a token. A forward pass multiplies and adds; a training
# pass is a forward pass, and a backward pass that costs as much for the activations and again as
# much for the weights, unless they are frozen.
_FORWARD, _TRAINING, _TRAINING_FROZEN = 2, 6, 4
# Names of the longest context in configs of different architectures.
_CONTEXT = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")


class Work(NamedTuple):
    """Work of a step.

    Attributes:
        rows: number of answers.
        tokens: largest number of tokens of an answer.
        epochs: training passes over the answers.
        scorings: forward passes over the answers, by the reference and for ``old_log_probs``.
    """

    rows: int
    tokens: int
    epochs: int
    scorings: int


def model_facts(plan: Plan) -> Iterator[str]:
    """Yield lines on the model folder that ``base`` names; none if it names no such folder.

    Raises:
        DataError: a file of the folder cannot be read.
    """
    return (_printable(line) for line in _facts(plan))


def _printable(line: str) -> str:
    """Remove control characters from an untrusted line, and shorten it."""
    plain = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line[:_MAX_LINE])
    return plain if len(line) <= _MAX_LINE else f"{plain}..."


def _facts(plan: Plan) -> Iterator[str]:
    folder = Path(str(plan.tree.get("base") or ""))
    if not plan.tree.get("base") or not (folder / "config.json").is_file():
        return
    config = _read_object(folder / "config.json")
    text = config.get("text_config")
    inner = text if isinstance(text, dict) else config
    yield f"base {folder}"
    yield f"  architecture    {_architecture(config, inner)}"
    count, types = _weights(folder)
    shares = ", ".join(f"{kind} {n:,}" for kind, n in types.items())
    yield f"  weights         {count:,} ({shares or 'no *.safetensors'})"
    limit = next((inner[name] for name in _CONTEXT if name in inner), "an unknown number of")
    setting = plan.tree.get("context_length", "not set")
    yield f"  context         at most {limit} tokens; context_length here is {setting}"
    yield f"  chat template   {_template(folder, plan)}"
    yield f"  stop tokens     {', '.join(_stops(folder)) or 'none'}"
    if count:
        yield f"  memory          {_memory(plan, count)}"
        yield f"  time            {_seconds(plan, count, inner)}"


def _read_object(file: Path) -> dict[str, object]:
    """Return the JSON object in a file; {} without the file."""
    if not file.is_file():
        return {}
    try:
        value = parse_json(read_bounded(file, _MAX_JSON_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file} cannot be read: {error}") from None
    return value if isinstance(value, dict) else {}


def _architecture(config: Mapping[str, object], inner: Mapping[str, object]) -> str:
    architectures = config.get("architectures")
    names = architectures if isinstance(architectures, list) else []
    kind = [*names, config.get("model_type", "unknown")][0]
    sizes = {
        "layers": "num_hidden_layers",
        "wide": "hidden_size",
        "heads": "num_attention_heads",
        "experts": "num_experts",
        "tokens": "vocab_size",
    }
    facts = [f"{inner[name]} {unit}" for unit, name in sizes.items() if name in inner]
    return ", ".join([f"{kind}", *facts])


def _weights(folder: Path) -> tuple[int, dict[str, int]]:
    """Count the weights of the files, in all and by type."""
    types: dict[str, int] = {}
    for file in sorted(folder.glob("*.safetensors")):
        if not file.is_file():
            raise DataError(f"{file} is no regular file")
        for kind, count in _header(file):
            types[kind] = types.get(kind, 0) + count
    return sum(types.values()), types


def _header(file: Path) -> list[tuple[str, int]]:
    """Return the type and the number of weights of each tensor of a file."""
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        if size > _MAX_HEADER_BYTES:
            raise DataError(
                f"{file}: its header has {size:,} bytes, more than {_MAX_HEADER_BYTES:,}"
            )
        try:
            header = json.loads(opened.read(size))
            return [
                (str(entry["dtype"]), _count(entry["shape"]))
                for name, entry in header.items()
                if name != "__metadata__"
            ]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"{file}: its header cannot be read: {error}") from None


def _count(shape: object) -> int:
    """Return the number of weights in a tensor of a shape."""
    sizes = shape if isinstance(shape, list) and len(shape) <= _MAX_DIMENSIONS else [None]
    if not all(isinstance(size, int) and 0 <= size <= _MAX_SIZE for size in sizes):
        raise ValueError(f"a shape is {shape!r:.40}")
    return math.prod(sizes)


def _template(folder: Path, plan: Plan) -> str:
    inside = "chat_template" in _read_object(folder / "tokenizer_config.json")
    files = sorted(file.name for file in folder.glob("chat_template*"))
    source = ", ".join(files) or ("in tokenizer_config.json" if inside else "")
    prompt = plan.nodes.get("prompt")
    used = prompt is not None and ".chat" in prompt.target
    if not source:
        return "none; prompts are plain text (prompt=text)"
    return f"{source}, used" if used else f"{source}, not used: prompt=chat uses it"


def _stops(folder: Path) -> list[str]:
    """Return the tokens that end an answer, by the tokenizer and the generation config."""
    added = _read_object(folder / "tokenizer.json").get("added_tokens")
    tokens = added if isinstance(added, list) else []
    rows = [token for token in tokens if isinstance(token, dict)]
    contents = {r["id"]: str(r.get("content")) for r in rows if isinstance(r.get("id"), int)}
    eos_ids = _read_object(folder / "generation_config.json").get("eos_token_id")
    ids = eos_ids if isinstance(eos_ids, list) else [] if eos_ids is None else [eos_ids]
    eos = _read_object(folder / "tokenizer_config.json").get("eos_token")
    eos_text = eos.get("content") if isinstance(eos, dict) else eos
    stops = [str(eos_text)] if eos_text else []
    stops += [contents[index] for index in ids if isinstance(index, int) and index in contents]
    return [*dict.fromkeys(stops)]


def _memory(plan: Plan, count: int) -> str:
    """Describe the memory of weights, gradients and optimiser, without activations."""
    model = plan.nodes.get("model")
    dtype = model.arguments.get("dtype") if model else None
    weight_bytes = count * _BYTES.get(str(dtype or "float32"), 4)
    parts = {"weights": weight_bytes}
    if not _has_adapters(plan):
        parts |= {"gradients": weight_bytes, "AdamW": 2 * weight_bytes}
        if _has_part(plan, "reference", "AdapterOffReference"):
            parts["reference"] = weight_bytes
    sizes = ", ".join(f"{name} {size / 1e9:.2f}" for name, size in parts.items())
    note = "; the adapters take little" if _has_adapters(plan) else ""
    return (
        f"{sum(parts.values()) / 1e9:.2f} GB ({sizes}){note}, and activations, bounded by "
        "learner.micro_batch_tokens"
    )


def _has_adapters(plan: Plan) -> bool:
    return any("lora" in node.target for node in plan.nodes.values())


def _has_part(plan: Plan, name: str, excluded: str = "Nothing") -> bool:
    """Return whether a plan has a node that is no empty slot, and of no excluded class."""
    node = plan.nodes.get(name)
    return node is not None and not node.target.endswith("Nothing") and excluded not in node.target


def _seconds(plan: Plan, count: int, config: Mapping[str, object]) -> str:
    """Estimate the least seconds of a step from the speed of this CPU."""
    work = _work(plan)
    if work is None:
        return "not estimated: no stage samples answers with max_new_tokens"
    if "num_experts" in config or "num_local_experts" in config:
        return "not estimated: not every token goes through every expert"
    rate, bandwidth = _measure_speed()
    total = work.rows * work.tokens
    training = _TRAINING_FROZEN if _has_adapters(plan) else _TRAINING
    # To decode a token of all answers is to read every weight, a float32, once.
    decode = max(_FORWARD * count * total / rate, work.tokens * count * 4 / bandwidth)
    parts = {
        "answers": decode,
        "scoring": _FORWARD * count * total * work.scorings / rate,
        "learner": training * count * total * work.epochs / rate,
    }
    shares = ", ".join(
        f"{name} {_format_seconds(seconds)}" for name, seconds in parts.items() if seconds
    )
    return (
        f"at least {_format_seconds(sum(parts.values()))} s a step on this CPU ({shares}), if all "
        f"{work.rows:,} answers have {work.tokens} tokens: at {rate / 1e9:.3g} GFLOP/s, measured "
        "by a product of matrices, without prompts and attention; a GPU is not estimated"
    )


def _format_seconds(seconds: float) -> str:
    return f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:.2g}"


def _work(plan: Plan) -> Work | None:
    """Return the answers that a step samples and trains on; None if the config has none."""
    rollout, learner = plan.nodes.get("rollout"), plan.nodes.get("learner")
    prompts = _number(plan.nodes.get("prompts"), "batch_size")
    tokens = _number(rollout, "max_new_tokens")
    if not prompts or not tokens:
        return None
    scored = [_has_part(plan, "reference"), _has_part(plan, "old_log_probs", "RolloutLogProbs")]
    rows = prompts * (_number(rollout, "group_size") or 1)
    return Work(rows, tokens, _number(learner, "epochs") or 1, sum(scored))


def _number(node: Node | None, name: str) -> int | None:
    value = node.arguments.get(name) if node else None
    return value if isinstance(value, int) else None


def _measure_speed() -> tuple[float, float]:
    """Measure the operations per second of a matrix product, and the bytes read per second."""
    import numpy as np

    size = 768
    matrix = np.ones((size, size), dtype=np.float32)
    array = np.ones(1 << 24, dtype=np.float32)
    multiply = min(_measure_seconds(lambda: matrix @ matrix) for _ in range(5))
    read = min(_measure_seconds(array.sum) for _ in range(3))
    return 2 * size**3 / multiply, array.nbytes / read


def _measure_seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return max(time.perf_counter() - start, 1e-9)
