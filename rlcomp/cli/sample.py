"""``rlcomp-sample CHECKPOINT "prompt"``: sample from a trained policy."""

from __future__ import annotations

import argparse
from pathlib import Path

from rlcomp.cli.guard import guard
from rlcomp.cli.printable import printable


def main() -> None:
    """Answer prompts with the policy of a checkpoint (or of a run's newest one)."""
    guard(_app)


def _app() -> None:
    parser = argparse.ArgumentParser(prog="rlcomp-sample", description=main.__doc__)
    parser.add_argument("checkpoint", type=Path, help="a checkpoint, or a run's directory")
    parser.add_argument("prompts", nargs="+", metavar="PROMPT")
    parser.add_argument("-n", type=_positive, default=1, help="answers per prompt (default 1)")
    parser.add_argument("--temperature", type=float, help="0 for greedy (default: the run's own)")
    parser.add_argument("--max-new-tokens", type=_positive, help="default: the run's own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run code that the checkpoint's config names and rlcomp does not ship",
    )
    given = parser.parse_args()
    for prompt, answers in zip(given.prompts, sample(**vars(given)), strict=True):
        for answer in answers:
            print(printable(f"{prompt}{answer}"))


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be an integer greater than 0")
    return int(text)


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
    """``n`` answers to every prompt.

    Raises:
        CheckpointError: the checkpoint was not written by the command line, so it has no config;
            its config names code that rlcomp does not ship; or its run has no language model.
    """
    import dataclasses

    import torch

    from rlcomp.arguments import PositiveInt, problem
    from rlcomp.batch import decode_texts
    from rlcomp.errors import CheckpointError
    from rlcomp.model.trained import trained_policy
    from rlcomp.seed import named_seed
    from rlcomp.text.answers import answer_prompts

    policy, config = trained_policy(checkpoint, trust)
    longest = max_new_tokens or config.get("max_new_tokens")
    if fault := problem(PositiveInt, longest):
        raise CheckpointError(
            f"{checkpoint}: max_new_tokens in its config is {longest!r:.60}: {fault}; give "
            "--max-new-tokens"
        )
    decoding = policy.decoding
    if temperature is not None:
        decoding = dataclasses.replace(decoding, temperature=temperature)
    answered = answer_prompts(
        policy,
        prompts,
        group_size=n,
        max_new_tokens=longest,
        decoding=decoding,
        generator=torch.Generator().manual_seed(named_seed(seed, "sample")),
    )
    texts = decode_texts(answered["response"])
    return [texts[start : start + n] for start in range(0, len(texts), n)]


if __name__ == "__main__":
    main()
