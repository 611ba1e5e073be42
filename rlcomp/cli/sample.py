"""``rlcomp-sample CHECKPOINT "prompt"``: sample from a trained policy."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import warnings
from pathlib import Path
from typing import Any

from rlcomp.arguments import PositiveInt, problem
from rlcomp.cli.command_arguments import Parser, positive_int
from rlcomp.cli.error_handler import run_program
from rlcomp.cli.escape import printable
from rlcomp.errors import CheckpointError, DataError, RlcompWarning, UserError


def main() -> None:
    """Answer prompts with the policy of a checkpoint (or of a run's newest one)."""
    run_program(_app)


def _app() -> None:
    positional_names = ("--prompt", "--prompts", "--checkpoint", "--run", "--model")
    examples = {"RUN": "runs/mine", "PROMPT": "'2+2='"}
    parser = Parser(
        prog="rlcomp-sample",
        description=main.__doc__,
        positional_names=positional_names,
        examples=examples,
    )
    parser.add_argument(
        "checkpoint", metavar="RUN", type=Path, help="a run's directory, or one of its checkpoints"
    )
    parser.add_argument("prompts", nargs="+", metavar="PROMPT")
    parser.add_argument(
        "-n", "--num-samples", dest="n", type=positive_int, default=1, help="answers per prompt (1)"
    )
    parser.add_argument("--temperature", type=float, help="0 for greedy (default: the run's own)")
    parser.add_argument("--max-new-tokens", type=positive_int, help="default: the run's own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run code that the checkpoint's config names and rlcomp does not ship",
    )
    options = parser.parse()
    if not options.checkpoint.exists() and any(Path(word).is_dir() for word in options.prompts):
        words = [str(options.checkpoint), *options.prompts]
        first, *others = sorted(words, key=lambda word: not Path(word).is_dir())
        line = shlex.join(["rlcomp-sample", first, *others])
        raise UserError(f"{options.checkpoint}: the run comes before the prompts: {line}")
    answers_by_prompt = sample(**vars(options))  # fails before any warning on prompts
    if warning := _split_prompt_warning(options.checkpoint, options.prompts):
        warnings.warn(warning, RlcompWarning, stacklevel=2)
    for prompt, answers in zip(options.prompts, answers_by_prompt, strict=True):
        for answer in answers:
            print(printable(f"{prompt}{answer}"))


def _split_prompt_warning(checkpoint: Path, prompts: list[str]) -> str | None:
    """Return the warning on words that were one prompt before a shell split it.

    Examples:
        >>> print(_split_prompt_warning(Path("runs/a"), ["two", "words"]))
        2 prompts, 'two', 'words'; one of several words has quotes: rlcomp-sample runs/a 'two words'
        >>> _split_prompt_warning(Path("runs/a"), ["12>", "34>"])
    """
    is_word = re.match(r"[^\W\d]{2}", prompts[0])
    if len(prompts) == 1 or not is_word or any(re.search(r"\s", word) for word in prompts):
        return None
    whole = shlex.join(["rlcomp-sample", str(checkpoint), " ".join(prompts)])
    quoted = f"{', '.join(map(repr, prompts)):.60}"
    return f"{len(prompts)} prompts, {quoted}; one of several words has quotes: {whole}"


def sample(
    *,
    checkpoint: Path,
    prompts: list[str],
    n: int,
    temperature: float | None,
    max_new_tokens: int | None,
    seed: int,
    trust: bool = False,
) -> list[list[str]]:
    """Return ``n`` answers to every prompt, in the run's format: as a user's message in a chat run.

    Raises:
        CheckpointError: as ``load_node``; or neither config nor call has ``max_new_tokens``.
        DataError: the run's tokenizer lacks a character of a prompt.
    """
    import torch

    from rlcomp.batch import decode_texts
    from rlcomp.model.language_model import LanguageModel
    from rlcomp.model.load_model import load_node, load_prompt_format
    from rlcomp.seed import named_seed
    from rlcomp.text.answers import answer_prompts

    policy, config, folder = load_node(checkpoint, "policy", LanguageModel, trust)
    prompt = load_prompt_format(config, folder / "config.yaml", policy.tokenizer, trust)
    decoding = policy.decoding
    if temperature is not None:
        decoding = dataclasses.replace(decoding, temperature=temperature)
    rows = answer_prompts(
        policy,
        prompts,
        prompt_ids=_encode_prompts(prompt, prompts, policy.tokenizer, folder.parent.parent),
        group_size=n,
        max_new_tokens=max_new_tokens or _check_limit(checkpoint, config.get("max_new_tokens")),
        decoding=decoding,
        generator=torch.Generator().manual_seed(named_seed(seed, "sample")),
    )
    texts = decode_texts(rows["response"])
    return [texts[start : start + n] for start in range(0, len(texts), n)]


def _encode_prompts(
    prompt_format: Any,  # noqa: ANN401
    prompts: list[str],
    tokenizer: Any,  # noqa: ANN401
    run: Path,
) -> list[list[int]]:
    """Return the token ids of prompts.

    Raises:
        DataError: the run's tokenizer lacks a character of a prompt; the message names the
            characters it has.
    """
    try:
        ids: list[list[int]] = prompt_format.encode(prompts, [{}] * len(prompts))
    except DataError as error:
        fault, remedy, _ = str(error).partition(": add it to")
        if not remedy:
            raise  # no tokenizer could write it
        characters = "".join(sorted(token for token in tokenizer.get_vocab() if len(token) == 1))
        raise DataError(
            f"{fault}; it knows {characters!r}: ask as it was trained{_example(run)}"
        ) from error
    return ids


def _example(run: Path) -> str:
    """Return a sampled prompt of a run, quoted for a shell; empty if there is none."""
    try:
        with (run / "samples.jsonl").open(encoding="utf-8") as samples:
            prompt = json.loads(samples.readline(10_000))["prompt"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f", rlcomp-sample {shlex.quote(str(run))} {shlex.quote(str(prompt))}"


def _check_limit(checkpoint: Path, limit: Any) -> int:  # noqa: ANN401
    """Return ``max_new_tokens`` of a run's config, which is untrusted."""
    if fault := problem(PositiveInt, limit):
        raise CheckpointError(
            f"{checkpoint}: max_new_tokens in its config is {limit!r:.60}: {fault}; give "
            "--max-new-tokens"
        )
    return int(limit)


if __name__ == "__main__":
    main()
