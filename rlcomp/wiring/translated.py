"""Settings of other libraries with their values, as they are written here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from hydra.errors import HydraException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from rlcomp.wiring.base_model import with_base
from rlcomp.wiring.compose import compose_config
from rlcomp.wiring.options import config_directory
from rlcomp.wiring.other_words import known_by, option_here, word_here
from rlcomp.wiring.sifted import Refused, sift
from rlcomp.wiring.words_of_runs import RANKS

_NUMBER = r"\d+(\.\d*)?(e[+-]?\d+)?"
_CLIP = "loss.trust_region.clip_low={0} loss.trust_region.clip_high={0}"

# Where a remedy says more than the path of the setting that takes the value as it stands.
_TAKES = {
    **dict.fromkeys(
        ("train_batch_size", "rollout_batch_size", "batch_size"), "prompts.batch_size={}"
    ),
    **dict.fromkeys(("max_steps", "total_training_steps"), "phases.rl.steps={}"),
    **dict.fromkeys(RANKS, "adapter=lora adapter.rank={}"),
    **dict.fromkeys(("epsilon", "cliprange", "clip_ratio", "eps_clip"), _CLIP),
    **dict.fromkeys(("warmup_ratio", "lr_warmup_steps_ratio"), "learner.schedule.warmup={}"),
    "lora_alpha": "adapter=lora adapter.alpha={}",
}
# The same of those that take a text.
_TAKES_TEXT = {
    **dict.fromkeys(("model.path", "model_name_or_path", "model_name", "pretrain"), "base={}"),
    **dict.fromkeys(("output_dir", "save_path", "ckpt_path"), "directory={}"),
    **dict.fromkeys(("train_files", "prompt_data"), "task=file task.path={}"),
    **dict.fromkeys(("run_name", "experiment_name"), "tracker=wandb tracker.run_name={}"),
    **dict.fromkeys(("wandb_project", "project_name"), "tracker=wandb tracker.project={}"),
    "default_local_dir": "directory={}",
    "resume_from_checkpoint": "resume={}",
    "resume_from_path": "resume={}",
    "dataset_name": "task=hub task.name={}",
}
# The group whose option the value is.
_GROUPS = {
    "adv_estimator": "advantage",
    "advantage_estimator": "advantage",
    "loss_type": "loss",
    "loss_agg_mode": "loss/reduction",
    "importance_sampling_level": "loss/ratio",
    "report_to": "tracker",
    "logger": "tracker",
    "lr_scheduler_type": "schedule@learner.schedule",
}
# Whose values name methods as well.
_METHODS = ("loss_type", "adv_estimator", "advantage_estimator")
_SWITCHES = {
    ("use_peft", "true"): "adapter=lora",
    ("use_peft", "false"): "adapter=none",
    ("bf16", "true"): "engine=bfloat16",
    **{
        (name, value): "engine=bfloat16"
        for name in ("precision", "mixed_precision")
        for value in ("bf16", "bfloat16", "bf16-mixed", "bf16-true")
    },
    **{
        (name, value): f"{place}={ours}"
        for name, place in (
            ("kl_loss_type", "learner.losses.kl.estimator"),
            ("kl_penalty", "kl.estimator"),
        )
        for value, ours in (
            *(("kl", "k1"), ("mse", "k2"), ("low_var_kl", "k3"), ("abs", "abs")),
            *((same, same) for same in ("k1", "k2", "k3")),
        )
    },
    ("use_kl_loss", "true"): "kl=in_loss",
    ("use_kl_loss", "false"): "kl=none",
    ("use_kl_in_reward", "true"): "kl=in_reward",
    ("gradient_checkpointing", "true"): "engine.checkpointing=true",
    ("enable_gradient_checkpointing", "true"): "engine.checkpointing=true",
    **{
        (name, value): f"{setting}=null"
        for name, setting in (
            ("eval_strategy", "phases.rl.every.evaluation"),
            ("evaluation_strategy", "phases.rl.every.evaluation"),
            ("save_strategy", "phases.rl.every.checkpoint"),
        )
        for value in ("no", "none", "false")
    },
    ("use_cpu", "true"): "device=cpu",
    ("no_cuda", "true"): "device=cpu",
    ("resume_from_checkpoint", "true"): "resume=must",
    ("resume_from_checkpoint", "false"): "resume=never",
    ("scale_rewards", "true"): "advantage=group_mean_std",
    ("scale_rewards", "group"): "advantage=group_mean_std",
    ("scale_rewards", "batch"): "advantage=group_batch_std",
    ("scale_rewards", "false"): "advantage=group_mean",
    ("scale_rewards", "none"): "advantage=group_mean",
    ("norm_adv_by_std_in_grpo", "true"): "advantage=group_mean_std",
    ("norm_adv_by_std_in_grpo", "false"): "advantage=group_mean",
}


def translated(key: str, value: str) -> str | None:
    """The overrides that mean here what a setting of another library does; None: none that do.

    Where a value may mean something else here (a text, what is below 0), none does.

    Examples:
        >>> translated("actor_rollout_ref.rollout.n", "8")
        'group_size=8'
        >>> translated("algorithm.adv_estimator", "rloo"), translated("lora_r", "16")
        ('advantage=leave_one_out', 'adapter=lora adapter.rank=16')
        >>> translated("ppo_mini_batch_size", "64"), translated("top_k", "-1")
        (None, None)
    """
    word = known_by(key)
    if not word or not value:
        return None
    if group := _GROUPS.get(word):
        return _option(group, value)
    if (word, value.lower()) in _SWITCHES:
        return _SWITCHES[word, value.lower()]
    if word in _TAKES_TEXT:
        return _TAKES_TEXT[word].format(value)
    plain = word_here(word) or ""
    takes = _TAKES.get(word) or (f"{plain}={{}}" if re.fullmatch(r"[\w.]+", plain) else None)
    return takes.format(value) if takes and re.fullmatch(_NUMBER, value, re.I) else None


def _option(group: str, value: str) -> str | None:
    """An option of a group, by its name here or elsewhere."""
    folder, _, at = group.partition("@")
    if here := option_here(folder, value):
        return here if re.fullmatch(r"[\w/]+=\w+", here) and not at else None
    there = (config_directory() / folder / f"{value.lower()}.yaml").is_file()
    return f"{group}={value.lower()}" if there else None


def in_our_words(key: str, value: str) -> str | None:
    """What a setting of another library is here, with the value it was given where that fits.

    Examples:
        >>> in_our_words("data.train_batch_size", "64")
        'prompts.batch_size=64 (prompts a step, each answered group_size times)'
        >>> in_our_words("temperature", "warm"), in_our_words("no_such", "1")
        ('decoding.temperature', None)
    """
    here, own = word_here(key), translated(key, value)
    if here is None or own is None:
        return here
    path, _, about = here.partition(" ")
    whole = f"recipe={own.rpartition('=')[2]}"
    if known_by(key) in _METHODS and whole != own and _is_recipe(whole):
        return f"{own} (the part alone; the whole method is {whole})"
    return f"{own} {about}" if about.startswith("(") and own.startswith(f"{path}=") else own


def _is_recipe(word: str) -> bool:
    return (config_directory() / f"{word.replace('=', '/')}.yaml").is_file()


def all_refused(error: Exception, words: Sequence[str], config_dirs: Sequence[str]) -> Refused:
    """Each word of a command line that the config does not know, in order, with the error.

    Where an option is not there, what only that option has may be among the others: of these only
    the words of other libraries.

    Args:
        error: what composing ended with.
        words: of the command line.
        config_dirs: directories of the user's own configs.
    """
    given = overrides_in(words)
    sweep = {"-m", "--multirun"} & {*words}
    if isinstance(error, OverrideParseException) or sweep or len(given) < 2:
        return []
    try:
        _, refused = sift(lambda texts: compose_config(texts, config_dirs), given)
    except (HydraException, OmegaConfBaseException, ValueError):
        return []  # what is wrong lies elsewhere: a directory that is not there
    if any("Could not find" in str(one) for _, one in refused):
        refused = [
            (word, one)
            for word, one in refused
            if "Could not find" in str(one) or _is_foreign(word.partition("=")[0])
        ]
    return sorted(refused, key=lambda one: given.index(one[0]))


def _is_foreign(key: str) -> bool:
    return bool(known_by(key)) and not (config_directory() / key.split(".")[0]).is_dir()


def corrected(
    words: Sequence[str],
    refused: Mapping[str, str],
    config_dirs: Sequence[str],
    fit: Callable[[str], str | None],
) -> list[str]:
    """The command line in our words, where each refused one was told what it is here.

    Those whose value has another meaning here are left out and named.

    Args:
        words: of the command line.
        refused: of these, with what was told of each.
        config_dirs: directories of the user's own configs.
        fit: gives overrides as the choices of this line take them.
    """
    own = as_typed(words)
    found = {word: _ours(*word.partition("=")[::2]) for word in refused}
    ours = {word: fit(one or word) for word, one in found.items()}
    known = {word for word, one in ours.items() if one and one in refused[word]}
    # What has another unit here, or is nothing here, is left to the recipe.
    left = [word for word in own if word in {*refused} - known]
    instead = {**dict.fromkeys(left, ""), **{word: str(ours[word]) for word in known}}
    line = [one for word in own for one in (instead[word].split() if word in instead else [word])]
    if line == own:
        return []  # it would be refused again
    kept = known or any(word not in refused for word in own)
    if len(own) < 2 or not kept or not all(_is_said(refused[word]) for word in left):
        return []
    but = [word.partition("=")[0] for word in left if _NOTHING not in refused[word]]
    without = f" without {', '.join(but)}" if but else ""
    return [f"the whole line{without}: {whole_line(line)}"] if _composes(line, config_dirs) else []


# How a setting is told that has no like here, and needs none.
_NOTHING = "here it is nothing to set"


def _is_said(told: str) -> bool:
    """Whether it was told what a setting is here, so that it may be set later on."""
    return "is not in the config; here it is " in told


def _ours(key: str, value: str) -> str | None:
    return translated(key, value) or _option(key.lstrip("+"), value)


def _composes(words: Sequence[str], config_dirs: Sequence[str]) -> bool:
    try:
        compose_config(overrides_in(words), config_dirs)
    except (HydraException, OmegaConfBaseException, ValueError):
        return False
    return True


def as_typed(words: Sequence[str]) -> list[str]:
    """A command line without what ``base=DIR`` chooses."""
    own = [*words]
    return own[:-2] if with_base(own[:-2]) == own else own


def overrides_in(words: Sequence[str]) -> list[str]:
    """Those words of a command line that set something."""
    return [word for word in words if "=" in word and not word.startswith("-")]


def whole_line(words: Sequence[str]) -> str:
    """A command line, each word once, as it is typed in a shell."""
    return " ".join(["rlcomp", *map(in_shell, dict.fromkeys(words))])


def in_shell(word: str) -> str:
    r"""A word as it is typed in a shell: in quotes where the shell would read it otherwise.

    Examples:
        >>> print(in_shell("seed=0,1"), in_shell('directory="my runs"'), in_shell("a=it's"))
        seed=0,1 'directory="my runs"' "a=it's"
    """
    if re.fullmatch(r"[\w@%+=:,./~-]+", word):
        return word
    if "'" not in word:
        return f"'{word}'"
    escaped = re.sub(r'([\\"$`])', r"\\\1", word)
    return f'"{escaped}"'
