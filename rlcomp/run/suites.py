"""Suites for an existing model: its policy is opened once, with its training-time prompt."""

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

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.config.build import Builder
from rlcomp.config.checks.models import check_base, model_faults
from rlcomp.config.finding import messages
from rlcomp.config.plan import below
from rlcomp.config.reader import Node
from rlcomp.config.resolve import compose_or_explain, plan_of_nodes
from rlcomp.config.source import source_of
from rlcomp.errors import ConfigError, ConfigErrors, RlcompWarning
from rlcomp.interfaces.protocols import Suite
from rlcomp.interfaces.reward import check_decides
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.load_model import is_run, load_node, load_prompt_format
from rlcomp.run.evaluate import hash_problems
from rlcomp.run.launch import device, place_on
from rlcomp.text.folder import check_available

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


class OpenedSuite(NamedTuple):
    """Suite that is built for a model; ``settings`` is everything that its verdicts depend on."""

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
) -> list[OpenedSuite]:
    """Build suites around a model.

    A run uses the prompt format and the sampling distribution of its training, unless an override
    says otherwise.

    Args:
        model: a folder of ``save_pretrained``, a run, one of its checkpoints, or a hub name.
        suites: names of nodes.
        overrides: as for ``rlcomp``, including ``+suite=[...]``.
        config_dirs: directories of the user's own configs.
        trust: as for :func:`rlcomp.model.load_model.load_policy`.
        later: models of later calls; their existence is checked before this one is read.

    Raises:
        ConfigError: ``rlcomp`` would refuse the config; a model does not exist; or a suite is no
            evaluator of answers.
        CheckpointError: as :func:`rlcomp.model.load_model.load_policy`.
        DataError: there is no model, or no file of problems.
    """
    base = [] if is_run(model) else [f"base={_quote(model)}", "context_length=null"]
    # Only the policy of this small recipe is built; a run's policy replaces it.
    config = compose_or_explain(["recipe=sft", *base, *overrides], config_dirs)
    run_device = device(str(config.device))
    builder = _checked_builder(config, suites, [model, *later])
    prompt = config.prompt if base else _use_run_policy(builder, config, model, overrides, trust)
    built = {name: builder.build(builder.plan.nodes[name]) for name in suites}
    place_on(run_device, builder.built)
    common = {"weights": _hash_weights(model), "seed": int(config.seed)}
    common["prompt"] = _as_container(prompt)
    if base:
        _warn_unused_template(builder.built["policy"], overrides)
    return [_open_suite(name, part, config, common) for name, part in built.items()]


def _checked_builder(config: DictConfig, suites: Sequence[str], models: Sequence[str]) -> Builder:
    """Create the builder of the suites, and check that the files of suites and models exist.

    No model is read. The files of a suite are checked by building its task, if that takes no other
    node.

    Returns:
        The builder, which holds these tasks.
    """
    missing = {
        name: f"suite={name}: its yaml has no node {name!r}: call the evaluator in it as the file"
        for name in suites
    }
    plan = plan_of_nodes(config, missing)
    builder = Builder(plan, int(config.seed))
    for name in suites:
        task = plan.nodes[name].arguments.get("task")
        if isinstance(task, Node) and not below(task):
            builder.build(task)
    check_all_available(models)
    if errors := messages(check_base(plan)):
        raise ConfigErrors(errors)
    return builder


def check_all_available(models: Iterable[str]) -> None:
    """Refuse models that do not exist, before the first of them answers.

    Raises:
        ConfigErrors: the message names each of them.
    """
    named = {f"MODEL {model}": model for model in models if not is_run(model)}
    if faults := model_faults(named):
        raise ConfigErrors([_as_word_message(fault) for fault in faults])
    try:
        check_available(named)
    except ConfigErrors as error:
        raise ConfigErrors([_as_word_message(fault) for fault in error.messages]) from None


def _as_word_message(fault: str) -> str:
    """Rephrase a message on the setting ``MODEL name`` as one on a word of the command line.

    There a model is a word, not the value of a setting: ``MODEL name is 'name'`` becomes ``name``;
    ``set MODEL name=`` and ``base=`` become ``write``.
    """
    message = re.sub(r"^MODEL (.*?) is '\1'", r"\1", fault)
    message = re.sub(r"set MODEL .*?=", "write ", message)
    return re.sub(r"(?<=, )(then )?base=", r"\1write ", message)


def _quote(path: str) -> str:
    return "'" + path.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _use_run_policy(
    builder: Builder, config: DictConfig, run: str, overrides: Sequence[str], trust: bool
) -> DictConfig:
    """Use a run's policy and prompt format in the config; return the prompt's config."""
    policy, run_config, checkpoint = load_node(Path(run), "policy", LanguageModel, trust)
    builder.built["policy"] = policy
    names = [word.lstrip("+").replace("=", ".").split(".")[0] for word in overrides]
    if "decoding" in names:
        policy.decoding = builder.build(builder.plan.nodes["decoding"])
    if "prompt" in names:
        builder.built["tokenizer"] = policy.tokenizer
        return cast("DictConfig", config.prompt)
    prompt = load_prompt_format(run_config, checkpoint / "config.yaml", policy.tokenizer, trust)
    builder.built["prompt"] = prompt
    return cast("DictConfig", run_config.get("prompt"))


def _warn_unused_template(policy: object, overrides: Sequence[str]) -> None:
    template = isinstance(policy, LanguageModel) and policy.tokenizer.chat_template
    if template and not any(word.startswith(("prompt=", "prompt.")) for word in overrides):
        warnings.warn(
            "its tokenizer has a chat template, and problems are asked as plain texts: add "
            "prompt=chat to ask through the template",
            RlcompWarning,
            stacklevel=2,
        )


def _open_suite(
    name: str, suite: object, config: DictConfig, common: Mapping[str, object]
) -> OpenedSuite:
    if not isinstance(suite, Suite):
        raise ConfigError(
            f"suite={name}: it is of class {type(suite).__name__}, which asks no problems: it must "
            "be an evaluator such as evaluator=accuracy"
        )
    check_decides(suite.reward, f"{name}.reward")
    settings = _settings(config[name])
    header = {"suite": name, "settings": settings, "problems": hash_problems(suite)}
    header["code"] = _hash_code(settings)
    return OpenedSuite(name, suite, {**header, "decoding": asdict(suite.policy.decoding), **common})


def _settings(config: DictConfig) -> object:
    """Return a suite's own settings, references resolved, without policy and prompt."""
    settings = OmegaConf.to_container(config, resolve=True)
    assert isinstance(settings, dict)
    return {key: value for key, value in settings.items() if key not in ("policy", "prompt")}


def _hash_code(settings: object) -> str:
    """Hash the modules that settings name, so that an edited verifier has another hash."""
    digest = hashlib.sha256()
    for name in sorted({*_dotted_names(settings)}):
        with suppress(ConfigError):  # a file, a pattern, a model's name
            source = source_of(name.rpartition(".")[0])
            digest.update(source[0].read_bytes() if source else b"")
    return digest.hexdigest()[:16]


def _dotted_names(value: object) -> Iterator[str]:
    """Yield the dotted names among settings."""
    if isinstance(value, str) and _DOTTED.fullmatch(value):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _dotted_names(each)
    elif isinstance(value, list):
        for each in value:
            yield from _dotted_names(each)


def _as_container(config: DictConfig | None) -> object:
    return None if config is None else OmegaConf.to_container(config, resolve=False)


def _hash_weights(model: str) -> str:
    """Hash names, sizes and times of a model's files (or a hub name): others have another hash."""
    folder = open_checkpoint(Path(model)).path if is_run(model) else Path(model)
    digest = hashlib.sha256(model.encode() if not folder.is_dir() else b"")
    for file in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if file.is_file():
            stat = file.stat()
            digest.update(
                f"{file.relative_to(folder)} {stat.st_size} {stat.st_mtime_ns}\n".encode()
            )
    return digest.hexdigest()[:16]
