"""``rlcomp-export RUN DIR``: a trained model as an ordinary folder of transformers."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from rlcomp.cli.command_arguments import Parser
from rlcomp.cli.error_handler import run_program
from rlcomp.cli.escape import printable
from rlcomp.errors import CheckpointError, UserError


def main() -> None:
    """Write the policy, the critic or the reward model of a run as a folder for transformers."""
    run_program(_app)


def _app() -> None:
    examples = {"RUN": "runs/mine", "NEW_FOLDER": "exported"}
    parser = Parser(prog="rlcomp-export", description=main.__doc__, examples=examples)
    parser.add_argument(
        "run", metavar="RUN", type=Path, help="a run's directory, or one of its checkpoints"
    )
    parser.add_argument(
        "directory",
        metavar="NEW_FOLDER",
        type=Path,
        help="the folder to write; must be new or empty",
    )
    parser.add_argument("--checkpoint", metavar="N", help="the step (default: the last)")
    parser.add_argument("--merge", action="store_true", help="merge adapters into their model")
    parser.add_argument("--critic", action="store_true", help="the critic, a token classifier")
    parser.add_argument(
        "--scorer", action="store_true", help="the reward model, a sequence classifier"
    )
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], help="dtype of the weights")
    parser.add_argument("--push-to-hub", metavar="NAME", help="upload the folder as this name")
    parser.add_argument("--private", action="store_true", help="make the uploaded folder private")
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run code that the checkpoint's config names and rlcomp does not ship",
    )
    _check_words(sys.argv[1:])
    options = vars(parser.parse())
    if options["checkpoint"] is not None:
        options["checkpoint"] = _step(options["run"], options["checkpoint"])
    name, private = options.pop("push_to_hub"), options.pop("private")
    export(**options)
    print(printable(f"written: {options['directory']}"))
    if name:
        from rlcomp.model.export import upload

        print(printable(f"uploaded: {upload(options['directory'], name, private=private)}"))


# Options of other programs for arguments that are positional here.
_FOLDER_OPTIONS = ("--output", "--out", "-o", "--output-dir", "--save-path", "--target-dir")
_RUN_OPTIONS = ("--run", "--model", "--input", "--local-dir", "--base")
_VALUE_OPTIONS = ("--checkpoint", "--dtype", "--push-to-hub")


def _check_words(words: Sequence[str]) -> None:
    """Refuse options for positional arguments, and a checkpoint by its path.

    Raises:
        UserError: there are such words; the message names all of them, and the corrected line.
    """
    faults, run, folder_words = list[str](), list[str](), list[str]()
    plain, others = list[str](), list[str]()
    remaining = [part for w in words for part in (w.split("=", 1) if w.startswith("--") else [w])]
    while remaining:
        word = remaining.pop(0)
        name = word.replace("_", "-")
        value = (
            [remaining.pop(0)]
            if remaining and name in (*_FOLDER_OPTIONS, *_RUN_OPTIONS, *_VALUE_OPTIONS)
            else []
        )
        if name in _FOLDER_OPTIONS:
            faults.append(f"{word}: the new folder is the second word")
            folder_words += value
        elif name in _RUN_OPTIONS:
            faults.append(f"{word}: the run is the first word")
            run += value
        elif name == "--checkpoint" and "/" in "".join(value):
            faults.append(f"{word} takes a step; the path of a checkpoint is the first word")
            run = [*value, *run]
        else:
            (others if word.startswith("-") else plain).extend([word, *value])
    if faults:
        # The path of a checkpoint replaces the run.
        line = [
            (run or plain or ["RUN"])[0],
            (folder_words or plain[not run :][-1:] or ["NEW_FOLDER"])[0],
        ]
        whole = shlex.join(["rlcomp-export", *line, *others])
        raise UserError("\n".join([*faults, f"the whole line: {whole}"]))


def export(
    *,
    run: Path,
    directory: Path,
    checkpoint: int | None = None,
    merge: bool = False,
    critic: bool = False,
    scorer: bool = False,
    dtype: str | None = None,
    trust: bool = False,
) -> None:
    """Write a run's model into a new folder, all of it or nothing.

    Args:
        run: a run's directory, or one of its checkpoints.
        directory: must be new or empty.
        checkpoint: the step; by default the last one.
        merge: whether adapters are merged into their model.
        critic: whether to write the critic instead of the policy.
        scorer: whether to write the reward model instead of the policy.
        dtype: dtype of the weights; None: unchanged.
        trust: as for :func:`rlcomp.model.load_model.load_policy`.

    Raises:
        UserError: the folder is not empty, or both critic and reward model are requested.
        CheckpointError: as :func:`rlcomp.model.load_model.load_policy`, or there is no such
            step.
        ConfigError: transformers cannot represent the model.
    """
    if critic and scorer:
        raise UserError("--critic and --scorer: a folder holds one of them; write two folders")
    run_or_checkpoint = run if checkpoint is None else at_step(run, checkpoint)
    with _new_folder(directory) as draft:
        if critic:
            card = _write_critic(run_or_checkpoint, draft, dtype, trust)
        elif scorer:
            card = _write_scorer(run_or_checkpoint, draft, dtype, trust)
        else:
            card = _write_policy(run_or_checkpoint, draft, merge, dtype, trust)
        (draft / "README.md").write_text(card, encoding="utf-8")


@contextmanager
def _new_folder(directory: Path) -> Iterator[Path]:
    """Yield a new folder beside ``directory``; rename it to ``directory`` at the end."""
    target = directory.resolve()
    if directory.is_symlink() or (
        target.exists() and (not target.is_dir() or any(target.iterdir()))
    ):
        raise UserError(f"{directory} already exists: name a new folder, or an empty one")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(mkdtemp(prefix=f".tmp-{target.name}-", dir=target.parent))
    except OSError as error:
        raise UserError(f"{directory} cannot be written ({error}): name another folder") from error
    try:
        yield draft
        draft.chmod(0o777 & ~_umask())
        draft.replace(target)
    except OSError as error:
        raise UserError(f"{directory} cannot be written ({error}): name another folder") from error
    finally:
        rmtree(draft, ignore_errors=True)


def _umask() -> int:
    """Return the umask; a folder of ``mkdtemp`` has permissions only for its owner."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write_policy(
    run_or_checkpoint: Path, draft: Path, merge: bool, dtype: str | None, trust: bool
) -> str:
    """Write weights, config and tokenizer; return the model card."""
    from rlcomp.model.export import export_policy
    from rlcomp.model.language_model import LanguageModel
    from rlcomp.model.load_model import base_model_path, is_run, load_node, load_prompt_format
    from rlcomp.report.model_card import model_card
    from rlcomp.text.chat import ChatPrompt

    policy, config, checkpoint = load_node(run_or_checkpoint, "policy", LanguageModel, trust)
    prompt = load_prompt_format(config, checkpoint / "config.yaml", policy.tokenizer, trust)
    if isinstance(prompt, ChatPrompt):  # its template may be a file of the run's own
        policy.tokenizer.chat_template = prompt.template.source
    base = base_model_path(config)
    adapted_base = None if base is None or is_run(base) else base
    export_policy(_cast(policy, dtype), draft, merge=merge, base_model=adapted_base)
    return model_card(checkpoint, config, base=base)


def _write_critic(run_or_checkpoint: Path, draft: Path, dtype: str | None, trust: bool) -> str:
    """Write weights, config and the policy's tokenizer; return the model card."""
    from rlcomp.model.critics import Critic
    from rlcomp.model.export import export_critic
    from rlcomp.model.language_model import LanguageModel
    from rlcomp.model.load_model import base_model_path, load_node
    from rlcomp.report.model_card import model_card

    critic, config, checkpoint = load_node(run_or_checkpoint, "critic", Critic, trust)
    policy, _, _ = load_node(checkpoint, "policy", LanguageModel, trust)
    export_critic(_cast(critic, dtype), policy.tokenizer, draft)
    base = base_model_path(config)
    return model_card(checkpoint, config, base=base, pipeline="token-classification")


def _write_scorer(run_or_checkpoint: Path, draft: Path, dtype: str | None, trust: bool) -> str:
    """Write weights, config and tokenizer of the reward model; return the model card."""
    from rlcomp.model.export import export_scorer
    from rlcomp.model.load_model import base_model_path, load_node
    from rlcomp.model.scorer import Scorer
    from rlcomp.report.model_card import model_card

    scorer, config, checkpoint = load_node(run_or_checkpoint, "scorer", Scorer, trust)
    export_scorer(_cast(scorer, dtype), draft)
    return model_card(
        checkpoint, config, base=base_model_path(config), pipeline="text-classification"
    )


def _cast(part: Any, dtype: str | None) -> Any:  # noqa: ANN401
    import torch

    return part if dtype is None else part.to(getattr(torch, dtype))


def _step(run: Path, text: str) -> int:
    """Return the step that ``--checkpoint`` names; refuse other words with the saved steps."""
    if not re.fullmatch(r"\d{1,8}", text):
        raise CheckpointError(
            f"--checkpoint {text}: without --checkpoint it is the last; else one of "
            f"{_saved_steps(run)}"
        )
    return int(text)


def at_step(run: Path, step: int) -> Path:
    """Return the checkpoint of a run at a step.

    Raises:
        CheckpointError: there is no such step.
    """
    from rlcomp.checkpoint.position import step_name

    checkpoint_path = _checkpoint_folder(run) / step_name({"total": step})
    if not checkpoint_path.is_dir():
        raise CheckpointError(
            f"{run} has no checkpoint of step {step} (there are: {_saved_steps(run)})"
        )
    return checkpoint_path


def _checkpoint_folder(run: Path) -> Path:
    return run / "checkpoints" if (run / "checkpoints").is_dir() else run


def _saved_steps(run: Path) -> str:
    """Return the steps of a run's checkpoints."""
    from rlcomp.checkpoint.reader import list_checkpoints

    return (
        ", ".join(str(int(path.name[5:])) for path in list_checkpoints(_checkpoint_folder(run)))
        or "none"
    )


if __name__ == "__main__":
    main()
