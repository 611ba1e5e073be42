"""Our names for options of other libraries, from ``foreign_options.yaml``."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from rlcomp.errors import as_dotted, nearest

TABLE: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("foreign_options.yaml").read_text(encoding="utf-8")
)
_SECTIONS = ("control", "machinery", "training", "runs")
# Our name for each setting of others, by the last names of its path.
OUR_NAMES: dict[str, str] = {
    word: entry["here"]
    for section in _SECTIONS
    for entry in TABLE[section]
    for word in entry["words"].split()
}
# Paths of settings of control that have the same unit here.
CONTROL_PATHS = {
    word: OUR_NAMES[word].split(" ")[0]
    for entry in TABLE["control"]
    for word in entry["words"].split()
    if re.match(
        r"(replay|environment|exploration|collector|loss\.objective|targets\.updater)\.",
        entry["here"],
    )
}
# Our name for each setting of others that only its whole path identifies.
FULL_KEYS: dict[str, str] = TABLE["whole"]


def our_option(group: str, option: str) -> str | None:
    """Return our name for another library's option of a group, or for the path of a model.

    The paths of a reward function and of a gymnasium environment have one, too. None: unknown.

    Examples:
        >>> our_option("advantage", "rloo"), our_option("advantage", "gae")
        ('advantage=leave_one_out', None)
        >>> our_option("model/Qwen", "Qwen3")
        'base=Qwen/Qwen3 (a folder, a run, or a name on the Hugging Face hub)'
    """
    if group.split("/")[0] == "model" and ("/" in group or "." in option):
        path = f"{group}/{option}".removeprefix("model/")
        return OUR_NAMES["model_name_or_path"].replace("DIR", path)
    if group == "reward" and "." in option:
        file = option.endswith(".py")
        function = f"{option[:-3]}.FUNCTION" if file else as_dotted(option) or option
        return f"reward=function reward.function={function}"
    if group == "environment" and re.search(r"-v\d+$", option):
        return f"environment.name={option} (of gymnasium)"
    options: dict[str, str] = TABLE["options"].get(group, {})
    return options.get(option.lower())


def plugin_hint(group: str, option: str) -> str | None:
    """Return a message that an option of a Hydra plugin is not installed; None for other options.

    Examples:
        >>> plugin_hint("hydra/launcher", "joblib")
        "hydra/launcher=joblib: its package is not installed: pip install 'rlcomp[sweep]'"
        >>> plugin_hint("hydra/launcher", "slurm")
        "hydra/launcher=slurm: there is no such option; did you mean 'submitit_slurm'? (known: \
basic, joblib, submitit_local, submitit_slurm)"
    """
    known: dict[str, str] | None = TABLE["plugins"].get(group)
    if known is None:
        return None
    if install := known.get(option):
        return f"{group}={option}: its package is not installed: pip install {install}"
    near = [name for name in known if option in name.split("_")]
    guess = f"; did you mean '{near[0]}'? (known: {', '.join(sorted(known))})" if near else ""
    return f"{group}={option}: there is no such option{guess or nearest(option, known)}"


def our_name(key: str) -> str | None:
    """Return our name for a setting of another library.

    Args:
        key: ``learning_rate``, ``--learning-rate``, ``algorithm.kl_ctrl.kl_coef``.

    Examples:
        >>> our_name("num_generations"), our_name("actor_rollout_ref.actor.clip_ratio_low")
        ('group_size', 'loss.trust_region.clip_low')
        >>> our_name("--top-p"), our_name("advantage")
        ('decoding.top_p', None)
    """
    known = known_key(key)
    return FULL_KEYS.get(known) or OUR_NAMES.get(known)


def known_key(key: str) -> str:
    """Return the last names of a known setting of another library; empty for an unknown one.

    Examples:
        >>> known_key("actor.clip-ratio"), known_key("data.train_batch_size"), known_key("loss")
        ('clip_ratio', 'train_batch_size', '')
    """
    words = key.lstrip("+~-").replace("-", "_").lower().split(".")
    ends = [".".join(words[start:]) for start in range(len(words))]
    return ends[0] if ends[0] in FULL_KEYS else next((end for end in ends if end in OUR_NAMES), "")


def near_foreign_name(name: str, group: str) -> str | None:
    """Return a similar word of another library, with our name for it in a group.

    Args:
        name: name of an unknown setting.
        group: its group.

    Examples:
        >>> near_foreign_name("clip_grad", "learner")
        'grad_clip, which is learner.max_grad_norm'
        >>> near_foreign_name("lora_dropuot", "adapter"), near_foreign_name("colour", "adapter")
        ('lora_dropout, which is nothing: adapter=lora has no dropout; leave it out', None)
    """
    words = {
        word: here
        for word, here in OUR_NAMES.items()
        if here.startswith(f"{group}.") or (here.startswith("nothing") and f"{group}=" in here)
    }
    words_of_name = sorted(name.lower().split("_"))
    same = [word for word in words if sorted(word.split("_")) == words_of_name]
    close = same or difflib.get_close_matches(name.lower(), words, n=1, cutoff=0.75)
    return f"{close[0]}, which is {words[close[0]]}" if close else None
