"""``rlcomp-audit reward=… task=…``: attack a verifier, or measure a judge, before training."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from rlcomp.cli.command_arguments import Parser, positive_int
from rlcomp.cli.error_handler import run_program
from rlcomp.cli.escape import printable
from rlcomp.errors import ConfigError, UserError, nearest

if TYPE_CHECKING:
    import argparse

    from omegaconf import DictConfig

    from rlcomp.audit.audit import Audit
    from rlcomp.config.plan import Plan
    from rlcomp.report.judge import JudgeReport

# Keys that a text response provides; with a tokenizer, also the keys of its tokens.
_TEXTS = {"prompt", "response", "answer", "answer_ends", "columns", "group_id"}
_TOKENS = {"tokens", "attention_mask", "response_mask"}


def main() -> None:
    """Attack a reward with wrong answers; exit code 1 if it accepts one that cannot be right.

    The exit code is also 1 if it accepts no gold answer in any form: then little was tried.
    The answers are empty, hedging, stuffed, copied, degenerate or mutated, in every form that it
    reads. With pairwise_judge=... a judge compares the pairs of the task in both orders: the report
    has its agreement and its biases of position, length and self-preference. Then the exit code is
    1 unless the judge is shown to beat a coin.
    """
    run_program(_app)


def _app() -> None:
    parser = Parser(prog="rlcomp-audit", description=main.__doc__)
    parser.add_argument(
        "overrides", nargs="*", help="as for rlcomp, e.g. reward=numeric task=gsm8k"
    )
    parser.add_argument(
        "--rows", type=positive_int, help="examples of the task (20; 200 pairs for a judge)"
    )
    parser.add_argument("--seed", type=int, default=0, help="which examples (0)")
    parser.add_argument(
        "--form",
        action="append",
        default=[],
        metavar="TEXT",
        help="how an answer is given, beside the usual forms, e.g. '<final>{answer}</final>'",
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="KIND",
        help="a kind of answers that may be right for this verifier, whatever is the rule",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write what was found")
    parser.add_argument("-cd", "--config-dir", action="append", default=[], help="your own configs")
    check_words(sys.argv[1:])
    options = parser.parse()
    from rlcomp.audit.attacks import KINDS

    for kind in options.allow:
        if kind not in KINDS:
            raise UserError(f"--allow {kind!r:.60}: there is no such kind{nearest(kind, KINDS)}")
    if options.json is not None and options.json.exists():
        raise UserError(f"--json {options.json} already exists: name a new file")
    show = _show_judge if names_judge(options.overrides) else _show_verifier
    if show(options):
        sys.exit(1)


def _show_verifier(options: argparse.Namespace) -> bool:
    """Print the audit of a reward; return whether it fails."""
    rows = options.rows or 20
    report = audit_reward(options.overrides, options.config_dir, rows, options.seed, options.form)
    from rlcomp.report.audit import audit_as_json, audit_tables

    _print(audit_tables(report, options.allow))
    if options.json is not None:
        _write(options.json, audit_as_json(report, options.allow))
    return bool(
        report.false_accepts(options.allow) or (report.gold.tried and not report.gold.accepted)
    )


def _show_judge(options: argparse.Namespace) -> bool:
    """Print the report on a judge; return whether it is not shown to beat a coin."""
    if options.form or options.allow:
        raise UserError("--form and --allow are for verifiers: leave them out for a judge of pairs")
    report = audit_judge(options.overrides, options.config_dir, options.rows or 200, options.seed)
    from rlcomp.report.judge import judge_as_json, judge_tables

    _print(judge_tables(report))
    if options.json is not None:
        _write(options.json, judge_as_json(report))
    return not report.agreement.low > 0.5


def _print(parts: Sequence[object]) -> None:
    # No markup: answers hold "[/]", and worse.
    console = Console(width=None if sys.stdout.isatty() else 140, markup=False, emoji=False)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))


_JUDGE_WORD = re.compile(r"\+{0,2}pairwise_judge=")
# Options with a value that is not a setting.
_VALUED = ("--rows", "--seed", "--form", "--allow", "--json", "-cd", "--config-dir")
_FILE = re.compile(r".*\.(jsonl?|jsonl\.gz|parquet|csv)")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def check_words(words: Sequence[str]) -> None:
    """Check that tasks and rewards are written as settings.

    Raises:
        UserError: a task or reward is no setting; the message names the word, and the whole line in
            its correct form.
    """
    line, faults, remaining = list[str](), list[str](), [*words]
    while remaining:
        word = remaining.pop(0)
        name, _, value = word.partition("=")
        if (Path(word) / "run.yaml").is_file():
            line += (own_words := _words_of_run(Path(word)))
            faults.append(f"{word}: it is a run; its reward and task are {' '.join(own_words)}")
            continue
        if name in ("--task", "--reward"):
            value = value or (remaining.pop(0) if remaining else "NAME")
            ours = _setting(name[2:], value)
        elif word in _VALUED:
            line += [word, *remaining[:1]]
            del remaining[:1]
            continue
        elif _FILE.fullmatch(word) and "=" not in word:
            ours = _setting("task", word)
        else:
            ours = _setting("reward", word) if _DOTTED.fullmatch(word) else [word]
        if ours != [word]:
            faults.append(f"{word}: settings are written key=value; here it is {shlex.join(ours)}")
        line += ours
    if faults:
        raise UserError("\n".join([*faults, f"the whole line: rlcomp-audit {shlex.join(line)}"]))


def _words_of_run(run: Path) -> list[str]:
    """Return the words of a run's command line that choose its reward and its task."""
    from rlcomp.files.run_record import read_run_record

    attempt = read_run_record(run)
    pattern = re.compile(r"\+{0,2}(recipe|experiment|reward\w*|task|tokenizer|base)([.@=])")
    words = [word for word in attempt.overrides if pattern.match(word)]
    keys = {word.partition("=")[0] for word in words if "=" in word}
    chosen = [f"{name}={attempt.choices[name]}" for name in ("reward", "task") if name not in keys]
    return [*words, *chosen]


def _setting(group: str, value: str) -> list[str]:
    """Return a task or a reward as a setting: by its name, its file or its function."""
    if group == "task" and ("/" in value or "." in value):
        return ["task=file", f"task.path={value}"]
    if group == "reward" and "." in value:
        function = value.replace(".py:", ".").replace(":", ".")
        return ["reward=function", f"reward.function={function}"]
    return [f"{group}={value}"]


def _write(file: Path, report: object) -> None:
    try:
        file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"--json {file} cannot be written ({error}): name another file") from error
    print(printable(f"written: {file}"))


def audit_reward(
    overrides: Sequence[str],
    config_dirs: Sequence[str] = (),
    rows: int = 20,
    seed: int = 0,
    forms: Sequence[str] = (),
) -> Audit:
    """Audit the reward of a command line on examples of its task.

    Args:
        overrides: as for ``rlcomp``.
        config_dirs: directories of the user's own configs.
        rows: number of examples; all of them, if the task has fewer.
        seed: seed of the choice of examples.
        forms: the user's forms of answers, in addition to :data:`rlcomp.audit.wrong_answers.FORMS`.

    Raises:
        ConfigError: reward or task cannot be built; the reward reads keys that no text provides; or
            it judges an answer by others.
    """
    from rlcomp.audit.audit import RewardJudge, audit, examples_of
    from rlcomp.audit.wrong_answers import all_forms
    from rlcomp.config.build import Builder
    from rlcomp.config.resolve import compose_or_explain

    answer_forms = all_forms(forms)
    plan, reads_tokens = _plan(compose_or_explain(overrides, config_dirs))
    builder = Builder(plan, int(plan.tree["seed"]))
    task: Any = builder.build(plan.nodes["task"])
    reward: Any = builder.build(plan.nodes["reward"])
    if reward.min_group_size > 1:
        raise ConfigError(
            f"reward is a {type(reward).__name__}, which judges an answer by the others of its "
            "group: audit the verifier in it, reward=..."
        )
    tokenizer: Any = builder.build(plan.nodes["tokenizer"]) if reads_tokens else None
    examples, judge = examples_of(task, rows, seed), RewardJudge(reward, tokenizer)
    judge.check(examples[0])
    return audit(examples, judge, answer_forms)


def _plan(config: DictConfig) -> tuple[Plan, bool]:
    """Return the plan of reward and task, and whether the reward reads tokens.

    Raises:
        ConfigError: a node is missing or wrong; or the reward reads keys that no text provides.
    """
    from rlcomp.config.flow_source import flow_of
    from rlcomp.config.resolve import plan_of_nodes

    names = ["reward", "task"]
    plan = plan_of_nodes(config, _missing(names), check_values=False)
    reads = flow_of(plan.nodes["reward"]).reads
    if unknown := sorted(reads - _TEXTS - _TOKENS):
        raise ConfigError(
            f"reward reads {', '.join(unknown)}, which a text alone does not give: audit the part "
            "of it that judges texts, reward=..."
        )
    if reads & _TOKENS:
        names.append("tokenizer")
    return plan_of_nodes(config, _missing(names)), "tokenizer" in names


def _missing(names: Sequence[str]) -> dict[str, str]:
    """Return for each node the message on a config that lacks it."""
    return {name: f"there is no {name}: set {name}=..." for name in names}


def names_judge(words: Sequence[str]) -> bool:
    """Return whether a command line names a pairwise judge.

    Examples:
        >>> names_judge(["pairwise_judge=endpoint"]), names_judge(["reward=numeric"])
        (True, False)
    """
    return any(_JUDGE_WORD.match(word) for word in words)


def audit_judge(
    overrides: Sequence[str], config_dirs: Sequence[str], rows: int, seed: int
) -> JudgeReport:
    """Return the report on the pairwise judge of a command line, on pairs of its task.

    Args:
        overrides: as for ``rlcomp``, with ``pairwise_judge=...``.
        config_dirs: directories of the user's own configs.
        rows: number of pairs; all of them, if the task has fewer.
        seed: seed of the choice of pairs.

    Raises:
        ConfigError: judge or task cannot be built.
        DataError: the task has no pairs, or the judge gives no verdict.
    """
    from rlcomp.audit.audit import examples_of
    from rlcomp.config.build import Builder
    from rlcomp.config.resolve import compose_or_explain, plan_of_nodes
    from rlcomp.report.judge import judge_report, labelled_pair

    words = [_JUDGE_WORD.sub("+pairwise_judge=", word) for word in overrides]
    config = compose_or_explain(words, config_dirs)
    plan = plan_of_nodes(config, _missing(["pairwise_judge", "task"]))
    builder = Builder(plan, int(plan.tree["seed"]))
    task: Any = builder.build(plan.nodes["task"])
    # A task without pairs is reported before a model is loaded.
    pairs = [labelled_pair(example) for example in examples_of(task, rows, seed)]
    judge: Any = builder.build(plan.nodes["pairwise_judge"])
    return judge_report(judge, pairs)


if __name__ == "__main__":
    main()
