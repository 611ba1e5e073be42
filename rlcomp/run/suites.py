"""Suites for a model that exists: its policy opened once, asked as it was trained to be asked."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple, cast

from omegaconf import DictConfig, OmegaConf

from rlcomp.errors import ConfigError, ConfigErrors, RlcompWarning
from rlcomp.interfaces.reward import check_decides
from rlcomp.interfaces.suite import Suite
from rlcomp.io.saved import open_checkpoint
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.trained import is_run, trained_part
from rlcomp.model.trained_prompt import trained_prompt
from rlcomp.run.evaluate import problems_of
from rlcomp.run.launch import device, place_on
from rlcomp.text.folder import check_at_hand
from rlcomp.wiring.base_model import check_base, check_models
from rlcomp.wiring.build import Builder
from rlcomp.wiring.checks.arguments import check_arguments
from rlcomp.wiring.checks.settings import check_settings
from rlcomp.wiring.composition import compose_or_explain
from rlcomp.wiring.plan import Plan, below, read
from rlcomp.wiring.reader import Node
from rlcomp.wiring.resolve import as_typed
from rlcomp.wiring.source import source_of

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


class Opened(NamedTuple):
    """A suite, built for a model, and all that its verdicts depend on."""

    name: str
    suite: Suite
    settings: Mapping[str, object]


def open_suites(
    model: str,
    suites: Sequence[str],
    overrides: Sequence[str],
    config_dirs: Sequence[str],
    trust: bool,
    later: Sequence[str] = (),
) -> list[Opened]:
    """Build suites around a model.

    A run is asked in the format, and samples from the distribution, that it was trained with,
    unless an override says otherwise.

    Args:
        model: a folder of ``save_pretrained``, a run, one of its checkpoints, or a hub name.
        suites: names of nodes.
        overrides: as for ``rlcomp``, ``+suite=[...]`` among them.
        config_dirs: directories of the user's own configs.
        trust: as for :func:`rlcomp.model.trained.trained_policy`.
        later: models that are asked after it: each is looked at before this one is read.

    Raises:
        ConfigError: what ``rlcomp`` would refuse; a model is not there; or a suite is no evaluator
            of answers.
        CheckpointError: as :func:`rlcomp.model.trained.trained_policy`.
        DataError: there is no model, or no file of problems.
    """
    base = [] if is_run(model) else [f"base={_quoted(model)}", "context_length=null"]
    # A small recipe stands in, of which only the policy is built; another one takes its place.
    config = compose_or_explain(["recipe=sft", *base, *overrides], config_dirs)
    where = device(str(config.device))
    plan = _checked(config, suites)
    builder = Builder(plan, int(config.seed))
    for name in suites:  # a missing file, before a model is read
        task = plan.nodes[name].arguments.get("task")
        if isinstance(task, Node) and not below(task):
            builder.build(task)
    check_at_hand_all([model, *later])
    if errors := check_base(plan):
        raise ConfigErrors(errors)
    asked = config.prompt
    if not base:
        asked = _take_run(builder, config, Path(model), overrides, trust)
    built = {name: builder.build(plan.nodes[name]) for name in suites}
    place_on(where, builder.built)
    given = {"weights": _weights(model), "seed": int(config.seed), "prompt": _plain(asked)}
    if base:
        _tell_of_template(builder.built["policy"], overrides)
    return [_opened(name, part, config, given) for name, part in built.items()]


def check_at_hand_all(models: Iterable[str]) -> None:
    """Refuse models that are not there, before the first of them is asked.

    Raises:
        ConfigErrors: names each of them.
    """
    named = {f"MODEL {model}": model for model in models if not is_run(model)}
    if faults := check_models(named):
        raise ConfigErrors([_as_words(fault) for fault in faults])
    try:
        check_at_hand(named)
    except ConfigErrors as error:
        raise ConfigErrors([_as_words(fault) for fault in error.messages]) from None


def _as_words(fault: str) -> str:
    """A fault of a setting as that of a word, which stands alone."""
    told = re.sub(r"^MODEL (.*?) is '\1'", r"\1", fault)
    told = re.sub(r"set MODEL .*?=", "write ", told)
    return re.sub(r"(?<=, )(then )?base=", r"\1write ", told)


def _quoted(path: str) -> str:
    return "'" + path.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _checked(config: DictConfig, suites: Sequence[str]) -> Plan:
    """The plan of the suites alone, with all that they are built of."""
    plan, errors = read(config)
    errors += [
        f"suite={name}: its yaml has no node {name!r}: call the evaluator in it as the file"
        for name in suites
        if name not in plan.nodes
    ]
    if errors:
        raise ConfigErrors(errors)
    nodes = [node for name in suites for node in (plan.nodes[name], *below(plan.nodes[name]))]
    small = Plan(plan.tree, {node.path: node for node in nodes}, {})
    if errors := check_settings(small) + check_arguments(small):
        raise ConfigErrors(as_typed(errors, (), plan))
    return small


def _take_run(
    builder: Builder, config: DictConfig, run: Path, overrides: Sequence[str], trust: bool
) -> DictConfig:
    """Let a run's policy stand for the config's, asked as it was trained; the prompt's config."""
    policy, saved, place = trained_part(run, "policy", LanguageModel, trust)
    builder.built["policy"] = policy
    words = [word.lstrip("+").replace("=", ".").split(".")[0] for word in overrides]
    if "decoding" in words:
        policy.decoding = builder.build(builder.plan.nodes["decoding"])
    if "prompt" in words:
        builder.built["tokenizer"] = policy.tokenizer
        return cast("DictConfig", config.prompt)
    asked = trained_prompt(saved, place / "config.yaml", policy.tokenizer, trust)
    builder.built["prompt"] = asked
    return cast("DictConfig", saved.get("prompt"))


def _tell_of_template(policy: object, overrides: Sequence[str]) -> None:
    template = isinstance(policy, LanguageModel) and policy.tokenizer.chat_template
    if template and not any(word.startswith(("prompt=", "prompt.")) for word in overrides):
        warnings.warn(
            "its tokenizer has a chat template, and problems are asked as plain texts: add "
            "prompt=chat to ask through the template",
            RlcompWarning,
            stacklevel=2,
        )


def _opened(name: str, suite: object, config: DictConfig, given: Mapping[str, object]) -> Opened:
    if not isinstance(suite, Suite):
        raise ConfigError(
            f"suite={name}: it is of class {type(suite).__name__}, which asks no problems: it must "
            "be an evaluator such as evaluator=accuracy"
        )
    check_decides(suite.reward, f"{name}.reward")
    settings = _settings(config[name])
    own = {"suite": name, "settings": settings, "problems": problems_of(suite)}
    own["code"] = _code(settings)
    return Opened(name, suite, {**own, "decoding": asdict(suite.policy.decoding), **given})


def _settings(config: DictConfig) -> object:
    """A suite's own settings, with what they refer to; policy and prompt are told by themselves."""
    told = OmegaConf.to_container(config, resolve=True)
    assert isinstance(told, dict)
    return {key: value for key, value in told.items() if key not in ("policy", "prompt")}


def _code(settings: object) -> str:
    """What tells a verifier from an edited one: a hash of the modules whose names are set."""
    told = hashlib.sha256()
    for name in sorted({*_names(settings)}):
        with suppress(ConfigError):  # a file, a pattern, a model's name
            found = source_of(name.rpartition(".")[0])
            told.update(found[0].read_bytes() if found else b"")
    return told.hexdigest()[:16]


def _names(value: object) -> Iterator[str]:
    """The dotted names among settings."""
    if isinstance(value, str) and _DOTTED.fullmatch(value):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _names(each)
    elif isinstance(value, list):
        for each in value:
            yield from _names(each)


def _plain(config: DictConfig | None) -> object:
    return None if config is None else OmegaConf.to_container(config, resolve=False)


def _weights(model: str) -> str:
    """What tells the weights at a path from others: names, sizes and times of its files."""
    place = open_checkpoint(Path(model)).path if is_run(model) else Path(model)
    told = hashlib.sha256(model.encode() if not place.is_dir() else b"")
    for file in sorted(place.rglob("*")) if place.is_dir() else ():
        if file.is_file():
            about = file.stat()
            told.update(f"{file.relative_to(place)} {about.st_size} {about.st_mtime_ns}\n".encode())
    return told.hexdigest()[:16]
