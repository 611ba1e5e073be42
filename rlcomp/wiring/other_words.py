"""Our names for options of TRL, verl, OpenRLHF, transformers, SB3 and CleanRL."""

from __future__ import annotations

import difflib
import re

from rlcomp.errors import as_dotted, nearest
from rlcomp.wiring.words_of_control import CONTROL
from rlcomp.wiring.words_of_options import OPTIONS, PLUGINS
from rlcomp.wiring.words_of_runs import PRETRAINED, RUNS
from rlcomp.wiring.words_of_trainers import TRAINERS
from rlcomp.wiring.words_of_training import TRAINING

_HERE = {**CONTROL, **TRAINERS, **TRAINING, **RUNS}

# Where nothing stands behind it.
_WHOLE = dict.fromkeys(
    ("algorithm", "algo", "trainer"),
    "recipe=grpo, whose parts are groups of options (rlcomp --help)",
)


def option_here(group: str, option: str) -> str | None:
    """What another library's option of a group is called here; a path of a model is one too.

    Examples:
        >>> option_here("advantage", "rloo"), option_here("advantage", "gae")
        ('advantage=leave_one_out', None)
        >>> option_here("model/Qwen", "Qwen3")
        'base=Qwen/Qwen3 (a folder, a run, or a name on the Hugging Face hub)'
    """
    if group.split("/")[0] == "model" and ("/" in group or "." in option):
        path = f"{group}/{option}".removeprefix("model/")
        return PRETRAINED.replace("DIR", path)
    if group == "reward" and "." in option:
        file = option.endswith(".py")
        own = f"{option[:-3]}.FUNCTION" if file else as_dotted(option) or option
        return f"reward=function reward.function={own}"
    if group == "environment" and re.search(r"-v\d+$", option):
        return f"environment.name={option} (of gymnasium)"
    return OPTIONS.get((group, option.lower()))


def plugin_hint(group: str, option: str) -> str | None:
    """Explain that an option of a Hydra plugin is not installed; None for other options.

    Examples:
        >>> plugin_hint("hydra/launcher", "joblib")
        "hydra/launcher=joblib: its package is not installed: pip install 'rlcomp[sweep]'"
        >>> plugin_hint("hydra/launcher", "slurm")
        "hydra/launcher=slurm: there is no such option; did you mean 'submitit_slurm'? (known: \
basic, joblib, submitit_local, submitit_slurm)"
    """
    known = PLUGINS.get(group)
    if known is None:
        return None
    if install := known.get(option):
        return f"{group}={option}: its package is not installed: pip install {install}"
    near = [one for one in known if option in one.split("_")]
    guess = f"; did you mean '{near[0]}'? (known: {', '.join(sorted(known))})" if near else ""
    return f"{group}={option}: there is no such option{guess or nearest(option, known)}"


def word_here(key: str) -> str | None:
    """What an option of another library is called here.

    Args:
        key: as it was given: ``learning_rate``, ``--learning-rate``, ``algorithm.kl_ctrl.kl_coef``.

    Examples:
        >>> word_here("num_generations"), word_here("actor_rollout_ref.actor.clip_ratio_low")
        ('group_size', 'loss.trust_region.clip_low')
        >>> word_here("--top-p"), word_here("advantage")
        ('decoding.top_p', None)
    """
    known = known_by(key)
    return _WHOLE.get(known) or _HERE.get(known)


def known_by(key: str) -> str:
    """The last words by which an option of another library is known; empty: none is.

    Examples:
        >>> known_by("actor.clip-ratio"), known_by("data.train_batch_size"), known_by("loss")
        ('clip_ratio', 'train_batch_size', '')
    """
    words = key.lstrip("+~-").replace("-", "_").lower().split(".")
    ends = [".".join(words[start:]) for start in range(len(words))]
    return ends[0] if ends[0] in _WHOLE else next((end for end in ends if end in _HERE), "")


def near_word(name: str, group: str) -> str | None:
    """A word of another library like this one that is set in a group here, and what it is here.

    Args:
        name: of a setting that nobody has.
        group: below which it was looked for.

    Examples:
        >>> near_word("clip_grad", "learner")
        'grad_clip, which is learner.max_grad_norm'
        >>> near_word("lora_dropuot", "adapter"), near_word("colour", "adapter")
        ('lora_dropout, which is nothing: adapter=lora has no dropout; leave it out', None)
    """
    words = {
        word: here
        for word, here in _HERE.items()
        if here.startswith(f"{group}.") or (here.startswith("nothing") and f"{group}=" in here)
    }
    asked = sorted(name.lower().split("_"))
    same = [word for word in words if sorted(word.split("_")) == asked]
    close = same or difflib.get_close_matches(name.lower(), words, n=1, cutoff=0.75)
    return f"{close[0]}, which is {words[close[0]]}" if close else None
