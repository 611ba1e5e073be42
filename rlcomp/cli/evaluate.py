"""``rlcomp-evaluate MODEL suite=[gsm8k,ifeval]``: benchmarks over local files."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console

from rlcomp.cli.command_arguments import Parser, positive_int
from rlcomp.cli.error_handler import run_program
from rlcomp.cli.escape import printable
from rlcomp.cli.evaluate_words import check_words
from rlcomp.errors import UserError, nearest

if TYPE_CHECKING:
    from rlcomp.report.evaluation import Scores
    from rlcomp.run.suites import OpenedSuite

# Short names of settings of every suite.
_SUITE_SETTINGS = {
    "limit": "num_prompts",
    "samples": "samples_per_prompt",
    "max_new_tokens": "max_new_tokens",
}
_OVERRIDE = re.compile(r"~|\+{0,2}[\w./@]+=")


class EvaluationRequest(NamedTuple):
    """Request of a command line.

    Attributes:
        suites: names of the suites.
        overrides: overrides of the config, with those of the suites.
        sampled: sample answers in addition to the greedy ones.
    """

    suites: list[str]
    overrides: list[str]
    sampled: bool


def main() -> None:
    """Evaluate models on suites of problems, side by side: right answers with intervals.

    A model is a folder of save_pretrained, a run, one of its checkpoints, or a name on the hub.
    Words: suite=[gsm8k,math500,aime,ifeval,humaneval,mbpp,jsonl]; data=FOLDER, where their files
    are; limit=N problems; samples=N, to sample answers beside the greedy ones; max_new_tokens=N;
    seed=N; and all settings of rlcomp, such as gsm8k.task.path=FILE, prompt=chat.
    """
    run_program(_app)


def _app() -> None:
    parser = Parser(prog="rlcomp-evaluate", description=main.__doc__)
    parser.add_argument("words", nargs="+", metavar="MODEL|WORD", help="models, and settings")
    parser.add_argument(
        "--checkpoint",
        type=positive_int,
        action="append",
        default=[],
        metavar="N",
        help="the step of a run (default: the last); several times for several steps",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("evaluations"),
        metavar="FOLDER",
        help="where verdicts are kept (evaluations); what is there is not asked again",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run code that a checkpoint's config names and rlcomp does not ship",
    )
    parser.add_argument("-cd", "--config-dir", action="append", default=[], help="your own configs")
    check_words(sys.argv[1:])
    options = parser.parse()
    models = [word for word in options.words if _is_model(word)]
    request = read_words([word for word in options.words if not _is_model(word)])
    _check_suites(request.suites, options.config_dir)
    if not models:
        raise UserError("no model is named: rlcomp-evaluate MODEL suite=..., MODEL a folder or run")
    checkpoints = [path for model in models for path in _checkpoints(model, options.checkpoint)]
    evaluate(checkpoints, request, options.out, options.config_dir, options.trust)


def _is_model(word: str) -> bool:
    return not _OVERRIDE.match(word) or Path(word).exists()


def read_words(words: Sequence[str]) -> EvaluationRequest:
    """Return the suites and overrides of a command line.

    Raises:
        UserError: no suite is named.

    Examples:
        >>> read_words(["suite=[gsm8k,ifeval]", "limit=20"]).overrides
        ['+suite=[gsm8k,ifeval]', 'gsm8k.num_prompts=20', 'ifeval.num_prompts=20']
    """
    named = [word.partition("=")[2] for word in words if re.match(r"\+?suite=", word)]
    suites = list(dict.fromkeys(re.findall(r"[\w-]+", named[-1]))) if named else []
    if not suites:
        raise UserError(
            "no suite is named: add suite=[gsm8k,math500,aime,ifeval] or some of them; problems of "
            "your own are suite=jsonl jsonl.task.path=FILE"
        )
    overrides, sampled = [f"+suite=[{','.join(suites)}]"], False
    for word in words:
        key, _, value = word.partition("=")
        sampled = sampled or key == "samples" or key.endswith(".samples_per_prompt")
        if key in _SUITE_SETTINGS:
            overrides += [f"{suite}.{_SUITE_SETTINGS[key]}={value}" for suite in suites]
        elif key == "data" and suites == ["jsonl"] and Path(value).is_file():
            overrides.append(f"jsonl.task.path={value}")
        elif key.lstrip("+") != "suite":
            overrides.append(word)
    return EvaluationRequest(suites, overrides, sampled)


def _check_suites(suites: Sequence[str], config_dirs: Sequence[str]) -> None:
    from rlcomp.config.options import config_directory, options_of

    known = options_of("suite", [config_directory(), *map(Path, config_dirs)])
    for suite in suites:
        if suite not in known:
            raise UserError(f"suite={suite}: there is no such suite{nearest(suite, known)}")


def _checkpoints(model: str, steps: Sequence[int]) -> list[str]:
    """Return a model, or a run's checkpoints of some steps."""
    from rlcomp.cli.export import at_step

    return [str(at_step(Path(model), step)) for step in steps] or [model]


def evaluate(
    models: Sequence[str],
    request: EvaluationRequest,
    out: Path,
    config_dirs: Sequence[str] = (),
    trust: bool = False,
) -> None:
    """Evaluate every model on every suite, write verdicts and summary, print the table.

    Args:
        models: folders, runs, checkpoints or names on the hub.
        request: suites and settings.
        out: the folder of verdicts, with a file for each model, suite and settings.
        config_dirs: directories of the user's own configs.
        trust: as for :func:`rlcomp.model.load_model.load_policy`.

    Raises:
        ConfigError: a setting cannot work.
        DataError: a suite's file is missing.
        UserError: the folder cannot be written.
    """
    from rlcomp.report.evaluation import compare, comparison_table, summary
    from rlcomp.run.suites import open_suites

    labels = column_names(list(dict.fromkeys(models)))
    scores: dict[str, dict[str, Scores]] = {suite: {} for suite in request.suites}
    for number, (model, label) in enumerate(labels.items()):
        later = [*labels][number + 1 :]
        for opened in open_suites(
            model, request.suites, request.overrides, config_dirs, trust, later
        ):
            scores[opened.name][label] = _scores(opened, label, request.sampled, out)
    lines = compare(scores)
    # No markup: a path may well hold "[/]".
    console = Console(width=None if sys.stdout.isatty() else 140, markup=False, emoji=False)
    console.print("right answers, with 95 % intervals over problems", soft_wrap=True)
    console.print(comparison_table(lines))
    with _writing_errors(out):
        (out / "summary.json").write_text(json.dumps(summary(lines), indent=1) + "\n")
    print(printable(f"verdicts: {out}"))


def column_names(models: Sequence[str]) -> dict[str, str]:
    """Return the column names of models: paths, shortened from the front if they are long.

    A checkpoint is ``RUN@STEP``. Names that would be equal are whole paths.

    Examples:
        >>> [*column_names(["Qwen/Qwen3-8B", "runs/a/checkpoints/step-00000040"]).values()]
        ['Qwen/Qwen3-8B', 'runs/a@40']
    """
    names = [re.sub(r"/checkpoints/step-0*([0-9]+)/?$", r"@\1", model) for model in models]
    shortened = [name if len(name) <= 40 else f"…{name[-39:]}" for name in names]
    short = dict(zip(models, shortened, strict=True))
    return short if len({*short.values()}) == len(models) else {model: model for model in models}


def _scores(opened: OpenedSuite, label: str, sampled: bool, out: Path) -> Scores:
    """Return the scores of a model on a suite: stored ones, or new ones."""
    from rlcomp.report.evaluation import read_scores, write_verdicts
    from rlcomp.run.evaluate import evaluate_suite

    header = {**opened.settings, "model": label, "sampled": sampled}
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:12]
    model = re.sub(r"[^\w.-]+", "_", label).strip("_.")
    file = out / opened.name / f"{model}-{digest}.jsonl"
    stored = read_scores(file, header)
    if stored is not None:
        print(printable(f"{opened.name}: {label}: kept from {file}"))
        return stored
    print(printable(f"{opened.name}: {label}: {len(opened.suite.examples)} problems"), flush=True)
    with _writing_errors(out):
        return write_verdicts(file, header, evaluate_suite(opened.suite, sampled=sampled))


@contextmanager
def _writing_errors(out: Path) -> Iterator[None]:
    """Report an error of writing into the folder as a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(f"--out {out} cannot be written ({error}): name another folder") from error


if __name__ == "__main__":
    main()
