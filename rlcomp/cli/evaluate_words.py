"""Translation of words of lm-eval, lighteval and ``rlcomp`` to ``rlcomp-evaluate``'s."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from rlcomp.errors import UserError

_SUITES = ("gsm8k", "math500", "aime", "ifeval", "humaneval", "mbpp", "jsonl")
# Options of lm-eval and lighteval that have a value, and the equivalent here: "{}" is the value,
# None is nothing to set, and _option finds the equivalent of an empty text.
_OPTIONS = {
    "--model-args": "",
    "--tasks": "",
    "--model": "{}",
    "--model-path": "{}",
    "--model-name-or-path": "{}",
    "--suite": "suite={}",
    "--data": "data={}",
    "--limit": "limit={}",
    "--max-samples": "limit={}",
    "--seed": "seed={}",
    "--device": "device={}",
    "--output-path": "--out {}",
    "--output-dir": "--out {}",
    "--num-fewshot": None,
    "--batch-size": None,
    "--gen-kwargs": None,
    "--dtype": None,
}
# Options without a value.
_SWITCHES = {"--apply-chat-template": "prompt=chat", "--log-samples": None}
# Names of backends in lm-eval; no models.
_BACKENDS = ("hf", "vllm", "hf-auto", "hf-causal", "local")


def check_words(words: Sequence[str]) -> None:
    """Refuse the words of other programs.

    Raises:
        UserError: there are such words; the message names all of them, and the corrected line.
    """
    faults, line = list[str](), list[str]()
    remaining = [part for w in words for part in (w.split("=", 1) if w.startswith("--") else [w])]
    has_suite = any(re.match(r"\+?suite=", word) for word in words)
    while remaining:
        word = remaining.pop(0)
        name = word.replace("_", "-")
        if name in _OPTIONS:
            value = remaining.pop(0) if remaining and not remaining[0].startswith("--") else "VALUE"
            line += (ours := _option(name, value))
            faults.append(f"{word} {value}: {_describe(ours)}")
        elif name in _SWITCHES:
            line += (ours := [here] if (here := _SWITCHES[name]) else [])
            faults.append(f"{word}: {_describe(ours)}")
        elif not has_suite and (ours := _suite_words(word)) != [word]:
            line += ours
            faults.append(f"{word}: problems of your own are suite=jsonl; here it is {ours[0]}")
        else:
            line.append(word)
    if not faults:
        return
    if any(word.startswith("jsonl.") or "@jsonl." in word for word in line) and not has_suite:
        line.append("suite=jsonl")
    whole = shlex.join(["rlcomp-evaluate", *dict.fromkeys(line)])
    raise UserError("\n".join([*faults, f"the whole line: {whole}"]))


def _option(name: str, value: str) -> list[str]:
    """Return the equivalent of an option of another program; empty for none."""
    if name == "--model-args":
        path = re.search(r"(?:pretrained|model|model_name)=([^,]+)", value)
        return [path[1]] if path else []
    if name == "--tasks":
        tasks = [task for task in value.split(",") if task.split("_")[0] in _SUITES]
        names = ",".join(task.split("_")[0] for task in tasks)
        return [f"suite=[{names}]" if "," in names else f"suite={names or 'NAME'}", "data=FOLDER"]
    if name == "--model" and value in _BACKENDS:
        return []
    return (_OPTIONS[name] or "").format(value).split(" ", 1) if _OPTIONS[name] else []


def _describe(ours: Sequence[str]) -> str:
    return f"here it is {' '.join(ours)}" if ours else "there is nothing to set; leave it out"


def _suite_words(word: str) -> list[str]:
    """Return a setting of a task or a reward as one of the suite ``jsonl``; others unchanged."""
    key, is_set, value = word.partition("=")
    if not is_set:
        return [word]
    if key == "task.path" or (key == "task" and re.search(r"\.(jsonl?|csv|parquet)", value)):
        return [f"jsonl.task.path={value}"]
    if key == "task" and value == "file":
        return ["suite=jsonl"]
    if key == "reward":
        return [f"reward@jsonl.reward={value}"]
    return [f"jsonl.{word}"] if key.startswith(("task.", "reward.")) else [word]
